"""A script's run that never ran: workers that step, save, die and go on, in the events of a run.

    ScriptStory().train(40).measure().kill("worker-0").heal("worker-0", at=25).train(40).end()

`ScriptProgress` derives from them what it derives in a run. A worker's loss is a function of its
step and of its `state`, which a resume may get wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from chaoslab.core.events import Event, Observation, Payload, data_of, kind_of
from chaoslab.core.payloads import (
    BaselineMeasured,
    EvidenceMeasured,
    FaultHealed,
    FaultHealing,
    FaultInjected,
    FaultInjecting,
    LineKind,
    MachineSampled,
    Need,
    NodeExited,
    NodeStarted,
    RunFinished,
    RunOutcome,
    RunStarted,
    ScriptStarted,
    Status,
    TrainerSaid,
)
from chaoslab.record.history import History
from chaoslab.trainers.script_progress import ScriptProgress

STEP_S = 0.1
SAVES_EVERY = 10


def usual_loss(step: int) -> float:
    """Falls from 4 towards 2."""
    return 2 + 2 / (1 + step / 20)


@dataclass
class _Worker:
    name: str
    incarnation: int = 0
    step: int = 0
    is_alive: bool = False
    loss: Callable[[int], float | None] = usual_loss
    exits: list[int] = field(default_factory=list)


class ScriptStory:
    """Write a run by telling what happens. Every verb returns the story."""

    def __init__(
        self,
        workers: int = 2,
        *,
        is_one_for_all: bool = False,
        says_saved: bool = True,
        stop: Mapping[str, float] | None = None,
        twin: "ScriptStory | None" = None,
        without: tuple[Need, ...] = (),
        learning_rate: float | None = None,
        reports_every: int = 1,
        has_steps: bool = True,
        overlap_s: float | None = None,
    ) -> None:
        """`overlap_s`: in pods, each of which begins so long before the last one has ended."""
        self.workers = {name: _Worker(name) for name in map("worker-{}".format, range(workers))}
        self._launcher = _Worker("launcher")
        self.events: list[Event] = []
        self.now_s = 0.0
        self.twin = twin
        self._is_one_for_all, self._says_saved = is_one_for_all, says_saved
        self._learning_rate, self._reports_every = learning_rate, reports_every
        self._has_steps = has_steps
        self._overlap_s, self._ended_s = overlap_s, 0.0
        self.progress = ScriptProgress(
            [*self.workers], is_one_for_all=is_one_for_all, stop=stop or {}
        )
        self.say(
            RunStarted(
                plan="a script", seed=1, fleet="local", algorithm="script",
                learners=tuple(self.workers), stop=stop or {}, version="0", is_twin=False,
                without=without,
                script=ScriptStarted(max_pause_s=60.0, says_saved=says_saved),
            )
        )  # fmt: skip
        for name in self.workers:
            self.start(name)

    def say(self, said: Payload, source: str = "harness") -> Event:
        """A line of the record, and what follows from it."""
        event = Event(
            seq=len(self.events), time_s=self.now_s, source=source, kind=kind_of(type(said)),
            data=data_of(said),
        )  # fmt: skip
        self.events.append(event)
        for follows in self.progress.see(event):
            self._append(follows)
        return event

    def _append(self, follows: Observation) -> None:
        self.events.append(
            Event(
                seq=len(self.events), time_s=self.now_s, source=follows.source, kind=follows.kind,
                data=follows.data,
            )
        )  # fmt: skip

    # ---------------------------------------------------------------- workers

    def start(self, name: str) -> Self:
        """Its next process; of a worker, or of the launcher of all."""
        worker = self.workers.get(name, self._launcher)
        worker.incarnation, worker.is_alive = worker.incarnation + 1, True
        role = "launcher" if worker is self._launcher else "learner"
        began_s = None if self._overlap_s is None else self._ended_s - self._overlap_s
        self.say(
            NodeStarted(
                node=name, incarnation=worker.incarnation, pid=1, role=role,
                container_began_s=began_s,
            )
        )  # fmt: skip
        return self

    def tell_of_launcher(self, what: LineKind, step: int) -> Self:
        """A line in its stream that names no worker."""
        said = TrainerSaid(node="launcher", incarnation=1, what=what, step=step, loss=2.0)
        self.say(said, "launcher")
        return self

    def tell(
        self,
        name: str,
        what: LineKind,
        step: int | None,
        loss: float | None = None,
        *,
        age_s: float = 0.0,
    ) -> Self:
        """A line that it prints, or a file that it wrote `age_s` ago."""
        self.say(
            TrainerSaid(
                node=name, incarnation=self.workers[name].incarnation, what=what,
                step=step if self._has_steps else None, loss=loss,
                learning_rate=self._learning_rate, age_s=age_s,
            ),
            name,
        )  # fmt: skip
        return self

    def train(self, steps: int, *, saves: bool = True) -> Self:
        """All that live make so many steps, side by side."""
        for _ in range(steps):
            self.now_s += STEP_S
            for number, worker in enumerate(self.workers.values()):
                if not worker.is_alive:
                    continue
                worker.step += 1
                if number and self._is_one_for_all:
                    continue
                if worker.step % self._reports_every == 0:
                    self.tell(worker.name, LineKind.PROGRESS, worker.step, worker.loss(worker.step))
                if saves and self._says_saved and worker.step % SAVES_EVERY == 0:
                    self.tell(worker.name, LineKind.SAVED, worker.step)
        return self

    def exit(
        self, name: str, *, signal: str | None = None, code: int | None = None, sent: str = ""
    ) -> Self:
        """Its process ends: by a signal of the harness, or with a code of its own."""
        worker = self.workers.get(name, self._launcher)
        worker.is_alive = False
        worker.exits.append(len(self.events))
        self._ended_s = self.now_s
        self.say(
            NodeExited(
                node=name, incarnation=worker.incarnation, pid=1, exit_code=code, signal=signal,
                sent=tuple(filter(None, (sent or signal,))),
                container_ended_s=None if self._overlap_s is None else self.now_s,
            )
        )  # fmt: skip
        return self

    # ---------------------------------------------------------------- the run

    def sample(self, *, others_cores: float = 0.0) -> Self:
        """What the harness saw of its machine of two cores in the last second: it was full."""
        self.say(
            MachineSampled(
                window_s=1.0, cores=2, load_1m=4.0, own_cores=2.0 - others_cores, harness_cores=0.1,
                others_cores=others_cores, stolen_cores=0.0, idle_cores=0.0, waited_s=None,
                throttled_s=None, cpu_pressure=None, io_pressure=None, memory_pressure=None,
            )
        )  # fmt: skip
        return self

    def measure(self) -> Self:
        """The baseline ends here."""
        self.say(
            BaselineMeasured(
                is_steady=True, reason="it varied by 3%", gap_s_median=STEP_S, gap_s_max=STEP_S,
                tokens_per_s=len(self.workers) / STEP_S, variation=0.03,
                step_s=dict.fromkeys(self.workers, STEP_S),
                step_s_median=dict.fromkeys(self.workers, STEP_S),
                step_variation=dict.fromkeys(self.workers, 0.01),
            )
        )  # fmt: skip
        return self

    def kill(self, *names: str) -> Self:
        """An injection kills them."""
        facts = {"injection": "injection-0", "spec": "dies", "fault": "process.kill"}
        self._facts = {**facts, "targets": names}
        self.say(
            FaultInjecting(**self._facts, settings={}, trigger="now", for_s=2.0, takes_away=True)
        )
        for name in names:
            self.exit(name, signal="SIGKILL")
        self.say(FaultInjected(**self._facts))
        return self

    def heal(self, *names: str, at: int, says: int | None = None, is_silent: bool = False) -> Self:
        """They start again, and go on from step `at`; they say so, or that it is another one."""
        for name in names:
            self.say(
                EvidenceMeasured(
                    injection="injection-0", target=name, status=Status.PROVED, code="as_asked",
                    text="died", requested={}, measured={},
                    proof=(self.workers.get(name, self._launcher).exits[-1],), fault="process.kill",
                )
            )  # fmt: skip
        self.say(FaultHealing(**self._facts))
        for name in names:
            self.start(name)
            if name == "launcher":
                continue
            self.workers[name].step = at
            if (at or says is not None) and not is_silent:
                self.tell(name, LineKind.RESUMED, at if says is None else says)
        self.say(FaultHealed(**self._facts))
        return self

    def end(self, *, code: int | None = None, by_launcher: bool = False) -> Self:
        """The harness has seen enough: all end by its signal, or with a code after it; or its
        launcher is faster than the signals to the workers.
        """
        for follows in self.progress.stop():
            self._append(follows)
        for worker in (*self.workers.values(), self._launcher):
            if worker.is_alive and by_launcher and worker is not self._launcher:
                self.exit(worker.name)
            elif worker.is_alive:
                self.exit(
                    worker.name, signal=None if code else "SIGTERM", code=code, sent="SIGTERM"
                )
        self.say(RunFinished(outcome=RunOutcome.COMPLETED, reason=""))
        return self

    def history(self) -> History:
        """The record."""
        return History(self.events, twin=self.twin.history() if self.twin else None)


def broken(
    at: int, *, says: int | None = None, says_saved: bool = True, without: tuple[Need, ...] = ()
) -> ScriptStory:
    """Killed at step 35, when 30 is saved, and back at another step."""
    story = ScriptStory(says_saved=says_saved, without=without).train(30).measure().train(5)
    return story.kill("worker-0").train(3).heal("worker-0", at=at, says=says)
