"""The real client of the Cloud TPU API, against a server that speaks it."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import grpc
import pytest

from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.tpu import api as api_module
from chaoslab.fleet.tpu.api import CloudTpu
from chaoslab.fleet.tpu.states import Condition, ProviderError, Refusal
from tests.fake_tpu import Times
from tests.fleet.tpu.conftest import ENTRY, Cloudy, paused_by

ZONE = ENTRY.zone
STARTED = replace(ENTRY, startup="#!/bin/sh\napt-get install -y python3.11-venv\n")


def request(api: CloudTpu, name: str = "r1", within_s: float = 60.0) -> str:
    return api.request(
        STARTED, slice_id=name, labels={"a": "b"}, public_key="me:key", within_s=within_s
    )  # fmt: skip


def states(cloudy: Cloudy) -> tuple[str, str, Condition]:
    """Of the only slice."""
    (one,) = cloudy.api.look(ZONE)
    return one.state, one.request, one.condition


def test_a_request_becomes_a_slice_with_what_was_asked(cloudy: Cloudy) -> None:
    cloudy.fake.times = Times(queue_s=5.0, create_s=7.0)
    operation = request(cloudy.api)
    assert cloudy.api.error_of(operation) == ""
    assert states(cloudy) == ("", "ACCEPTED", Condition.WAITING)
    assert cloudy.api.host_keys(ZONE, "r1") == []
    cloudy.later(5.0)
    assert states(cloudy) == ("CREATING", "PROVISIONING", Condition.COMING)
    cloudy.later(7.0)
    assert states(cloudy) == ("READY", "ACTIVE", Condition.UP)
    (made,) = cloudy.api.look(ZONE)
    assert (made.resource, made.zone, made.health) == ("r1", ZONE, "HEALTHY")
    assert (made.labels, made.type, made.addresses) == ({"a": "b"}, ENTRY.type, ("10.0.0.2",))
    assert cloudy.api.host_keys(ZONE, "r1") == [("ssh-ed25519 AAAA0",)]
    (node,) = cloudy.fake.nodes.values()
    assert dict(node.metadata) == {
        "enable-guest-attributes": "TRUE",
        "ssh-keys": "me:key",
        "startup-script": STARTED.startup,
    }
    assert node.scheduling_config.spot


def test_all_pages_of_a_listing_are_read(cloudy: Cloudy) -> None:
    for number in range(5):
        request(cloudy.api, f"r{number}")
    assert [one.resource for one in cloudy.api.look(ZONE)] == [f"r{n}" for n in range(5)]
    assert cloudy.fake.calls.count("ListQueuedResources") == 3


def test_a_lack_of_quota_is_told_from_a_zone_without_room(cloudy: Cloudy) -> None:
    cloudy.fake.quota_chips = 3
    with pytest.raises(ProviderError) as refused:
        request(cloudy.api)
    assert refused.value.refusal is Refusal.QUOTA


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, Refusal.DENIED),
        (grpc.StatusCode.UNAUTHENTICATED, Refusal.DENIED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Refusal.STOCK_OUT),
        (grpc.StatusCode.INVALID_ARGUMENT, Refusal.INVALID),
        (grpc.StatusCode.FAILED_PRECONDITION, Refusal.STATE),
        (grpc.StatusCode.UNAVAILABLE, Refusal.UNAVAILABLE),
        (grpc.StatusCode.DATA_LOSS, Refusal.OTHER),
    ],
)
def test_every_status_has_a_code(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch, status: grpc.StatusCode, refusal: Refusal
) -> None:
    monkeypatch.setattr(api_module, "time", SimpleNamespace(monotonic=count(0, 60).__next__))
    cloudy.fake.outage = status
    with pytest.raises(ProviderError) as refused:
        cloudy.api.look(ZONE)
    assert refused.value.refusal is refusal


def test_reads_outlast_an_outage_and_changes_do_not(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudy.fake.outage = grpc.StatusCode.UNAVAILABLE

    def end_outage(_: float) -> None:
        cloudy.fake.outage = None

    monkeypatch.setattr(api_module, "time", paused_by(end_outage))
    with pytest.raises(ProviderError) as refused:
        cloudy.api.do(SliceAct.STOP, ZONE, "r1")
    assert refused.value.refusal is Refusal.UNAVAILABLE
    assert cloudy.api.look(ZONE) == []


def test_a_request_whose_answer_was_lost_is_not_made_twice(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudy.fake.is_mute = True

    def answer_again(_: float) -> None:
        cloudy.fake.is_mute = False

    monkeypatch.setattr(api_module, "time", paused_by(answer_again))
    request(cloudy.api)
    assert cloudy.fake.calls == ["CreateQueuedResource"] * 2
    assert len(cloudy.fake.queue) == 1
