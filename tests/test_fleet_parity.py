"""Each plan that comes with chaoslab on each place: it passes, or is refused for what that lacks.

    plan, place ─► `chaoslab run` ─► verdict, evidence, nothing left ─► a cell of the table

    make plans                                                  all; what passed is not run again
    python -m pytest -s tests/test_fleet_parity.py --place ssh  all that hosts by ssh can do
    python -m pytest -s tests/test_fleet_parity.py --parity kill_half --parity host_kill

The last prints each finding of these plans beside those of the other places. `--no-twin` leaves out
the fault-free twins, and with them `loss_parity`. Slices of Cloud TPU are no place here:
`test_tpu_vm_end_to_end.py` has the plan for them.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from chaoslab.cli.commands.plan import needs
from chaoslab.core.errors import ExitCode
from chaoslab.fleet.base import Ability
from chaoslab.prepare.plans import Asked, bundled_plans, decode, prepare
from tests.places import MARKS, PLACES
from tests.whole_runs import ended, start, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.timeout(2400)]
LIMIT_S = 1800.0
"""Of a run and its twin."""
NO_ENGINE = {"local", "ssh", "kubernetes", "sim"}
LACKING: Mapping[str, tuple[Ability, set[str]]] = {
    "corrupt_checkpoint": (Ability.VOLUME, {"kubernetes"}),
    "network_disconnect": (Ability.DISCONNECT, NO_ENGINE),
    "oom_learner": (Ability.MEMORY_LIMIT, {"sim"}),
    "power_loss": (Ability.CUT_POWER, {"docker", "kubernetes"}),
    "rolling_restart": (Ability.UPGRADE, NO_ENGINE),
    "spot_half": (Ability.SLICE, set(PLACES)),
}
"""What a plan needs, and the places that do not have it."""
SETTINGS = {("oom_learner", "kubernetes"): ["fleet.memory=1GB"]}
"""What a plan says of itself that it needs there."""

Told = dict[str, tuple[str, str]]
"""By finding and injection: what was said of it, and its margin; of the verdict, what it took."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    option = metafunc.config.option
    plans = option.parity or sorted(bundled_plans())
    cells = [
        pytest.param(
            place, plan, id=f"{place}-{plan}",
            marks=[*MARKS.get(place, ()), *([] if is_common(place, plan) else [pytest.mark.plans])],
        )
        for place in option.place or PLACES
        for plan in plans
    ]  # fmt: skip
    metafunc.parametrize(("place", "plan"), cells)


def is_common(place: str, plan: str) -> bool:
    """Whether it belongs to the deep tier as such: the others take hours, and are a part apart."""
    return place == "sim" or plan == "kill_half"


@pytest.fixture(scope="module")
def cells(pytestconfig: pytest.Config) -> Iterator[dict[str, dict[str, Told]]]:
    """What was told, by place and plan, with that of earlier runs of this part; printed at last."""
    passed: Path | None = pytestconfig.option.passed
    file = passed.with_suffix(".cells") if passed else None
    found = json.loads(file.read_text()) if file and file.exists() else {}
    yield found
    if file:
        file.write_text(json.dumps(found, indent=1))
    sys.stdout.write(table("plan", {place: verdicts(of) for place, of in found.items()}))
    for plan in pytestconfig.option.parity or ():
        of_plan = {place: of[plan] for place, of in found.items() if plan in of}
        sys.stdout.write(table(plan, of_plan))


def test_a_plan_passes_or_is_refused_for_what_the_place_lacks(
    tmp_path: Path,
    pytestconfig: pytest.Config,
    cells: dict[str, dict[str, Told]],
    place: str,
    plan: str,
) -> None:
    ability, lacked_by = LACKING.get(plan, (None, ()))
    expected = {ability} if place in lacked_by else set()
    settings = [*SETTINGS.get((plan, place), ()), *pytestconfig.option.no_twin]
    with PLACES[place](tmp_path, hosts_of(plan)) as there:
        prepared = prepare(there.asked(plan, *settings))
        lacks = needs(prepared) - prepared.fleet_setup.fleet.abilities
        if lacks > expected:
            pytest.skip(f"this machine has no {', '.join(sorted(lacks - expected))}")
        assert lacks == expected
        began_s = time.monotonic()
        name, *words = there.words(plan, *settings)
        run = start(name, tmp_path / "runs", *words)
        if expected:
            run.communicate(timeout=LIMIT_S)
            assert run.returncode == ExitCode.REFUSED
            assert not list(tmp_path.glob("runs/*/2*"))
            told: Told = {"verdict": ("refused:", ", ".join(lacks))}
        else:
            ran = ended(run, tmp_path / "runs" / plan, LIMIT_S)
            told = judged(ran.verdict, time.monotonic() - began_s)
        cells.setdefault(place, {})[plan] = told
        sys.stdout.write(f"{plan} on {place}: {' '.join(told['verdict'])}\n")
        sys.stdout.flush()
        if not expected:
            assert ran.verdict["outcome"] == "PASS", whole(ran.verdict)
            assert set(ran.statuses) == {"proved"}
            assert list(there.left(ran.record)) == []


def hosts_of(plan: str) -> tuple[int, ...]:
    """The number of hosts of each learner that may join."""
    found, _ = decode(Asked(plan=plan))
    return tuple(found.training.hosts_of(name) for name in found.training.roster)


def judged(verdict: Mapping[str, object], took_s: float) -> Told:
    """What to remember of a verdict."""
    told = {"verdict": (str(verdict["outcome"]), f"{took_s:.0f} s")}
    for row in rows(verdict, "findings"):
        margin = row["margin"]
        shown = f"{margin:.2f}" if isinstance(margin, float) else ""
        told[str(row["check"])] = (str(row["outcome"]), shown)
    for row in rows(verdict, "injections"):
        told[f"evidence of {row['id']}"] = (str(row["status"]), "")
    return told


def rows(verdict: Mapping[str, object], what: str) -> list[Mapping[str, object]]:
    found = verdict[what]
    assert isinstance(found, list)
    return found


def verdicts(told: Mapping[str, Told]) -> Told:
    """Of each plan."""
    return {plan: of["verdict"] for plan, of in told.items()}


def table(head: str, columns: Mapping[str, Told]) -> str:
    """In Markdown, with a row for each name in any column."""
    names = dict.fromkeys(name for told in columns.values() for name in told)
    lines = [[head, *columns], ["---"] * (1 + len(columns))]
    lines += [
        [name, *(" ".join(told.get(name, ("",))).strip() for told in columns.values())]
        for name in names
    ]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
