"""The limits at the last moment: what may still be injected, as things stand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.network import NetworkLatency
from chaoslab.fleet.base import Role
from chaoslab.plan.model import Injection, Limits, Trigger
from chaoslab.run.open_injection import OpenInjection, OpenInjections
from chaoslab.run.triggers import Progress
from tests.fake_faults import FakeKill

LEARNERS = ("learner-0", "learner-1", "learner-2", "learner-3")
KILL = Injection(
    number=0,
    spec="half",
    fault="process.kill",
    settings=None,
    targets=("learner-0", "learner-1"),
    trigger=Trigger(round=1),
    for_s=1.0,
)


EXITED = Event(seq=0, time_s=0.0, source="fleet", kind=Kind.NODE_EXITED)


def progress(*, dead: tuple[str, ...] = ()) -> Progress:
    """Four learners and a syncer, all started, some of them dead again."""
    names = (*LEARNERS, "syncer")
    return Progress(
        roles={name: Role.SYNCER if name == "syncer" else Role.LEARNER for name in names},
        incarnations=dict.fromkeys(names, 1),
        exits=dict.fromkeys(dead, EXITED),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch(FakeKill):
    """Its targets go on training."""

    takes_away: ClassVar[bool] = False


def opened(settings: Fault, *targets: str) -> OpenInjection:
    injection = replace(KILL, settings=settings, targets=targets)
    return OpenInjection(injection=injection, fault=settings, injected_s=0.0)


def reason(
    injection: Injection = KILL,
    *,
    fault: Fault = FakeKill(),  # noqa: B008  # frozen
    limits: Limits | None = None,
    dead: tuple[str, ...] = (),
    beside: Sequence[OpenInjection] = (),
) -> str | None:
    all_open = OpenInjections(
        limits=limits or Limits(), progress=progress(dead=dead), all=list(beside)
    )
    found = all_open.forbidden(injection, fault)
    return found.reason if found else None


def test_an_injection_within_the_limits_may_go_ahead() -> None:
    assert reason() is None


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("learner-1: ", {"beside": [opened(Touch(), "learner-1")]}),
        ("learner-0, learner-1: ", {"dead": ("learner-0", "learner-1")}),
        ("learner-0: ", {"limits": Limits(protected=("learner-0",))}),
        ("2 of 4 learners", {"limits": Limits(max_affected=0.25)}),
        (
            "3 of 4 learners",
            {"limits": Limits(max_affected=0.5), "beside": [opened(Touch(), "learner-3")]},
        ),
        ("min_alive is 3", {"limits": Limits(min_alive=3)}),
        (
            "min_alive is 2",
            {"limits": Limits(min_alive=2), "dead": ("learner-3",)},
        ),
        (
            "min_alive is 2",
            {"limits": Limits(min_alive=2), "beside": [opened(FakeKill(), "learner-2")]},
        ),
    ],
)
def test_a_limit_that_would_break_is_named(why: str, given: dict[str, object]) -> None:
    assert why in (reason(**given) or "")  # type: ignore[arg-type]  # one table for all


def test_exactly_the_allowed_share_may_be_affected() -> None:
    assert reason(limits=Limits(max_affected=0.5)) is None


def test_a_fault_that_takes_nobody_away_leaves_everybody_alive() -> None:
    assert reason(limits=Limits(min_alive=4), fault=Touch()) is None


def test_shapings_of_one_link_are_open_together() -> None:
    latency = NetworkLatency()
    one = replace(KILL, targets=("learner-1",))
    beside = [opened(latency, "learner-1")]
    assert reason(one, fault=latency, beside=beside) is None
    assert "learner-1: " in (reason(one, beside=beside) or "")


def test_a_fault_on_the_syncer_counts_no_learner() -> None:
    syncer = replace(KILL, targets=("syncer",))
    assert reason(syncer, limits=Limits(min_alive=4, max_affected=0.1)) is None
