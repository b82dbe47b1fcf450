"""What a broken link does to training: nothing twice, nothing that grows, nobody who waits.

The real syncer, the real messenger and wire; the model is missing, and a relay stands between.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.model.fragments import TensorSpec
from chaoslab.diloco.wire.streams import Limits
from tests.diloco.hand_learner import SPECS, RunningSyncer, running_syncer
from tests.diloco.little_learner import LittleLearner, training
from tests.diloco.tcp_proxy import TcpProxy
from tests.waiting import wait_until

LARGE = (
    TensorSpec(name="embed", shape=(50, 60), is_averaged=True),
    TensorSpec(name="head", shape=(2000,), is_averaged=False),
)


def merged_with(syncer: RunningSyncer, name: str = "learner-0") -> int:
    merged = syncer.told.of(Kind.ROUND_MERGED)
    return sum(any(c["learner"] == name for c in one["contributors"]) for one in merged)


def takes_part(syncer: RunningSyncer, step: Callable[[], None] = lambda: None) -> None:
    """Wait until some more of its work was merged; it makes these steps meanwhile."""
    before = merged_with(syncer)

    def is_heard() -> bool:
        step()
        return merged_with(syncer) > before + 3

    wait_until(is_heard)


def nothing_was_applied_twice(syncer: RunningSyncer) -> None:
    spans: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for merged in syncer.told.of(Kind.ROUND_MERGED):
        for part in merged["contributors"]:
            key = (part["learner"], part["incarnation"], merged["fragment"])
            spans[key].append((part["tokens_from"], part["tokens_to"]))
    for taken in spans.values():
        ordered = sorted(taken)
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))


def the_books_agree(syncer: RunningSyncer, learner: LittleLearner) -> None:
    """What the learner believes to be committed is what the syncer has merged up to its version."""
    for fragment, version in enumerate(learner.versions):
        booked = sum(
            part["c_tokens"]
            for merged in syncer.told.of(Kind.ROUND_MERGED)
            if merged["fragment"] == fragment and merged["version"] <= version
            for part in merged["contributors"]
            if part["learner"] == learner.name
        )
        assert learner.committed[fragment] == booked
        in_flight = learner.tokens - learner.since_tokens[fragment]
        assert booked + learner.discarded[fragment] + in_flight == learner.tokens


def cut_in_the_next_push(learner: LittleLearner, proxy: TcpProxy, after_bytes: int) -> None:
    def cut() -> None:
        learner.on_push = lambda: None
        proxy.cut_after(after_bytes)

    learner.on_push = cut


@pytest.mark.parametrize(
    ("specs", "cuts"),
    [
        pytest.param(SPECS, range(0, 360, 3), marks=pytest.mark.deep, id="small pushes"),
        pytest.param(LARGE, range(0, 14_000, 199), marks=pytest.mark.gate, id="several chunks"),
    ],
)
def test_a_reset_anywhere_in_a_push_applies_nothing_twice(
    tmp_path: Path, specs: Any, cuts: range
) -> None:
    with running_syncer(tmp_path) as syncer, TcpProxy(syncer.address) as proxy:
        with training(proxy.address, specs=specs) as learner:
            for cut in cuts:
                opened, merged = len(learner.of(Kind.LINK_OPENED)), merged_with(syncer)
                cut_in_the_next_push(learner, proxy, cut)
                wait_until(lambda o=opened: len(learner.of(Kind.LINK_OPENED)) > o)
                wait_until(lambda m=merged: merged_with(syncer) > m + 1)
        nothing_was_applied_twice(syncer)
        the_books_agree(syncer, learner)
        joined = syncer.told.of(Kind.MEMBER_JOINED)
        assert {one["incarnation"] for one in joined} == {1}
        assert {one["source"] for one in joined[1:]} == {"resumed"}
        assert len(joined) > len(cuts)
        given, taken = learner.of(Kind.LEARNER_PUSHED), syncer.told.of(Kind.PUSH_ACCEPTED)
        assert len(given) - len(taken) > len(cuts) / 4, "many were cut before their end"
        assert len(taken) > len(cuts), "and many went on as if nothing had happened"


def test_only_what_is_newer_is_sent_again_when_only_the_link_broke(tmp_path: Path) -> None:
    with running_syncer(tmp_path) as syncer, TcpProxy(syncer.address) as proxy:
        with training(proxy.address) as learner:
            takes_part(syncer)
            proxy.reset()
            wait_until(lambda: len(learner.of(Kind.LINK_OPENED)) > 1)
            takes_part(syncer)
        first, again = syncer.told.of(Kind.MEMBER_JOINED)
        assert (first["source"], again["source"]) == ("initial", "resumed")
        assert first["incarnation"] == again["incarnation"] == 1
        (fenced,) = learner.of(Kind.LEARNER_FENCED)
        assert fenced["epoch"] == first["epoch"]
        nothing_was_applied_twice(syncer)
        the_books_agree(syncer, learner)


def test_a_learner_whose_link_was_broken_when_training_ended_still_gets_the_last_versions(
    tmp_path: Path,
) -> None:
    with (
        running_syncer(tmp_path, stop_rounds=12) as syncer,
        TcpProxy(syncer.address) as proxy,
    ):
        with training(proxy.address) as learner, training(syncer.address, "learner-1") as other:
            wait_until(lambda: merged_with(syncer) > 1)
            proxy.refuse()
            wait_until(lambda: other.inbox.stop is not None)
            proxy.relent()
            wait_until(lambda: learner.inbox.stop is not None)
            assert learner.inbox.stop == other.inbox.stop
            assert learner.inbox.stop is not None
            last = list(learner.inbox.stop.versions)
            wait_until(lambda: learner.versions == last)
        nothing_was_applied_twice(syncer)
        the_books_agree(syncer, learner)


# ---------------------------------------------------------------- nobody says that it is broken

WATCHFUL = Limits(keepalive_s=0.5, answer_s=0.5)


@pytest.mark.parametrize(
    "told", [{}, {"break_learner": True}, {"break_syncer": True}], ids=["none", "learner", "syncer"]
)
def test_a_half_open_connection_is_noticed_and_the_learner_dials_again(
    tmp_path: Path, told: dict[str, bool]
) -> None:
    """`told`: which end hears of it; the other must find out by itself."""
    with (
        running_syncer(tmp_path, limits=WATCHFUL) as syncer,
        TcpProxy(syncer.address) as proxy,
    ):
        with training(proxy.address, limits=WATCHFUL) as learner:
            takes_part(syncer)
            proxy.forget(**told)
            wait_until(lambda: len(learner.of(Kind.LINK_OPENED)) > 1)
            takes_part(syncer)
        nothing_was_applied_twice(syncer)
        the_books_agree(syncer, learner)


def test_the_syncer_finds_out_by_itself_that_a_connection_leads_nowhere(tmp_path: Path) -> None:
    """Its member would not be dropped for a long time: only the link tells."""
    with (
        running_syncer(
            tmp_path, limits=WATCHFUL, suspect_after_s=1000.0, drop_after_s=2000.0
        ) as syncer,
        TcpProxy(syncer.address) as proxy,
    ):
        with training(proxy.address, limits=WATCHFUL):
            takes_part(syncer)
            proxy.refuse_new()
            proxy.forget(break_learner=True)
            left = syncer.told.wait(Kind.MEMBER_LEFT, learner="learner-0")
        assert left["reason"] == "closed"


# ---------------------------------------------------------------- frozen

PATIENT = Limits(keepalive_s=3600.0, answer_s=3600.0)


@pytest.mark.gate
def test_nothing_piles_up_at_either_end_of_a_frozen_link(tmp_path: Path) -> None:
    """Both go on as if it were open: the learner makes 2,000 steps, the other 40 rounds or more,
    until a payload was seen waiting.
    """
    rules = {"suspect_after_s": 10.0, "drop_after_s": 2000.0}  # the open round may be its alone
    with (
        running_syncer(tmp_path, limits=PATIENT, **rules) as syncer,
        TcpProxy(syncer.address) as proxy,
    ):
        frozen = LittleLearner(proxy.address, specs=LARGE, limits=PATIENT)
        other = LittleLearner(syncer.address, "learner-1", specs=LARGE)
        frozen.join()
        other.join()
        with other.running():
            takes_part(syncer, frozen.step)
            proxy.freeze()
            session = max(syncer.hub._sessions) - 1
            most, most_bytes, merged = (0, 0), 0, merged_with(syncer, "learner-1")
            rounds = lambda: merged_with(syncer, "learner-1") - merged  # noqa: E731
            while frozen.step_count < 2000 or rounds() < (40 if most[1] else 400):
                frozen.step()
                outboxes = (
                    frozen.connections[0]._outbox, syncer.hub._sessions[session].outbox
                )  # fmt: skip
                for controls, payloads in (outbox.waiting for outbox in outboxes):
                    most = max(most[0], controls), max(most[1], payloads)
                most_bytes = max(most_bytes, *(outbox.waiting_bytes for outbox in outboxes))
            assert len(frozen.connections) == 1, "the stream was open all the time"
            assert most[0] <= 8, "a report, a ping, a pong, and a pull for each open round"
            assert 1 <= most[1] <= 2, "one payload for each fragment"
            assert most_bytes <= 2 * 4 * 3000 + 2000, "the bytes of one version and some messages"
            proxy.thaw()
            takes_part(syncer, frozen.step)
        frozen.leave()
        other.leave()
        assert len(frozen.connections) == 1
        nothing_was_applied_twice(syncer)
