"""Faults planted in the policy are found by random plans: each by a seed, in the check named here.

The real methods are replaced for one simulation; without that the same seeds find nothing.
"""

from collections.abc import Callable

import pytest

from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.syncer import resume
from chaoslab.diloco.syncer.decisions import Abandon, Action, Hello, Member, SendAll
from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.rounds import Round, Rounds
from chaoslab.diloco.syncer.transfers import Transfers
from chaoslab.fuzz.plans import draw
from chaoslab.fuzz.search import HARNESS, run

Plant = Callable[[pytest.MonkeyPatch], None]


def forgets(what: Callable[[Policy], object]) -> Plant:
    """A syncer that continues from its disk and forgets something."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = resume.restore_policy

        def restore(policy: Policy, *rest: object) -> object:
            taken = real(policy, *rest)  # type: ignore[arg-type]  # passed on as they came
            what(policy)
            return taken

        patch.setattr("chaoslab.diloco.syncer.training_state.restore_policy", restore)

    return plant


def takes_every_push(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rounds, "judge", lambda *_: None)


def awaits_those_that_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rounds, "lose", lambda *_: None)


def sends_nothing_to_those_that_join(patch: pytest.MonkeyPatch) -> None:
    real = Policy.hello

    def hello(policy: Policy, now_s: float, said: Hello) -> list[Action]:
        return [one for one in real(policy, now_s, said) if not isinstance(one, SendAll)]

    patch.setattr(Policy, "hello", hello)


def keeps_work_of_abandoned_rounds(patch: pytest.MonkeyPatch) -> None:
    def abandon(_: Rounds, given_up: Round) -> Abandon:
        return Abandon(round=given_up.number, fragment=given_up.fragment, reason="planted")

    patch.setattr(Rounds, "_abandon", abandon)


def asks_no_other_donor(patch: pytest.MonkeyPatch) -> None:
    def lose(transfers: Transfers, _: float, gone: Member, __: LeaveReason) -> list[Action]:
        for one in tuple(transfers.open.values()):
            if gone.epoch in (one.receiver.epoch, one.donor.epoch):
                transfers._close(one.request)
        return []

    patch.setattr(Transfers, "lose", lose)
    patch.setattr(Transfers, "late", lambda *_: [])


def suspects_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "trust", lambda *_: [])


PLANTED: dict[str, tuple[Plant, int, str]] = {
    "takes every push": (takes_every_push, 92, "ledger"),
    "begins its rounds anew": (forgets(lambda p: setattr(p.rounds, "begun", 0)), 7, "versions"),
    "forgets its tokens": (forgets(lambda p: setattr(p.rounds, "fragment_tokens", 0)), 7, "ledger"),
    "gives epochs twice": (
        forgets(lambda p: setattr(p.membership, "last_epoch", 0)), 7, "succession",
    ),
    "waits for those that left": (awaits_those_that_left, 17, "quorum_progress"),
    "sends nothing to those that join": (sends_nothing_to_those_that_join, 0, "handover"),
    "keeps work of abandoned rounds": (keeps_work_of_abandoned_rounds, 25, "quorum_progress"),
    "suspects for ever": (suspects_for_ever, 0, HARNESS),
    "asks no other donor": (asks_no_other_donor, 7, "handover"),
}  # fmt: skip
"""By what it does wrong: the fault, the first seed that finds it, and where it shows."""
LONG = {
    "takes every push", "waits for those that left", "keeps work of abandoned rounds",
    "suspects for ever",
}  # fmt: skip
"""Of these, the ones whose simulations go on until something ends them."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] * (name in LONG)) for name in PLANTED],
)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, seed, check = PLANTED[name]
    plant(monkeypatch)
    assert check in {violated for violated, _ in run(draw(seed)).violations}


@pytest.mark.parametrize("seed", sorted({seed for _, seed, _ in PLANTED.values()}))
def test_without_it_the_same_seed_finds_nothing(seed: int) -> None:
    assert run(draw(seed)).reasons == ()
