"""Slices of one inventory on the fake cloud: known by their labels, and nobody else's touched."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from google.rpc import code_pb2

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.inventory import LearnerPlace
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.states import (
    FLEET,
    NODE,
    UNTIL,
    Condition,
    ProviderError,
    Refusal,
    condition,
)
from tests.fake_tpu import Times
from tests.fleet.tpu.conftest import ENTRY, Cloudy, inventory_of, paused_by


def conditions(cloudy: Cloudy) -> list[Condition]:
    return [one.condition for one in cloudy.provider.look()]


def test_a_new_fleet_waits_comes_and_is_up_with_its_labels_and_keys(cloudy: Cloudy) -> None:
    cloudy.fake.times = Times(queue_s=10.0, create_s=10.0)
    assert conditions(cloudy) == [Condition.ABSENT] * 2
    provider = TpuProvider(cloudy.provider.inventory, cloudy.api, wall_s=lambda: 1_900_000_000.0)
    with pytest.raises(FleetError, match="learner-0"):
        provider.hosts("learner-0")
    for node in provider.nodes:
        provider.request(node)
    assert conditions(cloudy) == [Condition.WAITING] * 2
    cloudy.later(10.0)
    assert conditions(cloudy) == [Condition.COMING] * 2
    cloudy.later(10.0)
    assert conditions(cloudy) == [Condition.UP] * 2
    labels = [dict(one.labels) for one in cloudy.fake.nodes.values()]
    until = str(int(1_900_000_000.0 + cloudy.provider.inventory.lifetime_s))
    assert labels == [{FLEET: "vines", NODE: node, UNTIL: until} for node in provider.nodes]
    host = HostAddress(address="10.0.0.2", host_keys=("ssh-ed25519 AAAA0",))
    assert provider.hosts("learner-0") == [host]


def test_what_others_made_is_neither_seen_nor_deleted(cloudy: Cloudy) -> None:
    cloudy.fake.add_foreign(ENTRY.zone, "vines-learner-0-000000")
    cloudy.fake.add_foreign(ENTRY.zone, "peas", **{FLEET: "peas", NODE: "learner-0"})
    cloudy.fake.add_foreign(ENTRY.zone, "copied-labels", **{FLEET: "vines", NODE: "learner-0"})
    cloudy.bring_up()
    for node in cloudy.provider.nodes:
        cloudy.provider.delete(node)
    assert conditions(cloudy) == [Condition.ABSENT] * 2
    assert cloudy.fake.ids == ["vines-learner-0-000000", "peas", "copied-labels"]


def test_a_slice_that_is_taken_leaves_its_request_suspended_by_us(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.do(SliceAct.TAKE, "learner-0")
    first, second = cloudy.provider.look()
    assert (first.condition, first.request, first.is_gone_by_us) == (
        Condition.ABSENT, "SUSPENDED", True,
    )  # fmt: skip
    assert (second.condition, second.is_gone_by_us) == (Condition.UP, False)


def test_a_preemption_is_told_by_the_request_though_the_slice_is_said_to_be_ready(
    cloudy: Cloudy,
) -> None:
    cloudy.bring_up()
    cloudy.fake.times.report_lag_s = 500.0
    cloudy.fake.preempt(cloudy.id_of("learner-1"))
    assert conditions(cloudy) == [Condition.UP, Condition.PREEMPTED]
    assert cloudy.provider.look()[1].state == "READY"


def test_stop_start_and_maintenance(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.fake.times = Times(create_s=9.0, maintenance_s=9.0)
    cloudy.provider.do(SliceAct.STOP, "learner-0")
    cloudy.provider.do(SliceAct.MAINTENANCE, "learner-1")
    assert conditions(cloudy) == [Condition.STOPPED, Condition.MAINTAINED]
    cloudy.provider.do(SliceAct.START, "learner-0")
    assert conditions(cloudy)[0] is Condition.COMING
    cloudy.later(9.0)
    assert conditions(cloudy) == [Condition.UP] * 2


def test_the_newest_slice_of_a_node_is_the_one(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    old = cloudy.id_of("learner-0")
    later = TpuProvider(cloudy.provider.inventory, cloudy.api, wall_s=lambda: 2_000_000_000.0)
    cloudy.fake.stock_chips[ENTRY.zone] = 0
    new = later.request("learner-0")
    assert new > old
    assert later.look()[0].resource == new


def test_a_slice_of_another_type_than_the_inventory_says_is_told(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    other = LearnerPlace(tpu=replace(ENTRY, type="v5litepod-8"))
    learners = {**cloudy.provider.inventory.learners, "learner-1": other}
    edited = TpuProvider(replace(cloudy.provider.inventory, learners=learners), cloudy.api)
    assert [bool(one.difference) for one in edited.look()] == [False, True]
    with pytest.raises(FleetError, match=r"learner-1.*v5litepod-4"):
        edited.hosts("learner-1")


def test_a_name_is_given_once_however_fast_slices_are_replaced(cloudy: Cloudy) -> None:
    hasty = TpuProvider(cloudy.provider.inventory, cloudy.api, wall_s=lambda: 1_900_000_000.0)
    names = []
    for _ in range(3):
        names.append(hasty.request("learner-0"))
        hasty.delete("learner-0")
    assert names == sorted(set(names))


# ---------------------------------------------------------------- calls that go wrong


def test_a_request_that_fails_after_it_was_accepted_is_told_and_may_be_made_again(
    cloudy: Cloudy,
) -> None:
    cloudy.fake.fails_late["create"] = code_pb2.RESOURCE_EXHAUSTED
    name = cloudy.provider.request("learner-0")
    first, second = cloudy.provider.look()
    assert (first.condition, first.resource) == (Condition.FAILED, name)
    assert second.condition is Condition.ABSENT
    cloudy.provider.delete("learner-0")
    assert conditions(cloudy) == [Condition.ABSENT] * 2
    cloudy.fake.fails_late.clear()
    assert cloudy.provider.request("learner-0") > name
    assert conditions(cloudy) == [Condition.UP, Condition.ABSENT]


def test_a_stop_that_fails_after_it_was_accepted_is_told_until_another_call(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.fake.fails_late["stop"] = code_pb2.INTERNAL
    cloudy.provider.do(SliceAct.STOP, "learner-0")
    told = cloudy.provider.look()[0]
    assert told.condition is Condition.UP
    assert told.detail
    cloudy.fake.fails_late.clear()
    cloudy.provider.do(SliceAct.STOP, "learner-0")
    told = cloudy.provider.look()[0]
    assert (told.condition, told.detail) == (Condition.STOPPED, "")


def test_operations_are_asked_for_until_they_have_ended(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.look()
    asked = cloudy.fake.calls.count("GetOperation")
    cloudy.provider.look()
    assert cloudy.fake.calls.count("GetOperation") == asked
    cloudy.fake.times.stop_s = 10.0
    cloudy.provider.do(SliceAct.STOP, "learner-0")
    cloudy.provider.look()
    cloudy.provider.look()
    assert cloudy.fake.calls.count("GetOperation") == asked + 2


def test_a_request_without_an_answer_is_made_again_for_the_same_slice(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.fleet.tpu.api.CALL_S", 0.3)
    cloudy.fake.is_mute = True
    with pytest.raises(ProviderError) as refused:
        cloudy.provider.request("learner-0")
    assert refused.value.refusal is Refusal.UNAVAILABLE
    monkeypatch.undo()
    cloudy.fake.is_mute = False
    name = cloudy.provider.request("learner-0")
    assert cloudy.fake.ids == [name]
    assert cloudy.provider.look()[0].resource == name


def test_a_name_that_somebody_else_has_is_not_taken_for_ours(cloudy: Cloudy) -> None:
    first, other = (
        TpuProvider(cloudy.provider.inventory, cloudy.api, wall_s=lambda: 1_900_000_000.0)
        for _ in range(2)
    )
    name = first.request("learner-0")
    (queued,) = cloudy.fake.queue.values()
    (node,) = cloudy.fake.nodes.values()
    queued.tpu.node_spec[0].node.labels = node.labels = {}
    with pytest.raises(ProviderError) as refused:
        other.request("learner-0")
    assert refused.value.refusal is Refusal.EXISTS
    assert other.request("learner-0") > name, "another name the next time"


def test_a_zone_that_the_service_does_not_reach_is_asked_again_and_not_empty(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(_: float) -> None:
        cloudy.fake.unreachable.clear()

    cloudy.bring_up()
    cloudy.fake.unreachable = [ENTRY.zone]
    monkeypatch.setattr("chaoslab.fleet.tpu.api.time", paused_by(reach))
    assert {one.condition for one in cloudy.provider.look()} == {Condition.UP}
    assert cloudy.fake.unreachable == []


def test_the_end_of_the_time_of_a_fleet_ends_requests(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.look()
    assert cloudy.provider.why_not() == ""
    (begun_s,) = {node.create_time.timestamp() for node in cloudy.fake.nodes.values()}
    for after_s, is_over in ((3500.0, False), (3700.0, True), (99_999.0, True)):
        later = TpuProvider(
            cloudy.provider.inventory, cloudy.api, wall_s=lambda after_s=after_s: begun_s + after_s
        )
        later.look()
        assert bool(later.why_not()) is is_over
    for change in (later.request, partial(later.do, SliceAct.START)):
        with pytest.raises(ProviderError) as refused:
            change("learner-0")
        assert refused.value.refusal is Refusal.EXPIRED


def test_learners_on_slices_need_names_that_the_cloud_takes(cloudy: Cloudy) -> None:
    with pytest.raises(PlanError, match="Learner_0"):
        TpuProvider(inventory_of(["Learner_0"]), cloudy.api)


@pytest.mark.parametrize(
    ("slice_", "request_", "expected"),
    [
        ({"state": "READY", "health": "HEALTHY"}, {"state": "ACTIVE"}, Condition.UP),
        ({"state": "READY", "health": "TIMEOUT"}, {"state": "ACTIVE"}, Condition.UP),
        (
            {"state": "READY", "health": "UNHEALTHY_MAINTENANCE"},
            {"state": "ACTIVE"},
            Condition.MAINTAINED,
        ),
        (
            {"state": "READY", "health": "HEALTHY"},
            {"state": "SUSPENDING", "is_by_service": True},
            Condition.PREEMPTED,
        ),
        ({"state": "READY", "health": "HEALTHY"}, {"state": "SUSPENDING"}, Condition.UP),
        ({"state": "PREEMPTED"}, None, Condition.PREEMPTED),
        ({"state": "REPAIRING"}, {"state": "ACTIVE"}, Condition.MAINTAINED),
        ({"state": "RESTARTING"}, {"state": "ACTIVE"}, Condition.COMING),
        ({"state": "TERMINATED"}, {"state": "ACTIVE"}, Condition.FAILED),
        ({"state": "TERMINATED", "is_spot": True}, None, Condition.PREEMPTED),
        ({"state": "UNKNOWN"}, {"state": "ACTIVE"}, Condition.FAILED),
        ({"state": "HIDDEN"}, {"state": "ACTIVE"}, Condition.UNKNOWN),
        ({"state": "A_STATE_OF_NEXT_YEAR"}, {"state": "ACTIVE"}, Condition.UNKNOWN),
        (None, {"state": "WAITING_FOR_RESOURCES"}, Condition.WAITING),
        (None, {"state": "PROVISIONING"}, Condition.COMING),
        (None, {"state": "FAILED"}, Condition.FAILED),
        (None, {"state": "SUSPENDED", "is_by_service": True}, Condition.PREEMPTED),
        (None, {"state": "SUSPENDED"}, Condition.ABSENT),
        (None, {"state": "ACTIVE"}, Condition.UNKNOWN),
        (None, None, Condition.ABSENT),
    ],
)
def test_what_a_slice_is_good_for(
    slice_: dict[str, Any] | None, request_: dict[str, Any] | None, expected: Condition
) -> None:
    asked = dict(request_ or {})
    assert condition(request=asked.pop("state", ""), **(slice_ or {}), **asked) is expected
