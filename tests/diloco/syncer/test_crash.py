"""The syncer is killed at every named point of a round, and nothing is lost, reused or doubled.

A real process with a real disk; the learners are little and live here, so that they outlive it.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.node.phases import Phase
from tests.diloco.crashing_syncer import NAMES, Adopter, CrashingSyncer, must_hold

pytestmark = [pytest.mark.deep]

POINTS = (
    "after the pull", Phase.QUORUM, Phase.BEFORE_WRITE, Phase.WRITTEN, Phase.PUBLISH, "any time",
)  # fmt: skip


@pytest.fixture
def syncer(tmp_path: Path) -> Iterator[CrashingSyncer]:
    with CrashingSyncer(tmp_path) as syncer:
        yield syncer


@pytest.fixture
def learners(syncer: CrashingSyncer) -> Iterator[list[Adopter]]:
    found = [Adopter(syncer.address, name) for name in NAMES]
    with ExitStack() as stack:
        for learner in found:
            learner.join()
            stack.enter_context(learner.running())
        syncer.wait(Kind.ROUND_MERGED, times=4)
        yield found
    for learner in found:
        learner.leave()


def crash(
    syncer: CrashingSyncer, learners: list[Adopter], point: str, chance: random.Random
) -> None:
    """Kill it there, start it again, and let it merge for a while."""
    if point in list(Phase):
        syncer.run_loop(point)
        assert syncer.wait(Kind.PHASE_REACHED)["phase"] == point
        syncer.kill()
    elif point == "after the pull":
        killed = threading.Event()
        victim = chance.choice(learners)

        def kill() -> None:
            syncer.kill()
            killed.set()

        victim.at_push = kill
        assert killed.wait(60), "nobody was pulled from"
    else:
        more = len(syncer.of(Kind.ROUND_MERGED, life=syncer.life)) + chance.randrange(1, 8)
        syncer.wait(Kind.ROUND_MERGED, times=more)
        threading.Event().wait(chance.random() * 0.02)
        syncer.kill()
    syncer.start()
    assert syncer.of(Kind.SYNCER_READY, life=syncer.life)[0]["is_recovered"]
    syncer.wait(Kind.ROUND_MERGED, times=6)


@pytest.mark.gate
def test_a_syncer_killed_at_every_named_point_loses_nothing(
    syncer: CrashingSyncer, learners: list[Adopter]
) -> None:
    chance = random.Random(1)
    for point in (*POINTS, Phase.WRITTEN, Phase.PUBLISH):
        crash(syncer, learners, point, chance)
    syncer.kill()
    assert must_hold(syncer, learners) >= 6 * len(POINTS)
    assert {name for name in NAMES if _was_heard(syncer, name)} == set(NAMES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_syncer_killed_a_hundred_times_loses_nothing(
    syncer: CrashingSyncer, learners: list[Adopter], request: pytest.FixtureRequest
) -> None:
    kills = max(100, request.config.getoption("--kills"))
    seed = request.config.getoption("--kills-seed")
    seed = random.randrange(2**32) if seed is None else seed
    print(f"--kills-seed {seed}")  # noqa: T201  # shown when it fails, to repeat it
    chance = random.Random(seed)
    for number in range(kills):
        crash(syncer, learners, POINTS[number % len(POINTS)], chance)
    syncer.kill()
    assert must_hold(syncer, learners) >= kills


def _was_heard(syncer: CrashingSyncer, learner: str) -> bool:
    """Whether the last life merged its work."""
    last = syncer.of(Kind.ROUND_MERGED, life=syncer.life)
    return any(part["learner"] == learner for one in last[1:] for part in one["contributors"])
