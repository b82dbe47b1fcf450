"""Versions: one unbroken line for each fragment, from one writer."""

from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.versions import Versions
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, each, fails, passes, rewritten
from tests.histories import Story, half_killed

CHECK = Versions()


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
    finding = CHECK.judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert code in finding.codes
    assert finding.evidence


def frozen(moves: str = "") -> Story:
    """All versions of fragment 1 hold the same, but that something of it moves."""
    still: dict[str, Json] = {"digest": "p", "momentum_digest": "v"}
    still.pop(moves, None)
    return rewritten(half_killed().end(), Kind.ROUND_MERGED, lambda _: still, of_fragment_1)


def of_fragment_1(event: Event) -> bool:
    return event.data["fragment"] == 1


def untrained() -> Story:
    """Fragment 1 stalls, and what is pushed for it are zeros."""
    return rewritten(frozen(), Kind.PUSH_ACCEPTED, lambda _: {"norm": 0.0}, of_fragment_1)


def alternating() -> Story:
    """Each fragment holds one of two values, in turn."""
    return rewritten(half_killed().end(), Kind.ROUND_MERGED, lambda event: {
        "digest": f"p{int(str(event.data['version'])) % 2}", "momentum_digest": "v"
    })  # fmt: skip


def other_syncer(name: str) -> Story:
    started: dict[str, Json] = {"node": name, "role": "syncer", "incarnation": 2, "pid": 2}
    story = Story().baseline().train(2)
    story = story.exit("syncer", signal="SIGKILL") if name == "syncer" else story
    return story.say(Kind.NODE_STARTED, name, **started).train(2).end()


def usurped() -> Story:
    story = half_killed().end()
    merged = story.last(Kind.ROUND_MERGED)
    story.events[merged.seq] = replace(merged, source="usurper")
    return story


def lost_version() -> Story:
    rounds = [event.seq for event in half_killed().events if event.kind is Kind.ROUND_MERGED]
    return half_killed().end().without(Kind.ROUND_MERGED, lambda event: event.seq == rounds[40])


CASES = {
    "versions of a fragment that hold the same": fails(CHECK, frozen, Code.NOTHING_CHANGED),
    "versions that hold one of two values": fails(CHECK, alternating, Code.NOTHING_CHANGED),
    "a fragment that holds nothing to train": passes(CHECK, untrained),
    "a fragment whose parameters move": passes(CHECK, lambda: frozen("digest")),
    "a fragment whose momentum moves": passes(CHECK, lambda: frozen("momentum_digest")),
    "a lost version": fails(CHECK, lost_version),
    "a second syncer beside the first": fails(
        CHECK, lambda: other_syncer("other"), Code.TWO_SYNCERS
    ),
    "a syncer that is replaced after its end": passes(CHECK, lambda: other_syncer("syncer")),
    "rounds from two nodes": fails(CHECK, usurped, Code.TWO_SYNCERS),
    "a syncer that ends below its last merge": fails(
        CHECK,
        lambda: half_killed().end().altered(Kind.SYNCER_FINAL, lambda _: {"versions": {"0": 1}}),
    ),
}


@each(CASES)
def test_versions(case: Case) -> None:
    case.hold()
