"""Order of all tests: the fast ones first, then `thorough`, last those that start trainings."""

import os
import signal
from collections.abc import Sequence

import hypothesis
import pytest

from chaoslab.links.toxiproxy import server_binary

hypothesis.settings.register_profile("chaoslab", deadline=None)  # machines are shared and noisy
hypothesis.settings.load_profile("chaoslab")

_DISTURBED = "machine_held_up|step_time_not_kept|without that time it|periods were lost because"
"""In the message of a failed test: a run whose own findings say that others took its cores. It
shows nothing of what it tests, and is made once more."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else no child could be interrupted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=50, help="in each long test (marker soak)")
    parser.addoption("--kills-seed", type=int, default=None, help="repeat what was drawn before")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    for item in items:
        if _rank(item) > 1:  # with -n: by one worker, one after another, once the others are done
            item.add_marker(pytest.mark.xdist_group("real"))
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[_DISTURBED]))
        elif "strict_jax" in getattr(item, "fixturenames", ()):  # its module compiles once
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if "soak" not in config.option.markexpr:  # half an hour and more: only when asked for
        soaking = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soaking)
        items[:] = [item for item in items if item not in soaking]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a Toxiproxy server is skipped without one, unless CHAOSLAB_REQUIRE names it."""
    is_required = "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", "")
    needs_it = item.get_closest_marker("toxiproxy") is not None
    if needs_it and not is_required and server_binary.find() is None:
        pytest.skip("there is no Toxiproxy server: run `chaoslab doctor --fix`")


def _rank(item: pytest.Item) -> int:
    marks: Sequence[str] = ("thorough", "slow", "toxiproxy", "docker", "tpu", "soak")
    return max(
        (1 + marks.index(mark) for mark in marks if item.get_closest_marker(mark)), default=0
    )
