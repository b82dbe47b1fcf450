"""Repair of a slice as a state machine: which step follows which report."""

import pytest

from chaoslab.fleet.provider import Condition, Refusal, SliceReport
from chaoslab.fleet.slices.repair import Cause, Counts, SliceRepair, Stage, Step
from chaoslab.fleet.tpu.inventory import Repair

NODE = "learner-1"


class Told:
    """A repair, and the provider's word of the slice."""

    def __init__(
        self,
        cause: Cause = Cause.PREEMPTION,
        *,
        limits: Repair | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.now_s = 100.0
        self.counts = counts or Counts()
        self.repair = SliceRepair(
            node=NODE,
            cause=cause,
            begun_s=self.now_s,
            limits=limits or Repair(),
            counts=self.counts,
            lost="old",
        )

    def sees(
        self, condition: Condition, resource: str = "new", *, after_s: float = 1.0
    ) -> Step | None:
        self.now_s += after_s
        report = SliceReport(node=NODE, condition=condition, resource=resource)
        return self.repair.advance(report, self.now_s)

    def does(self, step: Step | None, resource: str = "new") -> "Told":
        assert step is not None
        self.repair.done(step, self.now_s, resource=resource)
        return self

    def in_trial(self) -> "Told":
        """A new slice is up, and the node was started on it."""
        self.does(self.sees(Condition.PREEMPTED, "old"))
        self.does(self.sees(Condition.LEAVING, "old"))
        self.sees(Condition.COMING)
        return self.does(self.sees(Condition.UP))


def test_a_preempted_slice_is_cleared_requested_awaited_and_back_with_the_first_step() -> None:
    told = Told()
    cleared = told.sees(Condition.PREEMPTED, "old")
    requested = told.does(cleared).sees(Condition.LEAVING, "old")
    assert (cleared, requested) == (Step.CLEAR, Step.REQUEST)
    told.does(requested)
    assert told.sees(Condition.WAITING) is None
    assert told.repair.stage is Stage.WAITING
    assert told.sees(Condition.COMING) is None
    started = told.sees(Condition.UP)
    assert started is Step.START
    told.does(started)
    assert not told.repair.is_over, "the provider's word alone brings nobody back"
    told.repair.stepped(told.now_s)
    assert told.repair.stage is Stage.BACK
    assert (told.counts.preemptions, told.counts.failures) == (1, 0)


def test_a_stopped_slice_is_started_again_and_its_late_state_believed_only_for_a_while() -> None:
    told = Told(Cause.FAULT)
    told.does(told.sees(Condition.STOPPED, "old"), resource="")
    assert told.sees(Condition.STOPPED, "old") is None
    assert told.sees(Condition.STOPPED, "old", after_s=61.0) is Step.RESUME


def test_a_maintained_slice_is_awaited() -> None:
    told = Told(Cause.FAULT)
    assert told.sees(Condition.MAINTAINED, "old") is None
    assert told.sees(Condition.UP, "old") is Step.START


def test_what_the_api_says_of_a_former_slice_is_passed_over() -> None:
    told = Told()
    told.does(told.sees(Condition.PREEMPTED, "old")).does(told.sees(Condition.LEAVING, "old"))
    assert told.sees(Condition.PREEMPTED, "old") is None
    assert told.sees(Condition.UP, "old") is None
    assert told.sees(Condition.UP, "new") is Step.START


def test_a_step_is_given_once_until_something_is_told_of_it() -> None:
    told = Told()
    assert told.sees(Condition.PREEMPTED, "old") is Step.CLEAR
    assert told.sees(Condition.PREEMPTED, "old") is None


@pytest.mark.parametrize("refusal", [Refusal.QUOTA, Refusal.STOCK_OUT, Refusal.UNAVAILABLE, None])
def test_a_refused_request_is_repeated_later_and_later(refusal: Refusal | None) -> None:
    told = Told()
    step = told.does(told.sees(Condition.PREEMPTED, "old")).sees(Condition.ABSENT, "")
    assert step is Step.REQUEST
    for pause_s in (5.0, 10.0, 20.0, 40.0, 60.0, 60.0):
        told.repair.refused(Step.REQUEST, refusal, "no", told.now_s)
        assert told.sees(Condition.ABSENT, "", after_s=pause_s - 0.1) is None
        assert told.sees(Condition.ABSENT, "", after_s=0.2) is Step.REQUEST


@pytest.mark.parametrize("refusal", [Refusal.DENIED, Refusal.INVALID])
def test_what_will_always_be_refused_is_given_up(refusal: Refusal) -> None:
    told = Told()
    told.sees(Condition.ABSENT, "")
    told.repair.refused(Step.REQUEST, refusal, "not allowed", told.now_s)
    assert (told.repair.stage, told.repair.detail) == (Stage.GIVEN_UP, "not allowed")


def test_no_slice_in_time_is_given_up() -> None:
    told = Told(limits=Repair(wait_s=60.0))
    told.does(told.sees(Condition.PREEMPTED, "old")).does(told.sees(Condition.ABSENT, ""))
    assert told.sees(Condition.WAITING, after_s=30.0) is None
    assert told.sees(Condition.WAITING, after_s=30.0) is None
    assert told.repair.stage is Stage.GIVEN_UP
    assert "60 s" in told.repair.detail


def test_a_request_that_expired_is_made_again_and_counts_as_nothing() -> None:
    told = Told()
    told.does(told.sees(Condition.PREEMPTED, "old")).does(told.sees(Condition.ABSENT, ""))
    cleared = told.sees(Condition.FAILED)
    assert cleared is Step.CLEAR
    assert told.does(cleared).sees(Condition.LEAVING, after_s=5.1) is Step.REQUEST
    assert (told.counts.preemptions, told.counts.failures) == (1, 0)


def test_requests_that_fail_one_after_the_other_are_made_later_and_later() -> None:
    told = Told()
    told.does(told.sees(Condition.PREEMPTED, "old")).does(told.sees(Condition.ABSENT, ""))
    for pause_s in (5.0, 10.0, 20.0):
        told.does(told.sees(Condition.FAILED, after_s=0.0))
        assert told.sees(Condition.ABSENT, "", after_s=pause_s - 0.1) is None
        told.does(told.sees(Condition.ABSENT, "", after_s=0.2))
    assert told.sees(Condition.COMING) is None
    told.does(told.sees(Condition.FAILED, after_s=0.0))
    assert told.sees(Condition.ABSENT, "", after_s=5.1) is Step.REQUEST, "one was on its way"


# ---------------------------------------------------------------- the two budgets


def test_a_node_that_ends_before_its_first_step_has_a_bad_host_that_is_replaced() -> None:
    told = Told().in_trial()
    told.repair.ended(told.now_s, "exit code 1")
    assert told.sees(Condition.UP, after_s=9.0) is None, "the provider may say that it took it"
    assert told.sees(Condition.UP, after_s=2.0) is Step.CLEAR, "the host is up, and another wanted"
    assert (told.counts.preemptions, told.counts.failures) == (1, 1)
    assert (told.repair.cause, told.repair.detail) == (Cause.FAILURE, "exit code 1")


def test_a_node_without_a_step_in_time_has_a_bad_host_that_is_replaced() -> None:
    told = Told().in_trial()
    assert told.sees(Condition.UP, after_s=301.0) is Step.CLEAR
    assert (told.counts.preemptions, told.counts.failures) == (1, 1)


def test_crashes_use_up_the_failures_however_many_preemptions_are_allowed() -> None:
    told = Told(limits=Repair(preemptions=1000, failures=2)).in_trial()
    for crash in range(3):
        told.repair.ended(told.now_s, "exit code 1")
        cleared = told.sees(Condition.UP, after_s=11.0)
        if crash < 2:
            told.does(cleared)
            told.does(told.sees(Condition.LEAVING), resource="new")
            told.does(told.sees(Condition.UP))
    assert told.repair.stage is Stage.GIVEN_UP
    assert told.counts.failures == 3
    assert told.counts.preemptions == 1


def test_preemptions_use_up_their_own_budget() -> None:
    counts = Counts(preemptions=2)
    told = Told(limits=Repair(preemptions=2, failures=0), counts=counts)
    assert told.sees(Condition.PREEMPTED, "old") is None
    assert told.repair.stage is Stage.GIVEN_UP
    assert counts.failures == 0


def test_a_preemption_before_the_first_step_is_no_failure() -> None:
    told = Told().in_trial()
    assert told.sees(Condition.PREEMPTED) is None, "the node lives: the word alone is not believed"
    told.repair.ended(told.now_s, "its host is gone")
    assert told.sees(Condition.PREEMPTED) is Step.CLEAR
    assert (told.counts.preemptions, told.counts.failures) == (2, 0)


def test_why_a_node_ended_on_trial_is_not_decided_while_the_provider_cannot_be_asked() -> None:
    told = Told().in_trial()
    told.repair.ended(told.now_s, "its host is gone")
    assert told.sees(Condition.UNKNOWN, "", after_s=60.0) is None
    assert told.repair.stage is Stage.TRIAL
    assert told.sees(Condition.PREEMPTED) is Step.CLEAR
    assert (told.counts.preemptions, told.counts.failures) == (2, 0)


def test_a_fault_of_the_plan_uses_up_nothing() -> None:
    counts = Counts()
    Told(Cause.FAULT, counts=counts).in_trial()
    assert (counts.preemptions, counts.failures) == (0, 0)


def test_hosts_that_cannot_be_reached_though_they_are_up_are_bad_hosts() -> None:
    told = Told(limits=Repair(probation_s=30.0))
    told.does(told.sees(Condition.PREEMPTED, "old")).does(told.sees(Condition.ABSENT, ""))
    assert told.sees(Condition.UP) is Step.START
    told.repair.refused(Step.START, None, "connection refused", told.now_s)
    assert told.sees(Condition.UP, after_s=20.0) is Step.START
    told.repair.refused(Step.START, None, "connection refused", told.now_s)
    assert told.sees(Condition.UP, after_s=20.0) is None
    assert (told.counts.failures, told.repair.detail) == (1, "connection refused")
    assert told.sees(Condition.UP) is Step.CLEAR


def test_a_step_of_a_node_that_is_not_on_trial_changes_nothing() -> None:
    told = Told()
    told.repair.stepped(told.now_s)
    assert told.repair.stage is Stage.BEGUN


def test_a_report_that_did_not_change_since_the_fault_is_late_and_believed_after_a_while() -> None:
    told = Told(Cause.FAULT)
    told.repair.before = SliceReport(node=NODE, condition=Condition.UP, resource="old")
    assert told.sees(Condition.UP, "old") is None
    assert told.sees(Condition.UP, "old", after_s=60.0) is Step.START


def test_a_report_that_changed_since_the_fault_is_believed_at_once() -> None:
    told = Told(Cause.FAULT)
    told.repair.before = SliceReport(node=NODE, condition=Condition.UP, resource="old")
    assert told.sees(Condition.ABSENT, "") is Step.REQUEST
