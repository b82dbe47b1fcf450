"""Effects of mild faults that go on after their heal, by what the record shows of them."""

from collections.abc import Callable, Mapping

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.lasting_effects import lasting
from chaoslab.checks.verdict import judge
from chaoslab.core.events import Json, Kind
from tests.checks.cases import rewritten
from tests.histories import Story

WHO = "learner-1"
SLOWED = {"step_ratio": 1.9, "others_ratio": 1.0}
DELAYED: Mapping[str, Json] = {
    "added_rtt_s": 0.06, "usual_rtt_s": 0.001, "rtt_s": 0.061, "pings_answered": 9,
}  # fmt: skip
THIN: Mapping[str, Json] = {"up_bytes_per_s": 80e3, "usual_up_bytes_per_s": 90e6}


def slowed(after: float, *, for_s: float = 15.0, others: float = 1.0) -> Story:
    """A victim at 1.9x under its fault, then at `after`; all others then at `others`."""
    story = Story().baseline()
    step_s = story.last(Kind.LEARNER_STEP).data["step_s"]
    story.touch(WHO, fault="compute.slow").slow(WHO, 1.9).train(6).heal()
    for name in story.learners:
        story.slow(name, after if name == WHO else others)
    return measured(story.train(for_s), {**SLOWED, "step_s_before": step_s}).end()


def linked(said: Mapping[str, Json], evidence: Mapping[str, Json]) -> Story:
    """A link whose reports say that after its fault."""
    story = Story().baseline().touch(WHO, fault="network.latency").train(6).heal()
    healed_s = story.now_s
    return rewritten(
        measured(story.train(12).end(), evidence),
        Kind.LINK_MEASURED,
        lambda _: said,
        lambda event: event.data["learner"] == WHO and event.time_s > healed_s,
    )


def measured(story: Story, what: Mapping[str, Json]) -> Story:
    return story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": dict(what)})


GOES_ON = {
    "a chip that stays slow": lambda: slowed(1.9),
    "a chip that gets back a little": lambda: slowed(1.6),
    "a chip that stays slow while all are": lambda: slowed(3.6, others=1.9),
    "a link that stays far": lambda: linked({"rtt_s_min": 0.06, "rtt_s": 0.07}, DELAYED),
    "a link that stays thin": lambda: linked({"timed_bytes": 8e4, "timed_s": 1.0}, THIN),
}
IS_OVER = {
    "a chip as before": lambda: slowed(1.0),
    "a chip that is a little slower": lambda: slowed(1.2),
    "all are slower": lambda: slowed(1.9, others=1.9),
    "training that ends soon": lambda: slowed(1.9, for_s=4.0),
    "a link as before": lambda: linked({"rtt_s_min": 0.001, "rtt_s": 0.07}, DELAYED),
    "a link without pings": lambda: linked({"rtt_s_min": None}, DELAYED),
    "a link that is wide again": lambda: linked({"timed_bytes": 1e6, "timed_s": 0.1}, THIN),
    "another fault on the target": lambda: measured(
        Story().baseline().touch(WHO).touch(WHO).slow(WHO, 1.9).train(6).heal().train(20),
        {**SLOWED, "step_s_before": 0.01},
    ).end(),
}  # fmt: skip


@pytest.mark.parametrize("tell", GOES_ON.values(), ids=GOES_ON)
def test_an_effect_that_goes_on_is_found(tell: Callable[[], Story]) -> None:
    (found,) = lasting(tell().history())
    assert WHO in found.text


@pytest.mark.parametrize("tell", IS_OVER.values(), ids=IS_OVER)
def test_what_is_over_or_not_shown_is_no_violation(tell: Callable[[], Story]) -> None:
    assert list(lasting(tell().history())) == []


def test_it_stands_against_pass() -> None:
    verdict = judge(slowed(1.9).history(), [])
    (found,) = [one for one in verdict.findings if one.check == "heal"]
    assert (verdict.outcome, found.codes) == (Outcome.UNKNOWN, (Code.EFFECT_GOES_ON,))
