"""Progress of a training that is not chaoslab's own, in the events by which a run is judged.

    trainer.said, node.started, node.exited, fault.injecting
      └─► ScriptProgress ─┬─► learner.joined, learner.step, trainer.mixed
                          ├─► member.joined, member.left
                          ├─► push.accepted, round.merged
                          └─► syncer.stop_rule_met, .stopped, .final

A *round* is one report of progress of all workers that train: it ends when each of them has
reported since the round before, or when one reports again that has. Lines that were read together
do not count as again: whoever reads them late cannot tell which worker was first. Tokens are steps,
since nobody knows how many tokens a step has. Pure: no clock, no files; times come in with the
events.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from chaoslab.core.events import Event, Observation, Payload
from chaoslab.core.payloads import (
    Contributor,
    FaultInjecting,
    LearnerJoined,
    LearnerStep,
    LineKind,
    MemberJoined,
    MemberLeft,
    NodeExited,
    NodeStarted,
    PushAccepted,
    RoundMerged,
    SyncerFinal,
    SyncerStopped,
    SyncerStopRuleMet,
    TrainerMixed,
    TrainerSaid,
)
from chaoslab.core.protocol import LeaveReason
from chaoslab.trainers.mixed_lines import MixedLines

_SOURCE = "harness"
_TOGETHER = 0.25
"""Share of a worker's usual time between two reports below which they were read together."""
_CHECKPOINT = "checkpoint"
"""Source of a join of a worker that resumes or begins anew: its step tells which."""


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A worker in its latest life."""

    name: str
    incarnation: int = 0
    since_s: float = 0.0
    """Time of its last line, or of its start."""
    is_alive: bool = False
    first_s: float = 0.0
    """Time of the first report of this life."""
    reports: int = 0
    """Reports of this life."""
    epoch: int | None = None
    """Epoch; None before its first progress."""
    step: int = 0
    steps: int = 0
    """Made in this life."""
    given: int = 0
    """Reports that are part of a round."""
    has_steps: bool = False
    """Whether its lines have had steps."""
    loss: float | None = None
    said_loss: float | None = None
    """Loss in a line without a step, of a trainer that prints its steps in other lines."""
    resumed: int | None = None
    """Step from which this life reported to go on."""

    def heard(self, time_s: float) -> bool:
        """Note a report; whether it was read together with the last one."""
        usual_s = (self.since_s - self.first_s) / max(1, self.reports - 1)
        is_together = self.reports > 1 and time_s - self.since_s < _TOGETHER * usual_s
        self.first_s = self.first_s if self.reports else time_s
        self.reports += 1
        self.since_s = time_s
        return is_together


class ScriptProgress:
    """The workers of one training, and what all of them have done."""

    def __init__(
        self, workers: Sequence[str], *, is_one_for_all: bool, stop: Mapping[str, float]
    ) -> None:
        """`is_one_for_all`: one worker reports the progress of all. `stop`: limits `steps`,
        `time_s` and `loss`, of which the first that is reached counts.
        """
        self._workers = {name: _Worker(name=name) for name in workers}
        self._is_one_for_all = is_one_for_all
        self._stop = stop
        self._mixed = MixedLines()
        self._speakers = set[str]()
        """Workers that report their own progress: no line without a rank is about these."""
        self._open: dict[str, _Worker] = {}
        """Workers that have reported since the last round."""
        self._epoch = self._rounds = self._steps = 0
        self._strides = Counter[int]()
        """How often so many steps lay between two reports of a worker."""
        self._has_steps = False
        """Whether lines of progress have them; else they are counted here."""
        self._saved: dict[str, int] = {}
        """Step of the newest checkpoint of each worker that says when it saves."""
        self._began_s: float | None = None
        self._is_met = self._is_stopped = self._is_asked = self._is_over = False

    def see(self, event: Event) -> list[Observation]:
        """Events that follow from an event, in order."""
        return self.hear(event.payload, event.time_s)

    def hear(self, said: Payload, time_s: float) -> list[Observation]:
        """The same of what an event says."""
        match said:
            case NodeStarted(node=node) if node in self._workers:
                self._workers[node] = _Worker(
                    name=node, incarnation=said.incarnation, since_s=time_s, is_alive=True
                )
                return []
            case NodeExited(node=node) if node in self._workers:
                found = self._ended(said)
            case NodeExited(exit_code=0, sent=()):
                found = self._finished(said.node)  # by the word of their launcher
            case FaultInjecting():
                self._mixed.faults += 1
                return []
            case TrainerSaid(what=LineKind.RESUMED):
                for worker in self._meant(said):
                    self._resumed(worker, said.step)
                return []
            case TrainerSaid(what=LineKind.SAVED):
                for worker in self._meant(said)[:1]:
                    self._saved[worker.name] = worker.step if said.step is None else said.step
                return []
            case TrainerSaid(what=LineKind.PROGRESS):
                found = self._advanced(said, time_s)
            case _:
                return []
        return [Observation.of(_source(one), one) for one in found]

    @property
    def incarnations(self) -> Mapping[str, int]:
        """Incarnation of each worker that was ever started."""
        return {one.name: one.incarnation for one in self._workers.values() if one.incarnation}

    @property
    def lives(self) -> Mapping[str, int]:
        """The incarnation of each worker that runs."""
        return {one.name: one.incarnation for one in self._workers.values() if one.is_alive}

    @property
    def steps(self) -> Mapping[str, int]:
        """The step that each worker has reported last in its latest life, or 0."""
        return {one.name: one.step for one in self._workers.values()}

    def stop(self) -> list[Observation]:
        """The harness is about to end the workers, before any of them is told."""
        self._is_asked = bool(self._stop) and not self._is_met
        return [Observation.of(_SOURCE, one) for one in self._stopped("chaoslab ended it")]

    # ---------------------------------------------------------------- progress

    def _advanced(self, said: TrainerSaid, time_s: float) -> Iterator[Payload]:
        worker, *others = self._meant(said) or (None,)
        if worker is None:
            return
        if said.step is None and worker.has_steps:
            worker.said_loss = said.loss
            return
        worker.has_steps = said.step is not None
        self._has_steps |= worker.has_steps
        step = worker.step + 1 if said.step is None else said.step
        if said.node == worker.name and worker.name not in self._speakers:
            self._speakers.add(worker.name)
            if worker.epoch is not None and step < worker.step:
                worker.step = step  # until now others spoke for it
                return
        if said.step is not None:
            yield from self._mixing(said, step, [worker, *others])
        if worker.epoch is not None and step == worker.step:
            return  # said again, as by another rank
        if self._began_s is None:
            self._began_s = time_s
        yield from self._step(worker, step, said, time_s, is_inferred=False)
        for other in others:
            yield from self._step(other, step, said, time_s, is_inferred=True)
        yield from self._stop_rule(time_s)

    def _mixing(
        self, said: TrainerSaid, step: int, meant: Sequence[_Worker]
    ) -> Iterator[TrainerMixed]:
        """Whether this line shows that it may be of any of several workers."""
        before = {one.name: one.step for one in meant if one.epoch is not None}
        speakers = 1 if self._is_one_for_all else len(meant)
        how = self._mixed.hear(step, before, speakers=speakers)
        if how is not None:
            yield TrainerMixed(
                node=meant[0].name,
                how=how,
                step=step,
                before=max(before.values(), default=step),
                workers=tuple(one.name for one in meant),
                line=said.line,
            )

    def _resumed(self, worker: _Worker, step: int | None) -> None:
        """It goes on from a step. Where lines have none that is the newest checkpoint's: losses
        tell if it is another one.
        """
        if step is None and self._saved and not self._has_steps:
            step = self._saved.get(worker.name, max(self._saved.values()))
            worker.step = step
        worker.resumed = step

    def _meant(self, said: TrainerSaid) -> list[_Worker]:
        """Whom a line is about: the worker that said it, then those for which it says it, too. A
        launcher passes on a line that names no worker, and that is about all that do not speak for
        themselves.
        """
        alive = [one for one in self._workers.values() if one.is_alive]
        if (worker := self._workers.get(said.node)) is None:
            is_any = self._is_one_for_all or said.what is not LineKind.PROGRESS
            return [one for one in alive if is_any or one.name not in self._speakers]
        if not worker.is_alive or said.incarnation != worker.incarnation:
            return []
        is_shared = self._is_one_for_all and said.what is LineKind.PROGRESS
        return [worker, *(one for one in alive if one is not worker)] if is_shared else [worker]

    def _step(
        self, worker: _Worker, step: int, said: TrainerSaid, time_s: float, *, is_inferred: bool
    ) -> Iterator[Payload]:
        """A worker is at a step now; `is_inferred`: because another one said so."""
        is_mixed = self._mixed.are_mixed
        if worker.epoch is None or (step < worker.step and not is_mixed):
            yield from self._join(worker, step, said)
            made = 1
        elif is_mixed:
            made = 1
        else:
            made = step - worker.step
            self._strides[made] += 1
        loss, worker.said_loss = worker.said_loss if said.loss is None else said.loss, None
        worker.step, worker.loss = step, loss
        worker.steps += made
        yield LearnerStep(
            learner=worker.name,
            incarnation=worker.incarnation,
            epoch=self._epoch_of(worker),
            step=step,
            steps=made,
            step_s=(time_s - worker.since_s) / made,
            loss=loss,
            tokens=worker.steps,
            data_position=None,
            learning_rate=said.learning_rate,
            is_inferred=is_inferred,
        )
        is_together = worker.heard(time_s)
        if worker.name in self._open and not is_together:
            yield from self._merge()
        self._open[worker.name] = worker
        if not self._members() - self._open.keys():
            yield from self._merge()

    def _join(self, worker: _Worker, step: int, said: TrainerSaid) -> Iterator[Payload]:
        """Join of a worker: its first training in this life, or its return to an earlier step."""
        if worker.epoch is not None:
            yield from self._left(worker, LeaveReason.FENCED)
        is_first = worker.epoch is None and worker.incarnation == 1 and worker.resumed is None
        source = "initial" if is_first else _CHECKPOINT
        self._epoch += 1
        worker.epoch = self._epoch
        yield MemberJoined(
            learner=worker.name,
            incarnation=worker.incarnation,
            epoch=self._epoch,
            source=source,
            members=len(self._members()),
        )
        yield LearnerJoined(
            learner=worker.name,
            incarnation=worker.incarnation,
            epoch=self._epoch,
            source=source,
            step=max(0, step - self._stride) if worker.resumed is None else worker.resumed,
            data_position=None,
            versions={},
            learning_rate=said.learning_rate,
        )

    @property
    def _stride(self) -> int:
        """Steps between two reports, as usual."""
        return max(self._strides, key=lambda steps: self._strides[steps], default=1)

    def _merge(self) -> Iterator[Payload]:
        """A round of those that have reported since the last one."""
        self._rounds += 1
        given = [self._contributor(worker) for worker in self._open.values()]
        members, missed = self._members(), tuple(sorted(self._members() - self._open.keys()))
        self._open.clear()
        self._steps += sum(one.c_steps for one in given)
        for one in given:
            yield PushAccepted(
                round=self._rounds,
                fragment=0,
                learner=one.learner,
                incarnation=one.incarnation,
                epoch=one.epoch,
                base_version=self._rounds - 1,
                step=one.step,
                c_steps=one.c_steps,
                c_tokens=one.c_tokens,
                tokens_from=one.tokens_from,
                tokens_to=one.tokens_to,
            )
        yield RoundMerged(
            round=self._rounds,
            fragment=0,
            version=self._rounds,
            base_version=self._rounds - 1,
            contributors=tuple(given),
            committed_tokens=self._steps,
            members=len(members),
            missed=missed,
        )

    def _contributor(self, worker: _Worker) -> Contributor:
        given, worker.given = worker.given, worker.steps
        made = worker.steps - given
        return Contributor(
            learner=worker.name,
            incarnation=worker.incarnation,
            epoch=self._epoch_of(worker),
            step=worker.step,
            c_steps=made,
            c_tokens=made,
            weight=made,
            tokens_from=given,
            tokens_to=worker.steps,
        )

    def _members(self) -> set[str]:
        alive = (one for one in self._workers.values() if one.is_alive)
        return {one.name for one in alive if one.epoch is not None}

    @staticmethod
    def _epoch_of(worker: _Worker) -> int:
        return worker.epoch or 0

    # ---------------------------------------------------------------- the end

    def _ended(self, said: NodeExited) -> Iterator[Payload]:
        worker = self._workers[said.node]
        worker.is_alive = False
        has_finished = said.exit_code == 0 and not said.sent and self._is_furthest(worker)
        if has_finished:
            yield from self._stopped(f"{worker.name} has finished at step {worker.step:,}")
        if worker.epoch is not None:
            yield from self._left(
                worker, LeaveReason.SAID_GOODBYE if has_finished else LeaveReason.CLOSED
            )
        self._open.pop(worker.name, None)
        if self._open and not self._members() - self._open.keys():
            yield from self._merge()
        yield from self._final()

    def _finished(self, launcher: str) -> Iterator[Payload]:
        yield from self._stopped(f"{launcher} has finished")
        yield from self._final()

    def _final(self) -> Iterator[Payload]:
        """Once all of it has ended."""
        is_last = not any(one.is_alive for one in self._workers.values())
        if self._is_stopped and is_last and not self._is_over:
            self._is_over = True
            yield SyncerFinal(
                rounds=self._rounds,
                versions={"0": self._rounds},
                digests={},
                committed_tokens=self._steps,
                reason="all workers have ended",
                was_asked=self._is_asked,
            )

    def _left(self, worker: _Worker, reason: LeaveReason) -> Iterator[Payload]:
        members = self._members() - {worker.name}
        yield MemberLeft(
            learner=worker.name,
            incarnation=worker.incarnation,
            epoch=self._epoch_of(worker),
            members=len(members),
            reason=reason,
        )

    def _is_furthest(self, worker: _Worker) -> bool:
        """Whether no other worker was ahead of it by more than a report."""
        return worker.step + self._stride >= max(one.step for one in self._workers.values())

    def _stopped(self, reason: str) -> Iterator[Payload]:
        if not self._is_stopped:
            self._is_stopped = True
            if not self._stop:
                yield SyncerStopRuleMet(reason="the training has no stop rule")
            yield SyncerStopped(reason=reason)

    def _stop_rule(self, time_s: float) -> Iterator[Payload]:
        """Whether the stop rule is met now."""
        if self._is_met or self._is_stopped:
            return
        step = max(one.step for one in self._workers.values())
        losses = [one.loss for one in self._workers.values() if one.loss is not None]
        loss = fmean(losses) if losses else None
        passed_s = time_s - (self._began_s or 0.0)
        reason = ""
        if step >= self._stop.get("steps", step + 1):
            reason = f"{step:,} steps"
        elif passed_s >= self._stop.get("time_s", passed_s + 1):
            reason = f"{passed_s:.0f} s"
        elif loss is not None and isfinite(loss) and loss <= self._stop.get("loss", loss - 1):
            reason = f"a loss of {loss:.4g}"
        if reason:
            self._is_met = True
            yield SyncerStopRuleMet(reason=reason)


def mixing_of(
    said: Sequence[TrainerSaid], workers: Sequence[str], *, is_one_for_all: bool = False
) -> TrainerMixed | None:
    """Whether lines of workers that were not broken cannot be told apart, and how it shows."""
    progress = ScriptProgress(workers, is_one_for_all=is_one_for_all, stop={})
    for name in workers:
        progress.hear(NodeStarted(node=name, incarnation=1, pid=0, role="learner"), 0.0)
    found = (one.payload for number, line in enumerate(said) for one in progress.hear(line, number))
    return next((one for one in found if isinstance(one, TrainerMixed)), None)


def _source(said: Payload) -> str:
    """Who says it: a worker its own steps, the harness what all have done."""
    return said.learner if isinstance(said, LearnerStep | LearnerJoined) else _SOURCE
