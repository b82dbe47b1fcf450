"""Whole runs on containers, for tests: start one, wait for it, and see what is left of it."""

import time
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.fleet.run_name import run_name
from chaoslab.record.journal import History
from tests.engine import IS_REQUIRED, Engine, engine_or_skip

from chaoslab.fleet.docker.images import images  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.run_resources import remains  # isort: skip

__all__ = [
    "Engine", "engine_with_images", "nothing_is_left", "wait_for_round",
]  # fmt: skip


def engine_with_images() -> Engine:
    """One that has the images of this very source."""
    engine = engine_or_skip()
    if engine.image_id(images.source().image) is None and not IS_REQUIRED:
        pytest.skip("the images of this source are missing: chaoslab images build")
    return engine


def nothing_is_left(engine: Engine, record: Path) -> bool:
    return not remains(engine, run_name(record))


def wait_for_round(folder: Path, number: int) -> Path:
    """The record of the run that begins there, once it has merged so many rounds and all learners
    have joined.
    """
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for record in folder.glob("2*"):
            if (record / "journal.jsonl").exists():
                history = History.read(record)
                has_begun = len(history.of(Kind.PHASE_ENTERED)) > 1
                if has_begun and len(history.of(Kind.ROUND_MERGED)) >= number:
                    return record
        time.sleep(0.2)
    raise AssertionError(f"no round {number} in {folder}")
