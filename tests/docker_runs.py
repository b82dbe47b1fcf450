"""Whole runs on containers, for tests: start one, wait for it, and see what is left of it."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.record.journal import History
from tests.engine import IS_REQUIRED, Engine, engine_or_skip

from chaoslab.fleet.docker.images import images  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.run_resources import remains, run_name  # isort: skip

__all__ = [
    "Engine", "engine_with_images", "nothing_is_left", "run_name", "start", "verdict_of",
    "wait_for_round",
]  # fmt: skip
ROOT = Path(__file__).parent.parent


def engine_with_images() -> Engine:
    """One that has the images of this very source."""
    engine = engine_or_skip()
    if engine.image_id(images.source().image) is None and not IS_REQUIRED:
        pytest.skip("the images of this source are missing: chaoslab images build")
    return engine


def start(plan: str, folder: Path, *more: str) -> "subprocess.Popen[str]":
    """`chaoslab run` with the verdict as JSON."""
    command = (sys.executable, "-m", "chaoslab", "run", plan, "--json", "--quiet")
    return subprocess.Popen(
        [*command, "--out", str(folder), *more], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def verdict_of(run: "subprocess.Popen[str]", limit_s: float = 290) -> Mapping[str, object]:
    """Once it has ended by itself."""
    told, _ = run.communicate(timeout=limit_s)
    found = json.loads(told)
    assert isinstance(found, dict)
    return found


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
