"""The real syncer behind the real wire, against learners that behave and learners that lie."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.model.fragments import specs_to_json
from chaoslab.diloco.syncer import syncer as syncer_module
from chaoslab.diloco.syncer.program import main
from chaoslab.diloco.wire import wire_pb2 as pb
from tests.diloco.hand_learner import (
    DROP_S,
    SIZES,
    SPECS,
    SUSPECT_S,
    HandLearner,
    RunningSyncer,
    joined,
    running_syncer,
)

Push = dict[str, Any]


@pytest.fixture
def syncer(tmp_path: Path) -> Iterator[RunningSyncer]:
    with running_syncer(tmp_path) as running:
        yield running


@pytest.fixture
def learner(syncer: RunningSyncer) -> HandLearner:
    """An honest one that has joined."""
    return joined(syncer)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--address", "0.0.0.0:0"), "0.0.0.0:0"),
        (("--settings-json", "{"), "settings"),
    ],
)
def test_what_a_syncer_cannot_start_with_is_a_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str], says: str
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["--directory", str(tmp_path / "state"), *flags])
    assert says in capsys.readouterr().err
    assert not (tmp_path / "state").exists(), "nothing was begun"


def ones(pull: pb.Pull) -> np.ndarray[Any, Any]:
    return np.ones(SIZES[pull.fragment], np.float32)


def handled_by(syncer: RunningSyncer, *learners: HandLearner) -> None:
    """What these have sent so far was handled: an answer to a later word of theirs is there."""
    for learner in learners:
        count = len(syncer.told.of(Kind.PUSH_REJECTED))
        learner.push_bytes(pb.Push(round=0, fragment=0, base_version=-1, codec="f32"), bytes(48))
        while len(syncer.told.of(Kind.PUSH_REJECTED)) == count:
            time.sleep(0.001)


def still_merges(syncer: RunningSyncer, learner: HandLearner) -> None:
    """An honest learner's contribution is merged: the syncer lives."""
    before = len(syncer.told.of(Kind.ROUND_MERGED))
    pull = learner.pulled()
    learner.push(learner.answer(pull), ones(pull))
    syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)
    assert len(syncer.told.of(Kind.ROUND_MERGED)) > before


