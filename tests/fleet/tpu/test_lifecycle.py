"""Slices brought up and taken down while the provider refuses, fails late, or does not answer."""

from collections.abc import Sequence

import pytest
from google.rpc import code_pb2

from chaoslab.fleet.tpu.lifecycle import bring_up, take_down
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.states import Condition, ProviderError, Refusal, SliceReport
from tests.fake_tpu import Refused, Times
from tests.fleet.tpu.conftest import Cloudy
from tests.fleet.tpu.fake_provider import refusal


class Deaf(TpuProvider):
    """One that gets no answer so many times after each request."""

    for_looks = unanswered = 0

    def request(self, node: str, *, within_s: float | None = None) -> str:
        self.unanswered = self.for_looks
        return super().request(node, within_s=within_s)

    def look(self) -> Sequence[SliceReport]:
        if self.unanswered:
            self.unanswered -= 1
            raise refusal(Refusal.UNAVAILABLE)
        return super().look()


def up(cloudy: Cloudy, provider: TpuProvider, within_s: float = 60.0) -> list[Condition]:
    """Time goes by in the cloud alone, and quickly."""
    cloudy.dial.pace = 20.0
    found = bring_up(provider, within_s=within_s, clock=cloudy.dial)
    return [one.condition for one in found]


def test_a_wait_that_is_longer_than_that_for_repairs_is_the_one_that_counts(
    cloudy: Cloudy,
) -> None:
    cloudy.fake.times = Times(queue_s=3000.0)
    assert cloudy.provider.inventory.repair.wait_s < 3000.0
    assert up(cloudy, cloudy.provider, within_s=3600.0) == [Condition.UP] * 2


def test_it_waits_while_the_provider_does_not_answer(cloudy: Cloudy) -> None:
    provider = Deaf(cloudy.provider.inventory, cloudy.api)
    provider.for_looks = 3
    assert up(cloudy, provider, within_s=600.0) == [Condition.UP] * 2


def test_a_provider_that_never_answers_is_given_up(cloudy: Cloudy) -> None:
    provider = Deaf(cloudy.provider.inventory, cloudy.api)
    provider.for_looks = 1000
    with pytest.raises(ProviderError) as refused:
        up(cloudy, provider)
    assert refused.value.refusal is Refusal.UNAVAILABLE
    assert cloudy.dial.time_s == pytest.approx(60.0)


def down(cloudy: Cloudy) -> list[str]:
    """What is left."""
    owned = cloudy.provider.owned()
    left = take_down(cloudy.provider, owned, within_s=60.0, clock=cloudy.dial)
    return [one.node for one, _ in left]


def test_a_deletion_that_fails_after_it_was_accepted_is_asked_for_again(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.fake.fails_late["delete"] = code_pb2.INTERNAL
    assert down(cloudy) == ["learner-0", "learner-1"]
    cloudy.fake.fails_late.clear()
    assert down(cloudy) == []
    assert (cloudy.fake.ids, cloudy.fake.queue) == ([], {})


def test_a_deletion_that_was_accepted_is_not_asked_for_twice(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.fake.times = Times(delete_s=20.0, report_lag_s=15.0)
    assert down(cloudy) == []
    assert cloudy.fake.calls.count("DeleteQueuedResource") == 2


@pytest.mark.parametrize(
    ("code", "waits"),
    [(code_pb2.FAILED_PRECONDITION, True), (code_pb2.PERMISSION_DENIED, False)],
)
def test_one_that_is_refused_keeps_no_other_and_is_asked_for_again_if_that_may_help(
    cloudy: Cloudy, code: int, *, waits: bool
) -> None:
    cloudy.bring_up()
    before_s, delete = cloudy.dial.time_s, cloudy.fake.delete_queued_resource

    def refuse_first(asked: object) -> object:
        if "learner-0" in str(asked):
            raise Refused(code, "not now")
        return delete(asked)  # type: ignore[arg-type]  # as it came

    cloudy.fake.delete_queued_resource = refuse_first  # type: ignore[assignment,method-assign]
    assert down(cloudy) == ["learner-0"]
    assert len(cloudy.fake.ids) == 1
    assert (cloudy.dial.time_s - before_s >= 60.0) is waits
