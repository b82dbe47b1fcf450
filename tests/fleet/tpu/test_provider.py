"""Slices of one inventory on the fake cloud: known by their labels, and nobody else's touched."""

from dataclasses import replace

import grpc
import pytest
from google.rpc import code_pb2

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.fleet.provider import Condition, ProvidedHost, ProviderError, Refusal
from chaoslab.fleet.tpu.conditions import condition
from chaoslab.fleet.tpu.owned import FLEET, NODE, UNTIL
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.resources import Request, Slice
from tests.fake_tpu import Times
from tests.fleet.local_slices import ENTRY, cloud_of
from tests.fleet.tpu.conftest import Cloudy, paused_by


def conditions(cloudy: Cloudy) -> list[Condition]:
    return [one.condition for one in cloudy.provider.look()]


def test_a_new_fleet_is_absent_waits_comes_and_is_up(cloudy: Cloudy) -> None:
    cloudy.fake.times = Times(queue_s=10.0, create_s=10.0)
    assert conditions(cloudy) == [Condition.ABSENT] * 2
    for node in cloudy.provider.nodes:
        cloudy.provider.request(node)
    assert conditions(cloudy) == [Condition.WAITING] * 2
    cloudy.later(10.0)
    assert conditions(cloudy) == [Condition.COMING] * 2
    cloudy.later(10.0)
    assert conditions(cloudy) == [Condition.UP] * 2


def test_what_is_created_bears_the_labels_of_its_fleet(cloudy: Cloudy) -> None:
    cloud, now_s = cloudy.provider.cloud, 1_900_000_000.0
    provider = TpuProvider(cloud, cloudy.api, wall_s=lambda: now_s)
    for node in provider.nodes:
        provider.request(node)
    cloudy.later(1000.0)
    assert [one.condition for one in provider.look()] == [Condition.UP] * 2
    (first, second) = cloudy.fake.nodes.values()
    assert (first.labels[FLEET], first.labels[NODE]) == ("vines", "learner-0")
    assert second.labels[NODE] == "learner-1"
    assert first.labels[UNTIL] == second.labels[UNTIL] == str(int(now_s + cloud.budget.time_s))


