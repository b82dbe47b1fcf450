"""A Docker engine for tests, and a fleet on it that needs nothing but Python in its image.

Importing this skips a module of tests where the Docker SDK is missing; CHAOSLAB_REQUIRE=docker
makes that, and the absence of an engine, a failure.
"""

import os
from pathlib import Path

import pytest

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.undo.base import UndoLog
from tests.contracts import node_program

IS_REQUIRED = "docker" in os.environ.get("CHAOSLAB_REQUIRE", "")
if not IS_REQUIRED:
    pytest.importorskip("docker.errors", reason="the Docker SDK is missing", exc_type=ImportError)

from chaoslab.fleet.docker.engine.engine import Engine, Limits  # noqa: E402 - see above
from chaoslab.fleet.docker.fleet import DockerFleet  # noqa: E402
from chaoslab.fleet.docker.images.images import base_there  # noqa: E402
from chaoslab.fleet.docker.run_context import Setup  # noqa: E402

__all__ = ["DockerFleet", "Engine", "base_here", "engine_or_skip", "learner", "small_fleet"]
LIMITS = Limits(cpus=2.0, memory_bytes=512 << 20, processes=128)


def base_here(engine: Engine) -> str:
    """An image with Python that is on the engine already; AbilityError if there is none."""
    if found := base_there(engine):
        return found
    raise AbilityError(f"{engine.url} has no image with Python: run `chaoslab doctor images build`")


def engine_or_skip() -> Engine:
    """An engine that has an image with Python."""
    try:
        engine = Engine.connect()
        base_here(engine)
    except AbilityError as error:
        if IS_REQUIRED:
            raise
        pytest.skip(str(error))
    return engine


def small_fleet(
    run_directory: Path, clock: Clock, engine: Engine, undo_log: UndoLog
) -> DockerFleet:
    """Its nodes run whatever the image has that the real ones begin with."""
    image = base_here(engine)
    setup = Setup(image=image, limits=LIMITS, releases={"other": f"{image}-other"})
    return DockerFleet(run_directory, clock, undo_log=undo_log, engine=engine, setup=setup)


def learner(name: str, *flags: str) -> NodeSpec:
    """The stand-in for a learner; its source travels on the command line."""
    source = Path(node_program.__file__).read_text(encoding="utf-8")
    command = ("python3", "-S", "-c", source, "--name", name, "--incarnation", "{incarnation}")
    return NodeSpec(
        name=name, role=Role.LEARNER, command=(*command, *flags), labels={"region": "eu"}
    )
