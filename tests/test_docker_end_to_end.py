"""Whole runs on containers: the verdict is right, and nothing is left on the engine."""

from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from tests.docker_runs import Engine, engine_with_images, left_on_engine
from tests.whole_runs import passed

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.docker]
PLAN = """
version: 1
name: containers
seed: 3
fleet: {kind: docker, links: LINKS}
training: {learners: 2, model: nano, stop: {rounds: 50}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 300%}
twin: false
limits: {min_alive: 1, max_affected: 100%, timeout: 10m}
faults:
  - {id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 24}, for: 3s}
MOREexpect:
  - {check: participation, min_share: 5%}  # other tests take the cores
  - {check: rejoin, within: 60s, contributions: 2}
  - {check: ledger, answer_within: 20s}
  - {check: agreement}
  - {check: versions}
  - {check: cleanup}
"""


@pytest.fixture
def engine() -> Engine:
    return engine_with_images()


LOSS = """\
  - {id: lossy, fault: network.packets, how: loss, share: 20%, target: {learners: [learner-0]},
     at: {round: 22}, for: 4s}
"""


@pytest.mark.parametrize("links", [pytest.param("toxiproxy", marks=pytest.mark.gate), "netem"])
def test_a_killed_container_rejoins_while_packets_of_another_are_lost(
    engine: Engine, tmp_path: Path, links: str
) -> None:
    ran = passed(PLAN.replace("LINKS", links).replace("MORE", LOSS), tmp_path)
    assert left_on_engine(engine, ran.record) == ()
    died = [
        event
        for event in ran.history.of(Kind.ENGINE_REPORTED)
        if (event.data["action"], event.data["node"]) == ("die", "learner-1")
    ]
    assert died[0].data["exit_code"] == 137
    counted = ran.history.of(Kind.LINK_COUNTED)
    assert max(event.payload.dropped for event in counted if event.data["dropped"]) > 10


HANGS = (
    "{id: hangs, fault: process.hang, target: {learners: [learner-1]}, at: {round: 40}, for: 50s}"
)


@pytest.mark.soak
def test_a_learner_that_hangs_is_unhealthy_by_the_engine_s_own_word(
    engine: Engine, tmp_path: Path
) -> None:
    dies = next(line for line in PLAN.splitlines() if "id: dies" in line)
    hangs = PLAN.replace(dies, f"  - {HANGS}").replace("window: 12 rounds", "window: 30 rounds")
    ran = passed(hangs.replace("LINKS", "none").replace("MORE", ""), tmp_path)
    told = ran.history.of(Kind.ENGINE_REPORTED)
    states = [one.data["health"] for one in told if one.data["node"] == "learner-1"]
    assert [state for state in states if state][:2] == ["healthy", "unhealthy"]
    assert not any(
        one.data["health"] == "unhealthy" for one in told if one.data["node"] == "syncer"
    )
    assert left_on_engine(engine, ran.record) == ()
