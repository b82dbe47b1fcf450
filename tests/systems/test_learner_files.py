"""What outlives the process that trains, where a system starts it again within one incarnation."""

from pathlib import Path

from chaoslab.diloco.learner.counters import Counters, FragmentCounters
from chaoslab.diloco.learner.pace import Pace
from chaoslab.systems.controls import Controls, Counts
from tests.waiting import wait_until

WORK = Counters(
    step=30, tokens=60, data_position=30,
    fragments=(FragmentCounters(version=2, steps_from=24, tokens_from=48, committed=48),),
)  # fmt: skip


def test_counts_go_on_in_the_next_process_of_an_incarnation(tmp_path: Path) -> None:
    Counts(tmp_path / "counts", 1).note(WORK)
    counts = Counts(tmp_path / "counts", 1)
    assert counts.version == 2
    again = counts.resumed(step=48, version=2)
    assert (again.step, again.tokens, again.data_position) == (30, 60, 30)
    held = again.fragments[0]
    assert (held.committed, held.lost, held.tokens_from) == (48, 12, 60)


def test_another_incarnation_counts_from_zero_and_goes_on_in_its_data(tmp_path: Path) -> None:
    Counts(tmp_path / "counts", 1).note(WORK)
    counts = Counts(tmp_path / "counts", 2)
    assert counts.version == -1
    fresh = counts.resumed(step=48, version=2)
    assert (fresh.tokens, fresh.data_position, fresh.fragments[0].version) == (0, 30, 2)


def test_requests_reach_a_process_that_was_started_later(tmp_path: Path) -> None:
    node = Controls(Pace(), tmp_path / "relayed")
    node.relay()
    node._do("pace", {"step_s": 0.5})
    pace = Pace()
    worker = Controls(pace, tmp_path / "relayed")
    worker.follow()
    wait_until(lambda: pace.period_s == 0.5)
    node._do("hang", {"is_asked": True})
    wait_until(lambda: worker.wedge.is_asked)
    node._do("hang", {"is_asked": False})
    wait_until(lambda: not worker.wedge.is_asked)
