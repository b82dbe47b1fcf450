"""A training on slices of the fake cloud: half of them are preempted, replaced, and contribute.

The nodes are local processes that live as long as their slices; the API is Google's, over gRPC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.core.events import Kind
from chaoslab.core.payloads import ProviderReported, RepairMoved
from chaoslab.fleet.tpu.lifecycle import bring_up
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.prepare.setup import FleetSetup
from chaoslab.run.judged_run import Judged, carry_out
from tests.fake_tpu import FakeCloud, Times
from tests.fleet.local_slices import SliceFactory, cloud_of, provided

pytestmark = [pytest.mark.deep, pytest.mark.alone]
LEARNERS = tuple(f"learner-{index}" for index in range(4))
QUICK = (
    "training.stop.rounds=150", "settle=2m", "faults.half-preempted.for=4s",
    "faults.half-preempted.grace=1s", "baseline.max_variation=80%", "expect.0.floor=5s",
    "expect.3.max_slowdown=3x", "expect.1.within=2m", "expect.2.within=2m",
)  # fmt: skip


@pytest.fixture
def fake() -> FakeCloud:
    return FakeCloud(times=Times(queue_s=3.0, create_s=2.0, delete_s=1.0))


@pytest.fixture
def provider(fake: FakeCloud) -> Iterator[TpuProvider]:
    with provided(fake, lambda endpoint: cloud_of(endpoint, LEARNERS)) as provider:
        fake.times, usual = Times(), fake.times
        bring_up(provider, within_s=10.0)
        fake.times = usual
        yield provider


def carried_out(fake: FakeCloud, provider: TpuProvider, folder: Path) -> Judged:
    prepared = prepare(Asked(plan="spot_half", settings=QUICK))
    factory = SliceFactory(fake=fake, provider=lambda: provider)
    return carry_out(replace(prepared, fleet_setup=FleetSetup(fleet=factory)), folder)


@pytest.mark.soak  # `test_tpu_vm_end_to_end.py` shows it on hosts, and half of two
def test_half_of_the_fleet_is_preempted_replaced_and_contributes_again(
    fake: FakeCloud, provider: TpuProvider, tmp_path: Path
) -> None:
    before = set(fake.ids)
    judged = carried_out(fake, provider, tmp_path)
    assert judged.error is None
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.explain()
    (repairs,) = (one for one in judged.verdict.findings if one.check == "repairs")
    assert repairs.samples == 2
    assert number(repairs.numbers, "longest_queue_s") >= 3.0
    assert number(repairs.numbers, "longest_creation_s") >= 1.5
    assert "in the queue" in repairs.reason
    assert "in the queue" in (judged.directory.path / "report.md").read_text()
    after = set(fake.ids)
    assert len(after) == 4
    assert len(before - after) == 2
    told = judged.history.of(RepairMoved)
    assert [one.payload.stage for one in told].count("back") == 2
    assert {one.payload.cause for one in told} == {"preemption"}
    states = {one.payload.condition for one in judged.history.of(ProviderReported)}
    assert {"up", "waiting", "coming"} <= states
    assert Kind.RESIDUE_FOUND not in {event.kind for event in judged.history.events}


def number(numbers: Mapping[str, object], key: str) -> float:
    return float(str(numbers[key]))