def test_the_first_learner_hands_in_the_initial_parameters_and_is_merged(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    still_merges(syncer, learner)
    merged = syncer.told.of(Kind.ROUND_MERGED)[0]
    assert merged["contributors"][0]["learner"] == "learner-0"
    assert merged["contributors"][0]["weight"] == pytest.approx(
        merged["contributors"][0]["c_tokens"] ** 2 / merged["contributors"][0]["c_steps"]
    )


def test_initial_parameters_that_are_handed_in_again_are_refused(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    again = pb.Push(fragment=0, base_version=-1)
    learner.push(again, np.ones(SIZES[0], np.float32))
    assert syncer.told.wait(Kind.PUSH_REJECTED)["reason"] == "not_asked"
    still_merges(syncer, learner)


@pytest.mark.parametrize(
    ("lies", "value", "more", "reason"),
    [
        ({"round": 999_999}, 1.0, b"", "unknown_round"),
        ({"base_version": 57}, 1.0, b"", "stale"),
        ({"c_tokens": 10**9, "tokens_to": 10**9}, 1.0, b"", "wrong_counts"),
        ({"c_steps": 0}, 1.0, b"", "wrong_counts"),
        ({"c_steps": 10**12}, 1.0, b"", "wrong_counts"),
        ({"tokens_from": 1}, 1.0, b"", "wrong_counts"),
        ({"codec": "gzip"}, 1.0, b"", "malformed"),
        ({}, 1.0, b"more", "malformed"),
        ({}, np.nan, b"", "not_finite"),
        ({}, 1e30, b"", "malformed"),
    ],
)
def test_a_push_that_is_none_is_refused_and_never_merged(
    syncer: RunningSyncer, lies: Push, value: float, more: bytes, reason: str, learner: HandLearner
) -> None:
    pull = learner.pulled()
    values = np.full(SIZES[pull.fragment], value, np.float32)
    learner.push_bytes(learner.answer(pull, **lies), values.tobytes() + more)
    assert syncer.told.wait(Kind.PUSH_REJECTED)["reason"] == reason
    assert not syncer.told.of(Kind.ROUND_MERGED)


OTHER_SPECS = json.dumps(
    [{"name": name, "shape": [3], "is_averaged": False} for name in ("x", "y")]
)


@pytest.mark.parametrize(
    ("name", "specs"),
    [("stranger", specs_to_json(SPECS)), ("learner-1", OTHER_SPECS), ("learner-1", "[" * 5000)],
    ids=["off the roster", "other tensors", "garbage"],
)
def test_who_does_not_belong_to_the_training_is_told_so_and_changes_nothing(
    syncer: RunningSyncer, name: str, specs: str, learner: HandLearner
) -> None:
    other = HandLearner(syncer, name)
    other.hello(specs_json=specs)
    refused, _ = other.hear("refused")
    assert syncer.told.wait(Kind.MEMBER_REFUSED, learner=name)["reason"] == refused.reason
    still_merges(syncer, learner)


def test_an_honest_decline_is_no_refusal(syncer: RunningSyncer, learner: HandLearner) -> None:
    pull = learner.pulled()
    learner.push_bytes(pb.Push(round=pull.round, fragment=pull.fragment, codec="f32"), b"")
    syncer.told.wait(Kind.ROUND_ABANDONED, round=pull.round)
    still_merges(syncer, learner)
    assert not syncer.told.of(Kind.PUSH_REJECTED)


def test_a_replayed_push_is_refused_and_counts_once(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    pull = learner.pulled()
    push = learner.answer(pull)
    learner.push(push, ones(pull))
    syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)
    learner.push(push, ones(pull))
    assert syncer.told.wait(Kind.PUSH_REJECTED)["reason"] in ("late", "replay")
    rounds = [m for m in syncer.told.of(Kind.ROUND_MERGED) if m["round"] == pull.round]
    assert len(rounds) == 1


def test_a_push_under_another_members_epoch_is_refused(syncer: RunningSyncer) -> None:
    honest, liar = joined(syncer), joined(syncer, "learner-1")
    pull = honest.pulled()
    liar.epoch = honest.epoch
    liar.push(honest.answer(pull), ones(pull))
    rejected = syncer.told.wait(Kind.PUSH_REJECTED)
    assert (rejected["reason"], rejected["learner"]) == ("fenced", "learner-1")
    honest.push(honest.answer(pull), ones(pull))
    merged = syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)
    assert [c["learner"] for c in merged["contributors"]] == ["learner-0"]


@pytest.mark.parametrize(
    "lie",
    [
        {"data_position": 2**64 - 1},
        {"step": 2**63},
        {"step_s": float("inf")},
        {"step_s": -1.0},
        {"versions": [0, 0, 0]},
    ],
    ids=str,
)
def test_counters_that_no_learner_can_have_end_only_their_own_membership(
    syncer: RunningSyncer, lie: dict[str, Any]
) -> None:
    honest, liar = joined(syncer), joined(syncer, "learner-1")
    liar.train(2)
    liar.report(**lie)
    syncer.told.wait(Kind.PUSH_REJECTED, learner="learner-1", reason="malformed")
    syncer.told.wait(Kind.MEMBER_LEFT, learner="learner-1")
    still_merges(syncer, honest)
    again = HandLearner(syncer, "learner-1", incarnation=2)
    again.hello()
    welcome, _ = again.hear("welcome")
    assert welcome.data_position <= 10


def test_a_learner_is_sent_to_the_furthest_step_although_nobody_is_left(
    syncer: RunningSyncer,
) -> None:
    last = joined(syncer)
    last.train(9)
    last.close()
    syncer.told.wait(Kind.MEMBER_LEFT, learner="learner-0")
    other = HandLearner(syncer, "learner-1")
    other.hello()
    welcome, _ = other.hear("welcome")
    assert (welcome.source, welcome.step) == ("syncer", 9)


def test_a_learner_whose_socket_closes_is_dropped_at_once(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    learner.close()
    assert syncer.told.wait(Kind.MEMBER_LEFT, learner="learner-0")["reason"] == "closed"


def test_a_learner_that_only_repeats_its_counters_is_suspected_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncer_module, "_PAUSED_S", math.inf)
    with running_syncer(tmp_path) as syncer:
        wedged, healthy = joined(syncer), joined(syncer, "learner-1")
        wedged.train(2)
        for limit_s in (SUSPECT_S, DROP_S - SUSPECT_S):
            wedged.report()  # heartbeats go on while the step stalls
            healthy.train(2)
            handled_by(syncer, wedged, healthy)
            syncer.skipped_s += limit_s
            syncer.told.wait(Kind.MEMBER_SUSPECTED, learner="learner-0")
        left = syncer.told.wait(Kind.MEMBER_LEFT)
        assert (left["learner"], left["reason"]) == ("learner-0", "no_progress")
        wedged.hear("fenced")


@pytest.mark.parametrize("reading", range(5))
def test_wherever_in_its_turn_the_syncer_is_paused_it_suspects_nobody(
    syncer: RunningSyncer, learner: HandLearner, reading: int
) -> None:
    """The pause falls before that reading of the clock, counted from some turn on."""
    learner.train(2)
    handled_by(syncer, learner)
    paused, left = threading.Event(), count(reading, -1)

    def pause() -> None:
        if next(left) == 0:
            syncer.skipped_s += DROP_S
            paused.set()

    syncer.when_read = pause
    learner.report()
    assert paused.wait(60)
    still_merges(syncer, learner)
    assert not syncer.told.of(Kind.MEMBER_SUSPECTED)


def test_a_restarted_syncer_goes_on_from_the_disk(tmp_path: Path) -> None:
    with running_syncer(tmp_path) as first:
        learner = joined(first, "learner-0")
        still_merges(first, learner)
    final = first.told.wait(Kind.SYNCER_FINAL)
    assert (final["reason"], final["was_asked"]) == ("the test is over", True)
    with running_syncer(tmp_path) as second:
        assert second.told.wait(Kind.SYNCER_READY)["is_recovered"] is True
        again = joined(second, "learner-0", incarnation=2)
        assert again.versions == [final["versions"]["0"], final["versions"]["1"]]
        still_merges(second, again)
    after = second.told.wait(Kind.SYNCER_FINAL)
    assert sum(after["versions"].values()) > sum(final["versions"].values())
    assert after["stored_digests"] == after["digests"]
    assert after["stored_momentum_digests"] == after["momentum_digests"]


def test_an_old_life_cannot_come_back_after_the_syncer_was_restarted(tmp_path: Path) -> None:
    with running_syncer(tmp_path) as first:
        learner = joined(first, "learner-0", incarnation=3)
        still_merges(first, learner)
    with running_syncer(tmp_path) as second:
        ghost = HandLearner(second, "learner-0", incarnation=2)
        ghost.hello()
        ghost.hear("refused")


# ---------------------------------------------------------------- work off the main thread


class Gated:
    """In place of a slow step of the syncer: it has begun, and goes on when it may."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real = real
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        return self.real(*given, **named)


def pushed(syncer: RunningSyncer, learner: HandLearner, step: Gated) -> pb.Pull:
    """Push, and return once the syncer is in that step of it."""
    pull = learner.pulled()
    learner.push(learner.answer(pull), ones(pull))
    assert step.has_begun.wait(60)
    return pull


@pytest.mark.parametrize("step", ["examine", "merge", "store", "publication"])
def test_messages_are_handled_while_a_round_is_worked_on(syncer: RunningSyncer, step: str) -> None:
    learner, other = joined(syncer), HandLearner(syncer, "learner-1")
    state = syncer.syncer_state
    owner: Any = state.pushes if step == "examine" else state
    gate = Gated(getattr(owner, step))
    setattr(owner, step, gate)
    pull = pushed(syncer, learner, gate)
    other.hello()
    syncer.told.wait(Kind.MEMBER_JOINED, learner="learner-1")
    assert not syncer.told.of(Kind.ROUND_MERGED)
    gate.may_go_on.set()
    syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)


def test_a_learner_that_leaves_after_its_push_is_merged_and_then_leaves(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    examine = syncer.syncer_state.pushes.examine = Gated(syncer.syncer_state.pushes.examine)
    pull = pushed(syncer, learner, examine)
    learner.connection.close(
        pb.FromLearner(epoch=learner.epoch, goodbye=pb.Goodbye(reason="the test"))
    )
    other = HandLearner(syncer, "learner-1")
    other.hello()
    syncer.told.wait(Kind.MEMBER_JOINED, learner="learner-1")  # the goodbye was looked at before
    assert not syncer.told.of(Kind.MEMBER_LEFT)
    examine.may_go_on.set()
    merged = syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)
    assert [given["learner"] for given in merged["contributors"]] == ["learner-0"]
    assert syncer.told.wait(Kind.MEMBER_LEFT)["reason"] == "said_goodbye"


def test_a_push_that_comes_twice_while_it_is_decoded_counts_once(
    syncer: RunningSyncer, learner: HandLearner
) -> None:
    examine = syncer.syncer_state.pushes.examine = Gated(syncer.syncer_state.pushes.examine)
    pull = pushed(syncer, learner, examine)
    learner.push(learner.answer(pull), ones(pull))
    assert syncer.told.wait(Kind.PUSH_REJECTED)["reason"] == "replay"
    examine.may_go_on.set()
    syncer.told.wait(Kind.ROUND_MERGED, round=pull.round)
    assert len(syncer.told.of(Kind.PUSH_ACCEPTED)) == 1


def test_a_push_whose_member_is_dropped_while_it_is_decoded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncer_module, "_PAUSED_S", math.inf)
    with running_syncer(tmp_path) as syncer:
        learner = joined(syncer)
        examine = syncer.syncer_state.pushes.examine = Gated(syncer.syncer_state.pushes.examine)
        pushed(syncer, learner, examine)
        syncer.skipped_s += DROP_S
        syncer.told.wait(Kind.MEMBER_LEFT)
        examine.may_go_on.set()
        assert syncer.told.wait(Kind.PUSH_REJECTED)["reason"] == "fenced"


def test_what_a_step_of_a_round_raises_ends_the_syncer(tmp_path: Path) -> None:
    with running_syncer(tmp_path) as syncer:
        raised: list[BaseException] = []
        run = syncer.thread
        hook, threading.excepthook = (
            threading.excepthook,
            lambda said: raised.append(said.exc_value),
        )
        try:
            learner = joined(syncer)
            syncer.syncer_state.merge = lambda *_: 1 / 0
            pull = learner.pulled()
            learner.push(learner.answer(pull), ones(pull))
            run.join(60)
        finally:
            threading.excepthook = hook
        assert isinstance(raised[0], ZeroDivisionError)


def test_the_last_versions_are_sent_before_the_end_and_everybody_may_leave(tmp_path: Path) -> None:
    with running_syncer(tmp_path, stop_rounds=1) as syncer:
        learner = joined(syncer)
        still_merges(syncer, learner)
        stop, _ = learner.hear("stop")
        assert list(stop.versions)
        syncer.syncer.end("too late: its own rule was met before")
        learner.close()
        final = syncer.told.wait(Kind.SYNCER_FINAL)
        assert (final["rounds"], final["reason"], final["was_asked"]) == (1, "1 rounds", False)


def test_a_push_that_comes_after_its_membership_was_dropped_is_answered_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncer_module, "_PAUSED_S", math.inf)
    with running_syncer(tmp_path) as syncer:
        learner = joined(syncer)
        pull = learner.pulled()
        epoch, push = learner.epoch, learner.answer(pull)

        def push_at_last() -> None:
            learner.push(push, ones(pull))  # it has not heard yet that it was dropped
            while not syncer.hub.arrivals.items:
                time.sleep(0.001)

        syncer.told.when[Kind.MEMBER_LEFT] = push_at_last
        handled_by(syncer, learner)
        syncer.skipped_s += DROP_S
        rejected = syncer.told.wait(Kind.PUSH_REJECTED, round=pull.round)
    whose = {"learner": "learner-0", "incarnation": 1, "epoch": epoch}
    assert rejected.items() >= {**whose, "round": pull.round, "reason": "fenced"}.items()
