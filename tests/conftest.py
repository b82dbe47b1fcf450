"""Order of all tests, and which of them run side by side.

    one process   the fast ones, then `thorough`, last those that start trainings
    -n 3          one worker: trainings and what is measured, one after another
                  the others: what is `patient`, a module at a time, last the cluster's on one
                  then all: the fast ones, and `thorough`

Trainings take most of the time, and much of it they wait. So they begin at once, and the fast tests
use what they leave of the cores, at a lower priority.
"""

import os
import signal
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from chaoslab.links.toxiproxy import server_binary
from tests.harness.machine import MARK
from tests.worker_times import WorkerTimes

hypothesis.settings.register_profile("chaoslab", deadline=None)  # machines are shared and noisy
hypothesis.settings.load_profile("chaoslab")

_DISTURBED = "machine_held_up|step_time_not_kept|without that time it|periods were lost because"
"""In the message of a failed test: a run whose own findings say that others took its cores. It
shows nothing of what it tests, and is made once more."""
_LESS_URGENT = 5
"""Niceness of fast tests: a training that wants a core has it, and they still come forward beside
one that wants them all."""

os.environ.setdefault(MARK, "another test")  # what other workers start is no harness's residue

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else no child could be interrupted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=50, help="in each long test (marker soak)")
    parser.addoption("--kills-seed", type=int, default=None, help="repeat what was drawn before")


def pytest_configure(config: pytest.Config) -> None:
    if not _is_worker(config):
        config.pluginmanager.register(WorkerTimes())


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn if _is_worker(config) else _rank)
    for item in items:
        if _rank(item) > 1:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[_DISTURBED]))
        elif "strict_jax" in getattr(item, "fixturenames", ()):  # its module compiles once
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if "soak" not in config.option.markexpr:  # half an hour and more: only when asked for
        soaking = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soaking)
        items[:] = [item for item in items if item not in soaking]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a Toxiproxy server is skipped without one, unless CHAOSLAB_REQUIRE names it."""
    if _is_worker(item.config) and _rank(item) <= 1:
        _give_way()
    is_required = "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", "")
    needs_it = item.get_closest_marker("toxiproxy") is not None
    if needs_it and not is_required and server_binary.find() is None:
        pytest.skip("there is no Toxiproxy server: run `chaoslab doctor --fix`")


def _rank(item: pytest.Item) -> int:
    marks: Sequence[str] = (
        "thorough", "slow", "toxiproxy", "docker", "kubernetes", "tpu", "soak",
    )  # fmt: skip
    return max(
        (1 + marks.index(mark) for mark in marks if item.get_closest_marker(mark)), default=0
    )


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that share the tests: -n."""
    return hasattr(config, "workerinput")


def _turn(item: pytest.Item) -> int:
    """Place in the order of the workers, who take what is left from its beginning."""
    rank = _rank(item)
    if rank <= 1:
        return 3 + rank
    is_late = item.get_closest_marker("kubernetes") is not None  # a cluster may have to be built
    return int(_is_patient(item)) * (1 + is_late)


def _group(item: pytest.Item) -> str:
    """What one worker does in one go: all that is not patient, or a module of what is; all that
    is in the cluster, whose API server one of the tests stops.
    """
    if item.get_closest_marker("kubernetes") is not None:
        return "patient kubernetes"
    return f"patient {item.nodeid.partition('::')[0]}" if _is_patient(item) else "real"


def _is_patient(item: pytest.Item) -> bool:
    return item.get_closest_marker("patient") is not None


@cache
def _give_way() -> None:
    """From now on this worker, and what it starts, waits for others; it does fast tests alone.

    Where the kernel groups processes by terminal, niceness counts only within a group, and a group
    has its own (sched(7), "The autogroup feature").
    """
    os.nice(_LESS_URGENT)
    group = Path("/proc/self/autogroup")
    if group.exists() and os.getpgrp() != os.getpid():
        os.setsid()
        group.write_text(str(_LESS_URGENT))
