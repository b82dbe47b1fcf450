"""Runs on a training that others started: what the record says of the nodes that are left."""

from pathlib import Path

from chaoslab.checks.verdict import judge
from chaoslab.core.events import Kind
from chaoslab.fleet.protocols import Attached
from chaoslab.run.nodes_start import start_nodes
from chaoslab.run.run import Run
from tests.fake_nodes import Troubles
from tests.stage import HALF, Stage, the


def attached(folder: Path, troubles: Troubles | None = None, **refused_lines: int) -> Stage:
    """A run whose nodes are there before it."""
    stage = Stage(folder, (HALF,), troubles=troubles)
    there = {name.replace("_", "-"): lines for name, lines in refused_lines.items()}
    vars(stage.fleet).update(adopt=lambda _labels: start(stage.run), refused_lines=there)
    assert isinstance(stage.fleet, Attached)
    return stage


def start(run: Run) -> None:
    def address() -> str:
        run.run_loop.until(lambda: run.progress.address is not None)
        return str(run.progress.address)

    start_nodes(run.fleet, run.launch, True, run.run_loop.carry_out, address)


def test_nodes_run_on_and_no_line_of_them_was_refused(tmp_path: Path) -> None:
    left = the(attached(tmp_path).execute(), Kind.RUN_LEFT)
    assert len(left.payload.nodes) == 5
    assert (left.payload.gone, left.payload.refused_lines) == ((), {})


def test_refused_lines_of_nodes_that_run_on_are_found(tmp_path: Path) -> None:
    history = attached(tmp_path, learner_0=2, syncer=1).execute()
    (found,) = [one for one in judge(history, ()).findings if one.check == "refused"]
    assert (found.observed, found.culprits) == (3, ("learner-0", "syncer"))
    assert found.evidence == (the(history, Kind.RUN_LEFT).seq,)
    assert found.samples == 7, "two lives have ended, and five nodes run on"


def test_who_has_not_returned_is_named_at_the_end(tmp_path: Path) -> None:
    stage = attached(tmp_path, Troubles(refuses=frozenset({("restart", "learner-3")})))
    history = stage.execute()
    left = the(history, Kind.RUN_LEFT)
    assert left.payload.gone == ("learner-3",)
    assert "learner-3" in str(history.of(Kind.FAULT_HEAL_FAILED)[-1].data["reason"])
