"""When triggers are met, what progress remembers, and when abort rules fire."""

from collections.abc import Callable, Mapping

import pytest

from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import CountsSampled
from chaoslab.plan.model import AbortRule, Trigger
from chaoslab.run.triggers import Progress, due_s, fired, fires_s


class Told:
    """A progress to which things are told one after the other."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.seq = 0

    def tell(
        self, kind: Kind, data: Mapping[str, Json], *, at_s: float, source: str = "x"
    ) -> "Told":
        event = Event(seq=self.seq, time_s=at_s, source=source, kind=kind, data=data)
        self.seq += 1
        self.progress.see(event)
        return self

    def started(self, name: str, *, at_s: float = 0.0, incarnation: int = 1) -> "Told":
        role = "syncer" if name == "syncer" else "learner"
        data: dict[str, Json] = {"node": name, "role": role, "incarnation": incarnation}
        return self.tell(Kind.NODE_STARTED, data, at_s=at_s)

    def exited(self, name: str, *, at_s: float, incarnation: int = 1) -> "Told":
        data: dict[str, Json] = {
            "node": name, "incarnation": incarnation, "exit_code": None, "signal": "SIGKILL"
        }  # fmt: skip
        return self.tell(Kind.NODE_EXITED, data, at_s=at_s)

    def stepped(self, name: str, step: int, *, at_s: float, loss: float = 3.0) -> "Told":
        return self.tell(
            Kind.LEARNER_STEP, {"learner": name, "step": step, "loss": loss}, at_s=at_s
        )

    def healed(self, *, at_s: float) -> "Told":
        return self.tell(Kind.FAULT_HEALED, {"spec": "half-dies"}, at_s=at_s)

    def merged(self, *names: str, at_s: float, incarnation: int = 1, tokens: int = 0) -> "Told":
        work = {"epoch": 1, "step": 1, "c_steps": 1, "c_tokens": 1, "weight": 1}
        place: dict[str, Json] = {**work, "tokens_from": 0, "tokens_to": 1}
        contributors: list[Json] = [
            {"learner": name, "incarnation": incarnation, **place} for name in names
        ]
        data: dict[str, Json] = {
            "round": self.progress.rounds + 1,
            "contributors": contributors,
            "committed_tokens": tokens,
        }
        return self.tell(Kind.ROUND_MERGED, data, at_s=at_s)


# ---------------------------------------------------------------- triggers


@pytest.mark.parametrize(
    ("trigger", "early", "late", "time_s"),
    [
        (
            Trigger(round=2),
            lambda t: t.merged("a", at_s=1.0),
            lambda t: t.merged("a", at_s=2.5),
            2.5,
        ),
        (
            Trigger(step=100),
            lambda t: t.stepped("a", 90, at_s=1.0).stepped("b", 99, at_s=1.1),
            lambda t: t.stepped("b", 104, at_s=2.0).stepped("a", 200, at_s=3.0),
            2.0,
        ),
        (
            Trigger(step=100, of="b"),
            lambda t: t.stepped("a", 200, at_s=1.0),
            lambda t: t.stepped("b", 100, at_s=4.0),
            4.0,
        ),
        (
            Trigger(loss=2.5),
            lambda t: t.stepped("a", 1, at_s=1.0, loss=2.0).stepped("b", 1, at_s=1.2, loss=4.0),
            lambda t: t.stepped("b", 2, at_s=2.0, loss=2.9),
            2.0,
        ),
        (
            Trigger(loss=2.5),
            lambda t: t.stepped("a", 1, at_s=1.0, loss=float("nan")),
            lambda t: t.stepped("a", 1, at_s=2.0, loss=2.4),
            2.0,
        ),
        (
            Trigger(after="half-dies", offset_s=2.0),
            lambda t: t,
            lambda t: t.healed(at_s=20.0).healed(at_s=40.0),
            22.0,
        ),
    ],
    ids=["round", "step", "step of one", "mean loss", "lost loss", "first heal"],
)
def test_a_trigger_is_due_when_it_is_met_first(
    trigger: Trigger,
    early: Callable[[Told], Told],
    late: Callable[[Told], Told],
    time_s: float,
) -> None:
    told = early(Told())
    assert due_s(trigger, told.progress) is None
    assert due_s(trigger, late(told).merged("a", at_s=50.0).progress) == time_s


@pytest.mark.parametrize(("trigger", "time_s"), [(Trigger(time_s=30.0), 30), (Trigger(round=0), 0)])
def test_a_time_and_round_zero_are_known_from_the_start(trigger: Trigger, time_s: float) -> None:
    assert due_s(trigger, Progress()) == time_s


# ---------------------------------------------------------------- progress


def test_a_node_lives_from_its_start_to_its_exit_and_again_after_a_restart() -> None:
    told = Told().started("learner-0")
    assert told.progress.is_alive("learner-0")
    told.exited("learner-0", at_s=5.0)
    assert not told.progress.is_alive("learner-0")
    assert told.progress.exits["learner-0"].time_s == 5.0
    told.started("learner-0", incarnation=2).exited("learner-0", at_s=6.0, incarnation=1)
    assert told.progress.is_alive("learner-0")


def test_a_contribution_counts_for_the_incarnation_that_made_it() -> None:
    told = Told().started("learner-0", incarnation=2).merged("learner-0", at_s=9.0, incarnation=1)
    assert not told.progress.has_contributed_since("learner-0", 8.0)
    told.merged("learner-0", at_s=9.5, incarnation=2)
    assert told.progress.has_contributed_since("learner-0", 8.0)
    assert not told.progress.has_contributed_since("learner-0", 9.5)


def test_a_contributor_without_incarnation_breaks_the_contract() -> None:
    data: dict[str, Json] = {"round": 1, "contributors": ["learner-0"], "committed_tokens": 1}
    with pytest.raises(MalformedEvent, match="contributor"):
        Told().tell(Kind.ROUND_MERGED, data, at_s=1.0)


def test_alive_members_stepping_and_contributing_are_counted_apart() -> None:
    told = Told()
    for name in ("learner-0", "learner-1", "learner-2", "learner-3"):
        told.started(name).tell(Kind.MEMBER_JOINED, {"learner": name, "incarnation": 1}, at_s=1.0)
    for name in ("learner-0", "learner-1", "learner-2"):
        told.stepped(name, 1, at_s=9.0)
    told.merged("learner-0", "learner-3", at_s=9.2)
    told.exited("learner-3", at_s=9.3).exited("learner-2", at_s=9.4)
    told.tell(Kind.MEMBER_LEFT, {"learner": "learner-3"}, at_s=9.5)

    counts = told.progress.counts(10.0, stepping_within_s=2.0)
    assert counts == CountsSampled(alive=2, members=3, stepping=2, contributing=2)


def test_contributing_allows_for_slow_rounds() -> None:
    told = Told().started("learner-0")
    for at_s in (10.0, 20.0, 30.0):
        told.merged("learner-0", at_s=at_s)
    assert told.progress.counts(58.0, stepping_within_s=2.0).contributing == 1
    assert told.progress.counts(61.0, stepping_within_s=2.0).contributing == 0


def test_training_is_over_when_the_syncer_says_so_and_not_by_the_word_of_a_learner() -> None:
    told = Told().started("learner-0")
    left: dict[str, Json] = {"learner": "learner-0", "reason": "stopped"}
    told.tell(Kind.LEARNER_LEFT, left, at_s=5.0, source="learner-0")
    assert not told.progress.is_stopping
    assert not told.progress.is_training_over
    told.tell(Kind.SYNCER_STOPPED, {"reason": "9 rounds"}, at_s=6.0, source="syncer")
    assert told.progress.is_stopping
    told.tell(Kind.SYNCER_FINAL, {"rounds": 9}, at_s=7.0, source="syncer")
    assert told.progress.is_training_over


# ---------------------------------------------------------------- abort rules


def test_no_round_for_counts_from_the_last_round_or_the_start_of_training() -> None:
    rule, told = AbortRule(no_round_for_s=5.0), Told().merged("learner-0", at_s=10.0)
    assert fires_s(rule, Progress(), since_s=2.0) == 7.0
    assert fires_s(rule, told.progress, since_s=2.0) == 15.0
    assert fired(rule, told.progress, 14.9, since_s=2.0) is None
    assert fired(rule, told.progress, 15.0, since_s=2.0)


@pytest.mark.parametrize("loss", [9.1, float("nan"), float("inf"), float("-inf")])
def test_loss_above_fires_on_a_high_or_lost_loss(loss: float) -> None:
    rule = AbortRule(loss_above=9.0)
    fine = Told().stepped("learner-0", 1, at_s=1.0, loss=9.0)
    assert fired(rule, fine.progress, 1.0, since_s=0.0) is None
    bad = Told().stepped("learner-0", 1, at_s=1.0, loss=loss)
    assert fired(rule, bad.progress, 1.0, since_s=0.0)


def test_alive_below_counts_learners_only() -> None:
    rule = AbortRule(alive_below=2)
    told = Told().started("syncer").started("learner-0").started("learner-1")
    assert fired(rule, told.progress, 1.0, since_s=0.0) is None
    told.exited("learner-1", at_s=2.0)
    assert fired(rule, told.progress, 2.0, since_s=0.0)


def test_alive_below_does_not_fire_on_learners_that_end_because_training_has() -> None:
    told = Told().started("syncer").started("learner-0")
    told.tell(Kind.SYNCER_STOPPED, {"reason": "150 s"}, at_s=2.0)
    told.exited("learner-0", at_s=2.1)
    assert fired(AbortRule(alive_below=1), told.progress, 2.1, since_s=0.0) is None
