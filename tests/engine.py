"""A Docker engine for tests, and a fleet on it that needs nothing but Python in its image."""

import os
from pathlib import Path

import pytest

from chaoslab.clock import Clock
from chaoslab.errors import AbilityError
from chaoslab.fleet.base import ObligationLog
from chaoslab.fleet.docker.engine import Engine, Limits
from chaoslab.fleet.docker.fleet import DockerFleet, Setup
from chaoslab.fleet.docker.images import base_here

LIMITS = Limits(cpus=2.0, memory_bytes=512 << 20, processes=128)


def engine_or_skip() -> Engine:
    """The engine. CHAOSLAB_REQUIRE=docker makes its absence a failure."""
    try:
        return Engine.connect()
    except AbilityError as error:
        if "docker" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        pytest.skip(str(error))


def small_fleet(
    run_directory: Path, clock: Clock, engine: Engine, obligations: ObligationLog
) -> DockerFleet:
    """Its nodes run whatever the image has that the real ones begin with."""
    setup = Setup(image=base_here(engine), limits=LIMITS)
    return DockerFleet(run_directory, clock, obligations=obligations, engine=engine, setup=setup)
