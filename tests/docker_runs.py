"""Whole runs on containers, for tests: the engine with the images, and what is left on it."""

from pathlib import Path

import pytest

from chaoslab.fleet.run_name import run_name
from tests.engine import IS_REQUIRED, Engine, engine_or_skip

from chaoslab.fleet.docker.images import images  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.run_resources import remains  # isort: skip

__all__ = [
    "Engine", "engine_with_images", "left_on_engine",
]  # fmt: skip


def engine_with_images() -> Engine:
    """One that has the images of this very source."""
    engine = engine_or_skip()
    if engine.image_id(images.source().image) is None and not IS_REQUIRED:
        pytest.skip("the images of this source are missing: chaoslab doctor images build")
    return engine


def left_on_engine(engine: Engine, record: Path) -> tuple[str, ...]:
    """What a run made there that is still there."""
    return remains(engine, run_name(record))
