"""Versions: one unbroken line for each fragment, from one writer."""

from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.versions import Versions
from chaoslab.core.events import Event, Json, Kind
from tests.histories import Story, half_killed


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 99, "base_version": 98}, Code.VERSION_SKIPPED),
        ({"base_version": 1}, Code.WRONG_BASE),
        ({"version": 1, "base_version": 0}, Code.VERSION_SKIPPED),
        ({"round": 2}, Code.ROUND_CLOSED_TWICE),
    ],
)
def test_a_jump_a_wrong_base_a_repeat_and_a_reused_round_fail(
    change: dict[str, Json], code: Code
) -> None:
    story = half_killed().end().altered(Kind.ROUND_MERGED, lambda _: change, which=-3)
    finding = Versions().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert code in finding.codes
    assert finding.evidence


def test_versions_that_all_hold_the_same_fail() -> None:
    story = half_killed().end()
    for event in story.events:
        if event.kind is Kind.ROUND_MERGED:
            fragment = event.data["fragment"]
            same = {"digest": f"p{fragment}", "momentum_digest": f"v{fragment}"}
            story.events[event.seq] = replace(event, data={**event.data, **same})
    finding = Versions().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOTHING_CHANGED,))


@pytest.mark.parametrize("moves", ["digest", "momentum_digest"])
def test_one_fragment_that_stands_still_or_one_step_too_small_to_see_is_no_standstill(
    moves: str,
) -> None:
    story = half_killed().end()
    for event in story.events:
        if event.kind is Kind.ROUND_MERGED:
            same = {"digest": "p", "momentum_digest": "v"}
            if event.data["fragment"] == 1:
                del same[moves]
            story.events[event.seq] = replace(event, data={**event.data, **same})
    assert Versions().judge(story.history()).outcome is Outcome.PASS


def test_a_lost_version_fails() -> None:
    rounds = [event.seq for event in half_killed().events if event.kind is Kind.ROUND_MERGED]
    story = half_killed().end().without(Kind.ROUND_MERGED, lambda event: event.seq == rounds[40])
    assert Versions().judge(story.history()).outcome is Outcome.FAIL


def test_a_second_syncer_beside_the_first_fails() -> None:
    story = (
        Story()
        .baseline()
        .train(2)
        .say(Kind.NODE_STARTED, "other", node="other", role="syncer", incarnation=1, pid=2)
    )
    finding = Versions().judge(story.train(2).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.TWO_SYNCERS,))


def test_a_syncer_that_is_replaced_after_its_end_is_a_single_writer() -> None:
    story = (
        Story()
        .baseline()
        .train(2)
        .exit("syncer", signal="SIGKILL")
        .say(Kind.NODE_STARTED, "syncer", node="syncer", role="syncer", incarnation=2, pid=2)
    )
    assert Versions().judge(story.train(2).end().history()).outcome is Outcome.PASS


def test_rounds_from_two_nodes_fail() -> None:
    story = half_killed().end()
    event = story.last(Kind.ROUND_MERGED)
    story.events[event.seq] = Event(
        seq=event.seq, time_s=event.time_s, source="usurper", kind=event.kind, data=event.data
    )
    assert Versions().judge(story.history()).codes == (Code.TWO_SYNCERS,)


def test_a_syncer_that_ends_below_its_last_merge_fails() -> None:
    story = half_killed().end().altered(Kind.SYNCER_FINAL, lambda _: {"versions": {"0": 1}})
    assert Versions().judge(story.history()).outcome is Outcome.FAIL
