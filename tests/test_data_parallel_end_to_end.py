"""Learners that average their gradients, in real trainings: who stops, and who goes on."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.events import Kind
from tests.training_processes import SYNCER, Processes

pytestmark = [pytest.mark.deep, pytest.mark.alone]

NANO = ("--model", "nano", "--data-parallel", "127.0.0.1")


def training(folder: Path, mode: str, **more: object) -> Processes:
    rules: dict[str, object] = {"quorum": 3, "fragments": 1, "overlap": 0, "blocking": True}
    rules |= {"merge": "average", "outer_lr": 1.0, "outer_momentum": 0.0, "compression": "f32"}
    rules |= {"norm_limit": None, "data_parallel": mode, **more}
    return Processes(folder, model=NANO, **rules)


def all_go_on_to_an_end(processes: Processes, formed: Mapping[str, Any]) -> None:
    """In this communicator: two rounds take all, then training is asked to end, and they agree."""
    mark = processes.place_after(formed)
    for _ in range(2):
        merged = processes.wait(Kind.ROUND_MERGED, mark=mark, contributors=_are_of(processes.names))
        mark = processes.place_after(merged)
    processes.signal(SYNCER, signal.SIGTERM)
    finals_agree(processes)


def _are_of(names: Sequence[str]) -> Callable[[Sequence[Mapping[str, Any]]], bool]:
    """Whether the contributors of a round are these."""
    return lambda parts: {part["learner"] for part in parts} == set(names)


def finals_agree(processes: Processes) -> None:
    assert [processes.exit_code(name) for name in (*processes.names, SYNCER)] == [0] * 4
    final = processes.wait(Kind.SYNCER_FINAL)
    accounts = processes.told(Kind.LEARNER_FINAL)
    assert {account["learner"] for account in accounts} == set(processes.names)
    for account in accounts:
        assert account["digests"] == final["digests"]
        columns = account["committed"], account["discarded"], account["in_flight"]
        assert sum(column["0"] for column in columns) == account["tokens"]


@pytest.mark.gate
def test_all_make_the_same_steps_and_every_round_takes_all(tmp_path: Path) -> None:
    with training(tmp_path, "rigid", stop_rounds=10).start() as processes:
        finals_agree(processes)
        for merged in processes.told(Kind.ROUND_MERGED):
            if merged["version"] > 0:
                assert [given["c_steps"] for given in merged["contributors"]] == [12, 12, 12]
                pushes = processes.told(Kind.PUSH_ACCEPTED, round=merged["round"])
                first, *others = (push["norm"] for push in pushes)
                assert others == pytest.approx([first] * 2, rel=1e-5), "their steps differ"
        assert len(processes.told(Kind.COMMUNICATOR_FORMED)) == 1
        for name in processes.names:
            came = [step["peer_bytes"] for step in processes.told(Kind.LEARNER_STEP, learner=name)]
            assert came == sorted(came)
            assert came[0] < came[-1], "gradients of others arrived, and were not counted"


def test_elastic_goes_on_without_a_lost_learner_and_takes_it_in_again(tmp_path: Path) -> None:
    with training(tmp_path, "elastic").start() as processes:
        processes.wait(Kind.ROUND_MERGED, version=3)
        mark = processes.mark()
        processes.kill("learner-1")
        formed = processes.wait(Kind.COMMUNICATOR_FORMED, mark=mark)
        assert set(formed["learners"]) == {"learner-0", "learner-2"}
        mark = processes.mark()
        processes.wait(Kind.PUSH_ACCEPTED, mark=mark, learner="learner-0", c_steps=12)
        processes.start_learner("learner-1")
        grown = processes.wait(Kind.COMMUNICATOR_FORMED, mark=mark, communicator=3)
        assert set(grown["learners"]) == set(processes.names)
        processes.wait(Kind.PUSH_ACCEPTED, mark=mark, learner="learner-1", c_steps=12)
        all_go_on_to_an_end(processes, grown)


@pytest.mark.parametrize(("mode", "flags"), [("rigid", NANO[:2]), ("off", NANO)])
def test_a_learner_and_a_syncer_that_disagree_say_so(
    tmp_path: Path, mode: str, flags: tuple[str, ...]
) -> None:
    settings = {"fragments": 1, "overlap": 0, "blocking": True, "data_parallel": mode}
    with Processes(tmp_path, learners=1, model=flags, **settings).start() as processes:
        assert processes.exit_code("learner-0") == 3
        told = (tmp_path / "learner-0" / "stderr.log").read_text()
        assert "--data-parallel" in told
