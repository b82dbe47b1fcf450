"""Real trainings over real links, broken on purpose; and links broken by somebody else."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.undo.log import open_undos
from tests.whole_runs import await_round, begin, ended, left_over, passed

pytestmark = [pytest.mark.deep, pytest.mark.alone]
PLAN = """
version: 1
name: over_links
training: {learners: 2, stop: {rounds: 110}}
baseline: {warmup: 6 rounds, window: 16 rounds, max_variation: 100%}
limits: {min_alive: 0}
faults:
FAULTS
expect:
  - {check: rejoin, within: 30s}
  - {check: ledger}
  - {check: agreement}
  - {check: cleanup}
"""
FAR_AND_CUT = """
  - {id: far, fault: network.latency, mean: 200ms, target: {learners: [learner-1]},
     at: {round: 30}, for: 6s}
  - {id: cut, fault: network.refuse, target: {learners: [learner-0]}, at: {after: far}, for: 4s}
"""
FROZEN_AND_FAR = """
  - {id: frozen, fault: network.partition, target: {learners: [learner-1]}, at: {round: 30},
     for: 8s}
  - {id: far, fault: network.latency, mean: 200ms, target: {learners: [learner-1]},
     at: {round: 34}, for: 4s}
"""
MEETING = """
  - {id: thin, fault: network.region_profile, profile: transatlantic, latency: 120ms, jitter: 30ms,
     rate: 80kB/s, target: {learners: [learner-1]}, at: {time: 17s}, for: 9s}
  - {id: cut, fault: network.refuse, target: {learners: [learner-1]}, at: {time: 25.96s}, for: 3s}
  - {id: late, fault: network.latency, mean: 100ms, target: {learners: [learner-1]},
     at: {time: 34s}, for: 6s}
  - {id: frozen, fault: network.partition, target: {learners: [learner-1]}, at: {time: 37.5s},
     for: 2.48s}
  - {id: reset, fault: network.reset, target: {learners: [learner-1]}, at: {time: 39.96s}, for: 2s}
"""
"""Heals of a link some milliseconds after its streams were ended. The first one is over before the
streams end by themselves, since pings wait behind what the link has yet to carry.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place to run in; whatever is left of it afterwards is a failure."""
    yield tmp_path
    for process in (left := left_over(tmp_path)):
        process.kill()
    assert not left


@pytest.mark.toxiproxy
def test_faults_on_links_are_felt_at_both_ends_and_healed(folder: Path) -> None:
    ran = passed(PLAN.replace("FAULTS", FAR_AND_CUT), folder, "--set", "fleet.links=toxiproxy")
    assert ran.statuses == ["proved", "proved"]
    assert {one.payload.incarnation for one in ran.history.of(Kind.NODE_STARTED)} == {1}


@pytest.mark.toxiproxy
def test_heals_that_meet_a_refusal_or_a_reset_of_the_same_link_are_done(folder: Path) -> None:
    plan = PLAN.replace("FAULTS", MEETING).replace("rounds: 110", "rounds: 320")
    ran = passed(plan, folder, "--set", "fleet.links=toxiproxy")
    assert ran.statuses == ["proved"] * 5


def test_a_fault_on_a_link_that_carries_no_traffic_is_no_pass(folder: Path) -> None:
    ran = ended(begin(PLAN.replace("FAULTS", FROZEN_AND_FAR), folder), folder)
    assert ran.statuses[0] == "proved"
    assert ran.statuses[1] in ("failed", "moot")  # if the learner had been dropped meanwhile
    assert (ran.code, ran.verdict["outcome"]) == (3, "UNKNOWN")


def test_a_proxy_that_somebody_kills_is_noticed_and_nothing_is_left(folder: Path) -> None:
    run = begin(PLAN.replace("FAULTS", FAR_AND_CUT), folder)
    record = await_round(folder, 10)
    (proxy,) = [entry for entry in open_undos(record) if "proxy" in str(entry.facts.get("node"))]
    os.kill(int(str(proxy.facts["pid"])), signal.SIGKILL)
    ran = ended(run, folder)
    lost = ran.history.last(Kind.LINK_LOST)
    assert lost is not None
    assert "SIGKILL" in lost.payload.reason
    assert (ran.code, ran.verdict["outcome"]) == (3, "UNKNOWN")
    assert not open_undos(record)
