"""The schedule as lines that read back, and as sentences."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Arrivals, Limits, Outage, Target, Trigger
from chaoslab.plan.schedule import from_lines, preview, to_lines
from tests.plan.file.catalogue import Kill, Ramp, Signal
from tests.plan.schedule.drawing import FAULTS, drawn, fault, plan_of


@given(seed=st.integers(0, 2**40), mtbf_s=st.floats(20, 300))
@settings(max_examples=15)
def test_the_lines_of_a_schedule_read_back_equal(seed: int, mtbf_s: float) -> None:
    plan = plan_of(
        fault(
            Target(count=2),
            settings=Ramp(ratio=0.5, offsets_s=(1.0, 2.5)),
            at=Trigger(step=9, of="learner-0"),
        ),
        fault(Target(syncer=True), name="then", at=Trigger(after="it", offset_s=2.0)),
        fault(Target(syncer=True), name="rest", settings=Kill(signal=Signal.SIGTERM),
              at=Trigger(loss=2.5), outage=Outage(rest=True)),
        fault(Target(everyone=True), name="often", arrivals=Arrivals(mtbf_s=mtbf_s)),
        seed=seed,
        limits=Limits(min_alive=2),
    )  # fmt: skip
    schedule = drawn(plan)
    lines = to_lines(schedule)
    assert from_lines([f"{line}\n" for line in lines], FAULTS) == schedule
    assert all("\n" not in line and isinstance(json.loads(line), dict) for line in lines)


SLOW = '{"injection":0,"spec":"x","fault":"compute.ramp","targets":[],"for_s":1,'


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "not a line"),
        ("3", "not a line"),
        ('{"injection":0}', "'fault'"),
        ('{"injection":0,"fault":"process.kil"}', "process.kil"),
        (SLOW + '"settings":{"ratio":"much"},"trigger":{"round":1}}', "ratio"),
        (SLOW + '"settings":{"ratoi":0.1},"trigger":{"round":1}}', "ratoi"),
        (SLOW + '"settings":{"ratio":1},"trigger":{"rond":1}}', "rond"),
        (SLOW + '"settings":{"ratio":1},"trigger":{}}', "one of time"),
        ('{"dropped":"x"}', "'fault'"),
    ],
)
def test_a_broken_line_is_named_with_its_number(broken: str, words: str) -> None:
    lines = to_lines(drawn(plan_of(fault(Target(count=1)))))
    with pytest.raises(PlanError, match=r"schedule\.jsonl:3:1: ") as refused:
        from_lines([*lines, broken], FAULTS)
    assert words in str(refused.value)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(PlanError, match=r"schedule\.jsonl:1:1: "):
        from_lines(['{"schedule":2,"seed":1}'], FAULTS)


def test_the_preview_says_who_is_hit_when_and_for_how_long_and_what_was_left_out() -> None:
    sure = fault(
        Target(names=("learner-1", "learner-0")), name="sure", at=Trigger(time_s=1.0),
        outage=Outage(rest=True),
    )  # fmt: skip
    often = fault(Target(everyone=True), name="often", arrivals=Arrivals(mtbf_s=20.0, most=1))
    plan = plan_of(sure, fault(Target(syncer=True)), often, limits=Limits(min_alive=2))
    first, second, *_, left_out = preview(drawn(plan))
    assert all(part in first for part in ("injection-0", "learner-0 and learner-1", "1 s"))
    assert all(part in second for part in ("process.kill", "SIGKILL", "syncer", "round 5", "5s"))
    assert "process.kill on learner-" in left_out
