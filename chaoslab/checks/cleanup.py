"""Cleanup: faults healed, processes gone, nothing left over on the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import NodeExited, NodeStarted, ResidueFound, RunFinished, RunLeft
from chaoslab.core.units import plural
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """Every fault with an end was healed, every process has exited, no residue was found."""

    name: ClassVar[str] = "cleanup"
    summary: ClassVar[str] = "faults healed, processes gone, nothing left over"

    def judge(self, history: History) -> Finding:
        """Look at the whole record; one without an end is a doubt."""
        begun = [story for story in history.faults if story.injected or story.failed]
        started = history.of(NodeStarted)
        finished = history.last(RunFinished)
        found: list[Violation | Doubt] = [*_residue(history)]
        if finished:
            found += [*_unhealed(history), *_still_running(history)]
        else:
            text = "the record breaks off before the run was finished"
            found += [Doubt(Code.RECORD_INCOMPLETE, text)]
        return conclude(
            self.name,
            found,
            passed=f"{plural(len(begun), 'fault was', 'faults were')} undone and "
            f"{_ending(history)}",
            samples=len(begun) + len(started),
        )


def _ending(history: History) -> str:
    started = plural(len(history.of(NodeStarted)), "process is", "processes are")
    left = history.last(RunLeft)
    return f"{', '.join(left.payload.nodes)} run on" if left else f"all {started} gone"


def _residue(history: History) -> Iterator[Violation]:
    for event in history.of(ResidueFound):
        text = f"{event.payload.what} was left in {event.payload.where}"
        yield Violation.at(event, Code.LEFT_OVER, text, "harness")


def _unhealed(history: History) -> Iterator[Violation]:
    """Faults with an end (not `for: rest`) whose heal did not begin or did not complete."""
    for story in history.faults:
        if story.injecting.payload.for_s is not None and not story.healed:
            how = "was never finished" if story.healing else "was never begun"
            text = f"the heal of `{story.spec}` ({story.fault}) {how}"
            yield Violation.at(story.injecting, Code.NOT_HEALED, text, story.injection)


def _still_running(history: History) -> Iterator[Violation]:
    running: dict[tuple[str, int], Event] = {}
    for event in history.of(NodeStarted, NodeExited):
        life = (event.payload.node, event.payload.incarnation)
        if event.kind is Kind.NODE_STARTED:
            running[life] = event
        else:
            running.pop(life, None)
    left = history.last(RunLeft)
    goes_on = set(left.payload.nodes if left else ())
    for (node, incarnation), started in running.items():
        if node in goes_on:
            continue
        text = f"{node} (incarnation {incarnation}) was not seen to exit"
        yield Violation.at(started, Code.STILL_RUNNING, text, node)
