"""A training on slices: the fake cloud's API, and hosts with a real sshd that go with their slices.

doctor slices up ─► run --fleet tpu-vm: half is preempted, replaced by other hosts ─► slices down
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.checks.base import Outcome
from chaoslab.cli.main import main
from chaoslab.core.events import Kind
from chaoslab.core.payloads import HostStarted, LinkShaped, ProviderReported, RepairMoved
from chaoslab.prepare.launch import compilation_cache
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import run_and_judge
from tests.fake_tpu import FakeCloud, Times, served
from tests.fleet.sshd import SshHost, ssh_hosts, switch_off
from tests.ssh_runs import left_on

pytestmark = [pytest.mark.deep, pytest.mark.alone]
PLAN = """
version: 1
name: two_slices
training:
  learners: [{count: 1}, {count: 1, hosts: 2}]
  model: nano
  quorum: 1
  stop: {rounds: 120}
twin: false
baseline: {max_variation: 80%}
settle: 3m
limits: {min_alive: 1, timeout: 10m}
faults:
  - id: thin
    fault: network.region_profile
    profile: transatlantic
    target: {region: europe-west4}
    at: {round: 30}
    for: 3s
  - id: half-preempted
    fault: spot.preempt
    target: {region: europe-west4}
    at: {after: thin}
    grace: 1s
    for: 8s
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 3m, contributions: 3}
  - {check: repairs, within: 3m}
  - {check: ledger}
  - {check: agreement}
  - {check: cleanup}
"""
"""The slice of two hosts is the one that is lost; its link has to come with it."""
INVENTORY = """\
name: vines
project: my-project
ssh: {{port: {port}, key: {key}, known_hosts: {known_hosts}}}
python: {python}
syncer: {{host: {syncer}}}
learners:
{learners}
lifetime: 4h
endpoint: {endpoint}
"""
TWO_SLICES = """\
  learner-0:
    tpu: {type: v5litepod-4, runtime: v2-alpha-tpuv5-lite, zone: us-east5-b, libraries: []}
  learner-1:
    tpu: {type: v5p-16, runtime: v2-alpha-tpuv5, zone: europe-west4-b, spot: true, libraries: []}
"""
"""Of one host and of two."""
FOUR_SLICES = "".join(
    f"  learner-{index}:\n    tpu: {{type: v5litepod-4, runtime: v2-alpha-tpuv5-lite, "
    "zone: us-east5-b, spot: true, libraries: []}\n"
    for index in range(4)
)


class Machines:
    """Hosts that the cloud gives to slices, each once."""

    def __init__(self, hosts: list[SshHost]) -> None:
        self._free, self._given = list(hosts), dict[tuple[str, int], SshHost]()

    def address(self, slice_id: str, worker: int) -> str:
        if (slice_id, worker) not in self._given:
            self._given[slice_id, worker] = self._free.pop(0)
        return self._given[slice_id, worker].access.host

    def key(self, slice_id: str, worker: int) -> str:
        public = self._given[slice_id, worker].home / "sshd" / "host_key.pub"
        return public.read_text().split()[1]

    def lose(self, slice_id: str) -> None:
        """Its machines are off: their sshd and all that runs for it."""
        for (name, _), host in self._given.items():
            if name == slice_id:
                switch_off(host)


@contextmanager
def slices_up(
    folder: Path, number: int, learners: str
) -> Iterator[tuple[Path, FakeCloud, list[SshHost]]]:
    """Slices of an inventory, up on some of so many hosts, and taken down in the end: the
    inventory, the cloud that has them, and the hosts, of which the first is the syncer's.
    """
    compilation_cache().mkdir(parents=True, exist_ok=True)
    with ssh_hosts(number) as hosts:
        for host in hosts:  # what was compiled here before, they need not compile again
            (host.home / ".chaoslab").mkdir(mode=0o700)
            (host.home / ".chaoslab/cache").symlink_to(compilation_cache())
        machines, access = Machines(hosts[1:]), hosts[0].access
        fake = FakeCloud(addresses=machines.address, host_key=machines.key, gone=machines.lose)
        inventory = folder / "fleet.yaml"
        with served(fake) as endpoint:
            inventory.write_text(
                INVENTORY.format(
                    port=access.port,
                    key=access.key,
                    known_hosts=access.known_hosts,
                    python=sys.executable,
                    syncer=access.host,
                    learners=learners,
                    endpoint=endpoint,
                )
            )
            up = CliRunner().invoke(main, ["doctor", "slices", "up", str(inventory), "--yes"])
            assert up.exit_code == 0, up.output
            yield inventory, fake, hosts
            down = CliRunner().invoke(main, ["doctor", "slices", "down", str(inventory), "--yes"])
            assert down.exit_code == 0, down.output
            assert (fake.ids, fake.queue) == ([], {})


@pytest.mark.gate
def test_half_of_the_slices_are_preempted_and_training_goes_on_on_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    plan = tmp_path / "two_slices.yaml"
    plan.write_text(PLAN)
    with slices_up(tmp_path, 6, TWO_SLICES) as (inventory, fake, hosts):
        fake.times, before = Times(queue_s=3.0, create_s=2.0, delete_s=1.0), set(fake.ids)
        asked = Asked(plan=str(plan), settings=(f"fleet.inventory={inventory}",), fleet="tpu-vm")
        judged = run_and_judge(prepare(asked), tmp_path / "runs")
        assert judged.error is None
        assert judged.verdict.outcome is Outcome.PASS, judged.verdict.explain()
        assert left_on(hosts[:1]) == []
        assert (len(fake.ids), len(before - set(fake.ids))) == (2, 1), "one of two is another"
    history = judged.history
    moved = [one.payload for one in history.of(RepairMoved)]
    assert [one.stage for one in moved][-1] == "back"
    assert {one.cause for one in moved} == {"preemption"}
    (repairs,) = (one for one in judged.verdict.findings if one.check == "repairs")
    assert repairs.samples == 1
    assert float(str(repairs.numbers["longest_queue_s"])) >= 3.0
    assert float(str(repairs.numbers["longest_creation_s"])) >= 1.5
    states = {one.payload.condition for one in history.of(ProviderReported)}
    assert {"up", "coming"} <= states
    assert Kind.RESIDUE_FOUND not in {event.kind for event in history.events}
    lives = {(one.payload.incarnation, one.payload.host) for one in history.of(HostStarted)}
    assert lives == {(1, 0), (1, 1), (2, 0), (2, 1)}, "the slice has two hosts each time"
    assert [one.payload.link for one in history.of(LinkShaped)]


@pytest.mark.soak
def test_the_plan_that_comes_with_chaoslab_passes_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with slices_up(tmp_path, 7, FOUR_SLICES) as (inventory, fake, hosts):
        fake.times = Times(queue_s=3.0, create_s=2.0, delete_s=1.0)
        settings = (f"fleet.inventory={inventory}",)
        asked = Asked(plan="spot_half", settings=settings, fleet="tpu-vm")
        judged = run_and_judge(prepare(asked), tmp_path / "runs")
        assert judged.error is None
        assert judged.verdict.outcome is Outcome.PASS, judged.verdict.explain()
        assert left_on(hosts[:1]) == []
