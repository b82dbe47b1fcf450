"""The charter of a game-day: what is signed, and what responders do not get to know."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.gameday.charter import charter_page
from chaoslab.plan.file import load
from chaoslab.plan.model import (
    AbortRule,
    Arrivals,
    Distribution,
    FaultPlan,
    GameDay,
    Limits,
    Outage,
    Pick,
    Target,
    Trigger,
)
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import bundled_plans
from tests import hostile
from tests.gameday.stories import CHARTER, HALF, plan_of, spec_of

LAST = "## For the facilitator"
CHARTER_NAMES = ["Infra", "Ann", "Di", "Bo", "Cy"]


def page_of(plan: FaultPlan, seed: int | None = None) -> str:
    return charter_page(plan, schedule(plan, roster_of(plan)), seed=seed)


def rows(page: str, title: str) -> list[str]:
    """Those of the table below a heading, without its head."""
    _, _, rest = page.partition(f"# {title}\n")
    body = re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [line for line in body.splitlines() if line.startswith("| ")][2:]


def row_of(page: str, spec: str, what: str) -> str:
    """One cell of what is said of a fault."""
    (row,) = (row for row in rows(page, spec) if row.startswith(f"| {what} | "))
    return row.removeprefix(f"| {what} | ").removesuffix(" |")


def test_all_who_take_part_sign_and_there_are_lines_for_who_is_missing() -> None:
    page = page_of(plan_of())
    assert [row.split(" | ")[1] for row in rows(page, "Signatures")] == CHARTER_NAMES
    assert [name for name in CHARTER_NAMES if name not in "".join(rows(page, "Who"))] == []
    empty = page_of(plan_of(gameday=None))
    assert [row.rpartition(" | ")[2] for row in rows(empty, "Who")] == ["____ |"] * 4
    assert [row.split(" | ")[1] for row in rows(empty, "Signatures")] == ["____"] * 4


def test_who_is_hit_stands_in_the_last_section_with_the_seed() -> None:
    page = page_of(plan_of(replace(spec_of(), target=Target(names=("learner-2",)))), seed=11)
    first, _, last = page.partition(LAST)
    assert "learner-2" not in first
    assert "seed 11 " in last
    assert rows(page, "For the facilitator") == [
        "| injection-0 | half-dies (process.kill) | learner-2 | at round 60 |"
    ]


@pytest.mark.parametrize("name", sorted(bundled_plans()))
def test_no_plan_tells_its_victims_before_the_last_section(name: str) -> None:
    plan, _ = load(bundled_plans()[name], kinds())
    drawn = schedule(plan, roster_of(plan))
    first, _, last = charter_page(plan, drawn).partition(LAST)
    victims = {target for one in drawn.injections for target in one.targets} - {"syncer"}
    assert [name for name in victims if re.search(rf"\b{name}\b", first)] == []
    assert all(name in last for name in victims)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, {"targets": "2 of 4", "outage": "6s", "hypothesis": "Training goes on."}),
        ({"target": Target(syncer=True)}, {"targets": "syncer", "trigger": "round 60"}),
        ({"target": Target(count=1), "at": Trigger(step=200, of="learner-1")},
         {"targets": "1 of 4", "trigger": "step 200"}),
        ({"target": Target(count=1, pick=Pick.AT_PHASE), "at": Trigger(phase=Phase.PUSH)},
         {"targets": "phase", "trigger": "push", "waits for an operator": "no: "}),
        ({"at": None, "target": Target(count=1),
          "arrivals": Arrivals(dist=Distribution.TRACE, trace_s=(12.0, 90.0), per="fleet")},
         {"targets": "1 of 4 learners each time, 2 times", "trigger": "12s, 1m30s"}),
        ({"at": None, "arrivals": Arrivals(mtbf_s=20.0, start_s=10.0, until_s=120.0, most=5)},
         {"trigger": "one every 20s on average for each target, from 10s on, until 2m, at most 5"}),
        ({"outage": Outage(dist=Distribution.LOGNORMAL, seconds=6.0, at_most_s=20.0)},
         {"outage": "lognormal), median 6s, at most 20s"}),
        ({"outage": Outage(rest=True)}, {"outage": "end of the run"}),
    ],
)  # fmt: skip
def test_each_fault_is_told_by_its_numbers_and_without_a_name_of_who_is_hit(
    changes: dict[str, Any], told: dict[str, str]
) -> None:
    charter = replace(CHARTER, holds=())
    page = page_of(plan_of(replace(spec_of(), **changes), gameday=charter))
    assert [what for what, words in told.items() if words not in row_of(page, HALF, what)] == []
    assert not re.search(r"learner-\d", page.partition(LAST)[0])


def test_a_fault_that_does_not_wait_says_so() -> None:
    other = replace(spec_of("other"), at=Trigger(after=HALF, offset_s=2.0))
    page = page_of(plan_of(spec_of(), other))
    assert row_of(page, HALF, "waits for an operator").startswith("yes")
    assert row_of(page, "other", "waits for an operator") == "no"


def test_limits_abort_rules_and_checks_are_told_with_their_numbers() -> None:
    limits = Limits(min_alive=2, max_affected=0.5, protected=("learner-0",))
    rules = (
        AbortRule(no_round_for_s=60.0),
        AbortRule(loss_above=9.5),
        AbortRule(alive_below=2),
    )
    charter = replace(CHARTER, length_s=3600.0)
    page = page_of(replace(plan_of(), limits=limits, abort=rules, gameday=charter))
    assert [row.rpartition(" | ")[2] for row in rows(page, "Limits")] == [
        "2 |", "50% |", "learner-0 |", "1h |",
    ]  # fmt: skip
    told = re.findall(r"^- `(.*)`: .*$", page, re.MULTILINE)
    assert told == ["no_round_for: 60s", "loss_above: 9.5", "alive_below: 2"]
    judged, _ = load(bundled_plans()["kill_half"], kinds())
    assert "\n- `continuity`: " in page_of(judged)


def test_a_plan_without_faults_has_a_page() -> None:
    assert rows(page_of(FaultPlan(name="calm")), "For the facilitator") == []


def test_words_of_a_plan_stay_words(tmp_path: Path) -> None:
    for word in hostile.words(tmp_path / "canary"):
        text = f"{word} | <img src=x> | [a](javascript:b) `c` \x1b[2J\n\n# f\n| g |"
        charter = GameDay(owner=text, responders=(text,), hypotheses={text: text})
        page = page_of(replace(plan_of(spec_of(text), gameday=charter), description=text))
        assert not re.search(r"<|(?<!\\)[\[\]]|\x1b|^# f|^\| g", page, re.MULTILINE)