def test_hosts_come_with_the_keys_that_they_have_published(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    host = ProvidedHost(address="10.0.0.2", host_keys=("ssh-ed25519 AAAA0",))
    assert cloudy.provider.hosts("learner-0") == (host,)


def test_a_slice_that_is_not_up_has_no_hosts(cloudy: Cloudy) -> None:
    with pytest.raises(FleetError, match="learner-0"):
        cloudy.provider.hosts("learner-0")


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
    cloudy.provider.take("learner-0")
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
    cloudy.provider.stop("learner-0")
    cloudy.provider.maintain("learner-1")
    assert conditions(cloudy) == [Condition.STOPPED, Condition.MAINTAINED]
    cloudy.provider.start("learner-0")
    assert conditions(cloudy)[0] is Condition.COMING
    cloudy.later(9.0)
    assert conditions(cloudy) == [Condition.UP] * 2


def test_the_newest_slice_of_a_node_is_the_one(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    old = cloudy.id_of("learner-0")
    later = TpuProvider(cloudy.provider.cloud, cloudy.api, wall_s=lambda: 2_000_000_000.0)
    cloudy.fake.stock_chips[ENTRY.zone] = 0
    new = later.request("learner-0")
    assert new > old
    assert later.look()[0].resource == new


def test_a_slice_of_another_type_than_the_inventory_says_is_told(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    slices = {**cloudy.provider.cloud.slices, "learner-1": replace(ENTRY, type="v5litepod-8")}
    edited = TpuProvider(replace(cloudy.provider.cloud, slices=slices), cloudy.api)
    assert [one.is_as_written for one in edited.look()] == [True, False]
    with pytest.raises(FleetError, match=r"learner-1.*v5litepod-4"):
        edited.hosts("learner-1")


def test_a_name_is_given_once_however_fast_slices_are_replaced(cloudy: Cloudy) -> None:
    hasty = TpuProvider(cloudy.provider.cloud, cloudy.api, wall_s=lambda: 1_900_000_000.0)
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
    cloudy.provider.stop("learner-0")
    told = cloudy.provider.look()[0]
    assert told.condition is Condition.UP
    assert told.detail
    cloudy.fake.fails_late.clear()
    cloudy.provider.stop("learner-0")
    told = cloudy.provider.look()[0]
    assert (told.condition, told.detail) == (Condition.STOPPED, "")


def test_operations_are_asked_for_until_they_have_ended(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.look()
    asked = cloudy.fake.calls.count("GetOperation")
    cloudy.provider.look()
    assert cloudy.fake.calls.count("GetOperation") == asked
    cloudy.fake.times.stop_s = 10.0
    cloudy.provider.stop("learner-0")
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
    parent = f"projects/my-project/locations/{ENTRY.zone}"
    fixed = TpuProvider(cloudy.provider.cloud, cloudy.api, wall_s=lambda: 1_900_000_000.0)
    name = fixed.request("learner-0")
    (queued,) = cloudy.fake.queue.values()
    queued.tpu.node_spec[0].node.labels = {}
    (node,) = cloudy.fake.nodes.values()
    node.labels = {}
    assert queued.name == f"{parent}/queuedResources/{name}"
    other = TpuProvider(cloudy.provider.cloud, cloudy.api, wall_s=lambda: 1_900_000_000.0)
    with pytest.raises(ProviderError) as refused:
        other.request("learner-0")
    assert refused.value.refusal is Refusal.EXISTS
    assert other.request("learner-0") > name, "another name the next time"


def test_an_outage_is_an_error_and_no_absence(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.fleet.tpu.api.CALL_S", 0.0)
    cloudy.fake.outage = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(ProviderError) as refused:
        cloudy.provider.look()
    assert refused.value.refusal is Refusal.UNAVAILABLE


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


def test_the_cost_counts_from_creation_to_the_last_look(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.look()
    (begun_s,) = {node.create_time.timestamp() for node in cloudy.fake.nodes.values()}
    later = TpuProvider(cloudy.provider.cloud, cloudy.api, wall_s=lambda: begun_s + 1800.0)
    later.look()
    assert later.spending.spent_usd() == pytest.approx(2 * 4 * 0.6 / 2)


def test_money_and_time_of_the_budget_end_requests(cloudy: Cloudy) -> None:
    cloudy.bring_up()
    cloudy.provider.look()
    assert cloudy.provider.why_not() == ""
    (begun_s,) = {node.create_time.timestamp() for node in cloudy.fake.nodes.values()}
    for after_s, is_over in ((3500.0, False), (3700.0, True), (99_999.0, True)):
        later = TpuProvider(
            cloudy.provider.cloud, cloudy.api, wall_s=lambda after_s=after_s: begun_s + after_s
        )
        later.look()
        assert bool(later.why_not()) is is_over


def test_a_fleet_of_an_unknown_price_has_no_cost(cloudy: Cloudy) -> None:
    entry = replace(ENTRY, type="v4-8")
    cloud = replace(cloudy.provider.cloud, slices={"learner-0": entry})
    provider = TpuProvider(cloud, cloudy.api)
    provider.request("learner-0")
    provider.look()
    assert provider.spending.spent_usd() is None


def test_learners_on_slices_need_names_that_the_cloud_takes(cloudy: Cloudy) -> None:
    with pytest.raises(PlanError, match="Learner_0"):
        TpuProvider(cloud_of("", ["Learner_0"]), cloudy.api)


@pytest.mark.parametrize(
    ("state", "health", "request_state", "is_by_service", "expected"),
    [
        ("READY", "HEALTHY", "ACTIVE", False, Condition.UP),
        ("READY", "TIMEOUT", "ACTIVE", False, Condition.UP),
        ("READY", "UNHEALTHY_MAINTENANCE", "ACTIVE", False, Condition.MAINTAINED),
        ("READY", "HEALTHY", "SUSPENDING", True, Condition.PREEMPTED),
        ("READY", "HEALTHY", "SUSPENDING", False, Condition.UP),
        ("PREEMPTED", "", "", False, Condition.PREEMPTED),
        ("REPAIRING", "", "ACTIVE", False, Condition.MAINTAINED),
        ("RESTARTING", "", "ACTIVE", False, Condition.COMING),
        ("TERMINATED", "", "ACTIVE", False, Condition.FAILED),
        ("UNKNOWN", "", "ACTIVE", False, Condition.FAILED),
        ("HIDDEN", "", "ACTIVE", False, Condition.UNKNOWN),
        ("A_STATE_OF_NEXT_YEAR", "", "ACTIVE", False, Condition.UNKNOWN),
        ("", "", "WAITING_FOR_RESOURCES", False, Condition.WAITING),
        ("", "", "PROVISIONING", False, Condition.COMING),
        ("", "", "FAILED", False, Condition.FAILED),
        ("", "", "SUSPENDED", True, Condition.PREEMPTED),
        ("", "", "SUSPENDED", False, Condition.ABSENT),
        ("", "", "ACTIVE", False, Condition.UNKNOWN),
        ("", "", "", False, Condition.ABSENT),
    ],
)
def test_what_a_slice_is_good_for(
    *, state: str, health: str, request_state: str, is_by_service: bool, expected: Condition
) -> None:
    slice_ = Slice(id="a", zone="z", state=state, health=health) if state else None
    request = (
        Request(id="a", zone="z", state=request_state, is_by_service=is_by_service)
        if request_state
        else None
    )
    assert condition(slice_, request) is expected


def test_a_terminated_spot_slice_was_preempted() -> None:
    slice_ = Slice(id="a", zone="z", state="TERMINATED", is_spot=True)
    assert condition(slice_, None) is Condition.PREEMPTED
