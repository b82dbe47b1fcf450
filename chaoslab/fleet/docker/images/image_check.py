"""Check of an image before a run: whether it has Python and the programs of the nodes.

    a container of the image, without a network ─► python3 looks for the modules
                                                └► what it does not find, or why it cannot be asked

For images that a plan names; those of `images` have all that nodes need. Nothing is imported
but the packages that the modules are in, and the container is gone when the answer is there.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits
from chaoslab.fleet.docker.engine.labels import labels_of, trial_name

_LOOK: Final = """
import importlib.util, json, sys
def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
print(json.dumps([name for name in sys.argv[1:] if not is_there(name)]))
"""
_LIMITS: Final = Limits(cpus=1.0, memory_bytes=512 << 20, processes=64)
_PATIENCE_S: Final = 60.0


def why_unfit(engine: Engine, image: str, modules: Sequence[str]) -> str:
    """Why an existing image cannot be used; empty if it can."""
    return _why_unfit(engine.url, engine.image_id(image) or image, tuple(modules))


@cache
def _why_unfit(url: str, image: str, modules: tuple[str, ...]) -> str:
    try:
        with closing(Engine.connect(url)) as engine:
            said = asked_of_image(engine, image, ("python3", "-c", _LOOK, *modules))
    except FleetError as error:
        return str(error)
    try:
        missing = json.loads(said)
    except ValueError:
        return f"its python3 cannot be asked what it has: {said[-300:]!r}"
    return f"python3 finds no {', '.join(missing)} in it" if missing else ""


def asked_of_image(
    engine: Engine,
    image: str,
    command: tuple[str, ...],
    *,
    environment: Mapping[str, str] | None = None,
    mounts: Mapping[str, str] | None = None,
    limits: Limits = _LIMITS,
    within_s: float = _PATIENCE_S,
) -> str:
    """Output of a container of the image; FleetError if it cannot run."""
    folders, name = dict(mounts or {}), trial_name()
    return engine.run(
        ContainerSpec(
            name=name, image=image, command=command, limits=limits, network="none",
            labels=labels_of(name, "a trial"), environment=dict(environment or {}),
            volumes=folders, read_only=frozenset(folders),
        ),
        within_s,
    )  # fmt: skip
