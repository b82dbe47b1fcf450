"""Links of a script's workers to an object store, broken in real runs."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaoslab.faults.evidence.codes import Code
from chaoslab.links.ports import ReservedPort
from tests.trainers.with_store import store
from tests.whole_runs import Ran, begin, ended, whole

pytestmark = pytest.mark.alone

TRAINERS = Path(__file__).parent / "trainers"
TRAINER = f"{{python}} '{TRAINERS / 'with_store.py'}' --store 127.0.0.1:{{port:store}} --rank"
LAUNCHED = f"{{python}} '{TRAINERS / 'launcher.py'}' --prefix -- {TRAINER} RANK"

PLAN = r"""
version: 1
name: with-a-store
training:
  script:
    command: "COMMAND"
    workers: 2
    progress: 'step (?P<step>\d+) loss (?P<loss>\S+)'
    max_pause: 10s
    ports: {store: UPSTREAM}
baseline: {warmup: 10 rounds, window: 60 rounds, max_variation: 1000%}
settle: 30s
limits: {timeout: 5m, max_affected: 100%}
faults:
  - {id: breaks, FAULT, target: TARGET, at: {step: 100}, for: 6s}
expect:
  - {check: cleanup}
"""


@pytest.fixture
def upstream() -> Iterator[str]:
    """A store that serves."""
    with store() as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def ran(
    folder: Path, upstream: str, fault: str, command: str = f"{TRAINER} {{rank}}",
    target: str = "{workers: [worker-1]}",
) -> Ran:  # fmt: skip
    """A run in which the link of a worker is broken."""
    written = {"COMMAND": command, "UPSTREAM": upstream, "FAULT": fault, "TARGET": target}
    plan = PLAN
    for name, value in written.items():
        plan = plan.replace(name, value)
    return ended(begin(plan, folder), folder)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("fault: network.partition", marks=pytest.mark.gate),
        *(
            pytest.param(f"fault: {fault}", marks=pytest.mark.deep)
            for fault in (
                "network.latency, mean: 200ms", "network.bandwidth, rate: 200kB/s",
                "network.refuse", "network.reset", "network.half_open",
            )
        ),
    ],
)  # fmt: skip
def test_a_worker_that_tries_again_passes(fault: str, upstream: str, tmp_path: Path) -> None:
    found = ran(tmp_path, upstream, fault)
    assert (found.code, found.statuses) == (0, ["proved"]), whole(found.verdict)


@pytest.mark.deep
def test_a_link_that_was_used_before_the_fault_alone_proves_nothing(
    upstream: str, tmp_path: Path
) -> None:
    command = f"{TRAINER} {{rank}} --until 20"
    found = ran(tmp_path, upstream, "fault: network.partition", command)
    assert found.statuses == ["weak"], whole(found.verdict)
    assert Code.NOT_USED in found.finding("evidence")["codes"]


@pytest.mark.deep
def test_one_that_hangs_after_a_broken_connection_fails(upstream: str, tmp_path: Path) -> None:
    fault = "fault: network.partition, how: blackhole"
    found = ran(tmp_path, upstream, fault, f"{TRAINER} {{rank}} --hangs")
    assert (found.verdict["outcome"], found.statuses) == ("FAIL", ["proved"]), whole(found.verdict)
    assert found.finding("learners_rejoin")["culprits"] == ["worker-1"]


@pytest.mark.deep
def test_the_workers_of_a_launcher_share_its_link(upstream: str, tmp_path: Path) -> None:
    found = ran(tmp_path, upstream, "fault: network.partition", LAUNCHED, "{launcher: all}")
    assert (found.code, found.statuses) == (0, ["proved"]), whole(found.verdict)


@pytest.mark.deep
def test_a_port_that_a_worker_opens(tmp_path: Path) -> None:
    with closing(ReservedPort()) as free:
        upstream = f"worker-0:{free.number}"
    found = ran(tmp_path, upstream, "fault: network.partition", f"{TRAINER} {{rank}} --opens")
    assert (found.code, found.statuses) == (0, ["proved"]), whole(found.verdict)
