"""The charter of a game-day: what is signed, and what responders do not get to know."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.gameday.charter import charter_page
from chaoslab.plan.file import load
from chaoslab.plan.model import (
    AbortRule,
    Arrivals,
    Distribution,
    FaultPlan,
    FaultSpec,
    GameDay,
    Limits,
    Outage,
    Phase,
    Pick,
    Target,
    Trigger,
)
from chaoslab.plan.schedule import Schedule, roster_of, schedule
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import bundled_plans
from tests import hostile
from tests.gameday.stories import CHARTER, HALF, plan_of, spec_of

LAST = "## For the facilitator"


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


def test_the_page_says_who_takes_part_and_leaves_lines_for_who_is_missing() -> None:
    assert rows(page_of(plan_of()), "Who") == [
        "| owner, answers for it | Infra |",
        "| facilitator, leads it and decides what is injected | Ann |",
        "| scribe, takes notes | Di |",
        "| responders, watch and predict | Bo, Cy |",
    ]
    empty = page_of(plan_of(gameday=None))
    assert [row.rpartition(" | ")[2] for row in rows(empty, "Who")] == ["____ |"] * 4
    assert rows(empty, "Signatures") == [
        f"| {role} | ____ | ____ | ____ |"
        for role in ("owner", "facilitator", "scribe", "responder")
    ]


def test_all_who_take_part_sign() -> None:
    assert rows(page_of(plan_of()), "Signatures") == [
        "| owner | Infra | ____ | ____ |",
        "| facilitator | Ann | ____ | ____ |",
        "| scribe | Di | ____ | ____ |",
        "| responder | Bo | ____ | ____ |",
        "| responder | Cy | ____ | ____ |",
    ]


def test_the_page_says_what_is_hit() -> None:
    plan = replace(plan_of(), description="Half of them die.")
    assert rows(page_of(plan), "What is hit") == [
        "| plan | a_story: Half of them die. |",
        "| training | decoupled, started for the game-day and ended with it |",
        "| learners | 4 |",
        "| model | nano |",
        "| data | stdlib |",
        "| ends | rounds 120; later while a fault waits or its victims are not back |",
        "| fleet | local |",
    ]


def test_each_fault_is_told_without_a_name_of_who_is_hit() -> None:
    first, *others = rows(page_of(plan_of()), HALF)
    assert first == (
        "| fault | process.kill: end the process and all its children by a signal "
        "(signal SIGKILL) |"
    )
    assert others == [
        "| targets | 2 of 4 learners |",
        "| trigger | at round 60 |",
        "| outage | 6s |",
        "| hypothesis | Training goes on. |",
        "| waits for an operator | yes, when its trigger has come |",
    ]


def test_who_is_hit_stands_in_the_last_section_with_the_seed() -> None:
    page = page_of(plan_of(replace(spec_of(), target=Target(names=("learner-2",)))))
    first, _, last = page.partition(LAST)
    assert "learner-2" not in first
    assert last.splitlines()[2] == "With seed 0 these are hit:"
    assert rows(page, "For the facilitator") == [
        "| injection-0 | half-dies (process.kill) | learner-2 | at round 60 |"
    ]
    assert "With seed 11 these are hit:" in page_of(plan_of(), seed=11)


@pytest.mark.parametrize("name", sorted(bundled_plans()))
def test_no_plan_tells_its_victims_before_the_last_section(name: str) -> None:
    plan, _ = load(bundled_plans()[name], kinds())
    drawn = schedule(plan, roster_of(plan))
    first, _, last = charter_page(plan, drawn).partition(LAST)
    victims = {target for one in drawn.injections for target in one.targets} - {"syncer"}
    assert [name for name in victims if re.search(rf"\b{name}\b", first)] == []
    assert all(name in last for name in victims)


@pytest.mark.parametrize(
    ("spec", "targets", "trigger"),
    [
        (replace(spec_of(), target=Target(syncer=True)), "the syncer", "at round 60"),
        (replace(spec_of(), target=Target(count=1), at=Trigger(step=200, of="learner-1")),
         "1 of 4 learners", "at step 200 of a learner"),
        (replace(spec_of(), target=Target(count=1, pick=Pick.AT_PHASE),
                 at=Trigger(phase=Phase.PUSH)),
         "the node that announces the phase of the trigger",
         "when the first learner is at push"),
        (replace(spec_of(), at=None, target=Target(count=1),
                 arrivals=Arrivals(dist=Distribution.TRACE, trace_s=(12.0, 90.0), per="fleet")),
         "1 of 4 learners each time, 2 times", "at 12s, 1m30s after the start"),
    ],
)  # fmt: skip
def test_targets_are_counted_and_triggers_name_nobody(
    spec: FaultSpec, targets: str, trigger: str
) -> None:
    page = page_of(plan_of(spec, gameday=None))
    assert row_of(page, HALF, "targets") == targets
    assert row_of(page, HALF, "trigger") == trigger


def test_random_times_and_outages_are_told_by_how_they_are_drawn() -> None:
    arrivals = Arrivals(mtbf_s=20.0, start_s=10.0, until_s=120.0, most=5)
    outage = Outage(dist=Distribution.LOGNORMAL, seconds=6.0, at_most_s=20.0)
    page = page_of(plan_of(replace(spec_of(), at=None, arrivals=arrivals, outage=outage)))
    assert row_of(page, HALF, "trigger") == (
        "at random times, one every 20s on average for each target, from 10s on, until 2m, "
        "at most 5"
    )
    assert row_of(page, HALF, "outage") == "random (lognormal), median 6s, at most 20s"
    rest = page_of(plan_of(replace(spec_of(), outage=Outage(rest=True))))
    assert row_of(rest, HALF, "outage") == "until the end of the run"


def test_a_fault_that_does_not_wait_says_why() -> None:
    moment = replace(spec_of("moment"), at=Trigger(phase=Phase.WRITTEN), target=Target(syncer=True))
    other = replace(spec_of("other"), at=Trigger(after=HALF, offset_s=2.0))
    page = page_of(plan_of(spec_of(), other, moment))
    assert row_of(page, "other", "waits for an operator") == "no"
    assert row_of(page, "moment", "waits for an operator") == (
        "no: its trigger is a moment of the protocol"
    )
    assert row_of(page, "other", "hypothesis") == "not written"


def test_limits_and_abort_rules_are_told_in_words() -> None:
    limits = Limits(min_alive=2, max_affected=0.5, protected=("learner-0",))
    rules = (
        AbortRule(no_round_for_s=60.0),
        AbortRule(loss_above=9.5),
        AbortRule(alive_below=2),
    )
    charter = replace(CHARTER, length_s=3600.0)
    page = page_of(replace(plan_of(), limits=limits, abort=rules, gameday=charter))
    assert rows(page, "Limits") == [
        "| learners that no fault has taken away, at least | 2 |",
        "| learners under faults at once, at most | 50% |",
        "| learners that are never hit | learner-0 |",
        "| longest duration | 1h |",
    ]
    _, _, rest = page.partition("as soon as:\n\n")
    assert rest.splitlines()[:4] == [
        "- `no_round_for: 60s`: no round was merged for 1m",
        "- `loss_above: 9.5`: the mean training loss is above 9.5, or no number",
        "- `alive_below: 2`: fewer than 2 learners alive",
        "- the run has taken 1h",
    ]
    assert rows(page, "When it is stopped")[0] == (
        "| abort WHY | any operator | all faults are healed, the run ends |"
    )


def test_the_page_names_the_checks_that_judge_it() -> None:
    plan, _ = load(bundled_plans()["kill_half"], kinds())
    _, _, rest = page_of(plan).partition("## What is judged\n\n")
    assert rest.splitlines()[0] == (
        "- `continuity`: rounds go on being merged: no gap longer than the bound"
    )
    assert "Nothing: the plan has no checks." in page_of(plan_of())


def test_a_plan_without_faults_has_a_page() -> None:
    assert "## Faults\n\nNone." in charter_page(
        FaultPlan(name="calm"), Schedule(seed=0, injections=())
    )


def test_words_of_a_plan_stay_words(tmp_path: Path) -> None:
    for word in hostile.words(tmp_path / "canary"):
        text = f"{word} | <img src=x> | [a](javascript:b) `c` \x1b[2J\n\n# f\n| g |"
        charter = GameDay(owner=text, responders=(text,), hypotheses={text: text})
        page = page_of(replace(plan_of(spec_of(text), gameday=charter), description=text))
        assert not re.search(r"<|(?<!\\)[\[\]]|\x1b|^# f|^\| g", page, re.MULTILINE)
