"""Which tests run, in which order, and which of them side by side.

With -n 3 one worker does what is `alone` (trainings, and what is measured), one after another. The
others do what else starts processes, a module at a time, those in the cluster on one worker; then
all do the rest. `tests/tiers.py` has the tiers; `pytest` alone runs the quick one.
"""

import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from chaoslab.links.toxiproxy import server_binary
from tests.harness.machine import MARK
from tests.tiers import (
    PARTS,
    TIERS,
    TierReport,
    is_disturbed,
    needs_part,
    newest_record,
    part_of,
    tier_of,
)

for tier in TIERS:  # machines are noisy, and only deep tests may find what the last run did not
    hypothesis.settings.register_profile(
        tier, deadline=None, database=None, derandomize=tier != "deep",
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )  # fmt: skip

os.environ.setdefault(MARK, "another test")  # what other workers start is no harness's residue

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else no child could be interrupted

BASE = pytest.StashKey[Path]()
"""The folder of all temporary folders of this process."""
BEGAN = pytest.StashKey[float]()
"""When the first test of a module began, as the clock of files tells it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, action="append", default=[], help="quick by default")
    parser.addoption("--part", choices=PARTS, help="of the deep tier")
    parser.addoption("--passed", type=Path, help="file of ids: left out, and added to")
    parser.addoption("--kills", type=int, default=20, help="in each long test (part soak)")
    parser.addoption("--parity", action="append", help="a plan of test_fleet_parity: all")
    parser.addoption("--place", action="append", help="a place of test_fleet_parity: all")
    parser.addoption(
        "--no-twin", action="append_const", const="twin=false", default=[],
        help="test_fleet_parity without the fault-free twins",
    )  # fmt: skip
    parser.addoption("--kills-seed", type=int, default=None, help="repeat what was drawn before")


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.tier:
        is_named = any(".py" in argument for argument in config.args)
        config.option.tier = list(TIERS) if is_named else ["quick"]
    hypothesis.settings.load_profile(config.option.tier[-1])
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TierReport(config))
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if runs_tests and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, lambda *_: None)  # what is started would ignore it, too


@pytest.fixture(scope="session", autouse=True)
def base_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    request.config.stash[BASE] = tmp_path_factory.getbasetemp()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if needy := [item.nodeid for item in items if tier_of(item) == "quick" and needs_part(item)]:
        raise pytest.UsageError(f"a quick test needs Python alone: mark it gate or deep: {needy}")
    passed = _passed(config.option.passed)
    chosen = [item for item in items if _is_chosen(item, config) and item.nodeid not in passed]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(chosen, key=_turn)
    for item in items:
        item.user_properties += [("tier", tier_of(item)), ("id", item.nodeid)]
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a Toxiproxy server is skipped without one, unless CHAOSLAB_REQUIRE names it."""
    _module(item).stash.setdefault(BEGAN, time.time())
    is_required = "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", "")
    needs_it = item.get_closest_marker("toxiproxy") is not None
    if needs_it and not is_required and server_binary.find() is None:
        pytest.skip("there is no Toxiproxy server: run `chaoslab doctor --fix`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test names the record of its run; one that was disturbed has not failed."""
    report = yield
    base = item.config.stash.get(BASE, None)
    starts_processes = tier_of(item) != "quick" or item.get_closest_marker("alone")
    record = None
    if base and starts_processes and report.failed:
        record = newest_record(base, since=_module(item).stash.get(BEGAN, 0.0))
    if record:
        found = [("record", str(record))]
        if "UNKNOWN" in report.longreprtext and is_disturbed(record):
            found.append(("disturbed", item.nodeid))
            report.outcome = "skipped"
        report.user_properties = [*report.user_properties, *found]
    return report


def _module(item: pytest.Item) -> pytest.Item | pytest.Module:
    return item.getparent(pytest.Module) or item


def _is_chosen(item: pytest.Item, config: pytest.Config) -> bool:
    tier, part = tier_of(item), config.option.part
    return tier in config.option.tier and part in {None, part_of(item)}


def _passed(file: Path | None) -> set[str]:
    return set(file.read_text().splitlines()) if file and file.exists() else set()


def _turn(item: pytest.Item) -> int:
    """Place in the order in which workers take what is left."""
    if item.get_closest_marker("alone"):
        return 0
    if item.get_closest_marker("kubernetes"):
        return 2  # its cluster may have to be started
    return 3 if tier_of(item) == "quick" else 1


def _group(item: pytest.Item) -> str | None:
    """What one worker does in one go; the cluster's tests, too: one stops its API server."""
    if item.get_closest_marker("xdist_group"):
        return None
    for mark in ("alone", "kubernetes"):
        if item.get_closest_marker(mark):
            return mark
    compiles = "strict_jax" in getattr(item, "fixturenames", ())  # once for its module
    is_apart = tier_of(item) == "quick" and not compiles
    return None if is_apart else item.nodeid.partition("::")[0]
