"""Simulated learner: the real training thread and messenger, on a model, a network and a disk.

    start ─► training_thread.Learner ─► exit          (`diloco.learner`)
              │        │        └─ Saving ─► disk
              │        └─ Messenger ═══════════════► syncer
              └─ ModelledReplica: each step at its cost

What its training thread waits for takes time of the virtual clock. A wedged one goes on when it is
released, and the others meanwhile.
"""

from itertools import repeat
from typing import Any

from chaoslab.core.payloads import LearnerStarted, NodeFields
from chaoslab.diloco.learner import training_thread
from chaoslab.diloco.learner.joining import JoinRefused
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.training_thread import Shard
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.sim.messenger import Messenger, ModelledPayloads
from chaoslab.sim.model import PARAMETERS
from chaoslab.sim.modelled_replica import ModelledReplica, ModelledSteps
from chaoslab.sim.process import Act, Process, need
from chaoslab.sim.saving import Saving
from chaoslab.sim.waits import Wakeable, drive
from chaoslab.sim.wires import Stream


class Learner(Process):
    """One life of a learner."""

    def begin(self) -> None:
        """Begin the life: its process is started."""
        flags = self.flags
        self._training: training_thread.Learner | None = None
        self._is_wedged, self._hung = False, list[Act]()
        self._parameters = PARAMETERS[need(flags, "model")]
        self._hosts = self.spec.hosts.count if self.spec.hosts else 1
        self._rest = Wakeable(self)
        self._pace = Pace(
            step_time_s=float(flags["step-time"]) if "step-time" in flags else None,
            speed=float(flags.get("speed", 1.0)),
            now_s=self.clock.now_s,
            sleep=self._rest.wait,
        )
        payloads = ModelledPayloads(self, self._parameters)
        self._messenger = Messenger(self, self, payloads=payloads)
        self._steps = ModelledSteps(self, self._parameters)
        self._saving = Saving(self, moments_digest=self._steps.moments_digest)
        self.on("updates", payloads.tampering.apply_hook)
        self.on("pace", self._pace.apply_pace_hook)
        self.on("slow", self._pace.apply_slow_hook)
        self.on("disk", self._saving.apply_hook)
        start_s = self.takes(self.world.costs.start_s)
        self.work(start_s, lambda: drive(self._live(), resume=self._on_training_thread))

    async def _live(self) -> None:
        flags, costs = self.flags, self.world.costs
        tokens = int(need(flags, "batch")) * int(need(flags, "sequence"))
        replica = ModelledReplica(
            self, self._steps, self._pace,
            tokens=tokens, step_s=costs.step_takes_s(self._parameters, tokens, chips=self._hosts),
        )  # fmt: skip
        self._training = training_thread.Learner(
            replica, self._messenger, store=self._saving,
            shard=Shard(int(need(flags, "shard")), lambda _: repeat(None)),
            save_every_s=float(need(flags, "save-every")),
            emit=self.say,
        )  # fmt: skip
        started = LearnerStarted(
            **self.whose, devices=self._hosts, platform="sim", parameters=self._parameters
        )
        self.say(started)
        self._messenger.start()
        code = 0
        try:
            await self._training.run()
        except JoinRefused as refused:
            code = refused.exit_code
        self.later(self.takes(costs.leave_s), lambda: self.exit(code))

    def end(self) -> None:
        """End the process and its stream."""
        super().end()
        if self._messenger.stream is not None:
            self._messenger.stream.abandon()

    def takes(self, mean_s: float) -> float:
        """Duration of a piece of work, drawn anew."""
        return self.chance.spread(mean_s, self.world.costs.spread)

    # ---------------------------------------------------------------- signals

    def ask_to_end(self) -> bool:
        """SIGTERM: leave after the step; before it handles signals its process just ends."""
        if self._training is not None:
            self._training.ask_to_leave()
            self._rest.wake()
        return self._training is not None

    def note_preemption(self) -> bool:
        """SIGHUP: whether it handles that; the training thread reports it after its step."""
        if self._training is not None:
            self._training.note_preemption()
        return self._training is not None

    def wedge(self) -> None:
        """Hang its training thread."""
        self._is_wedged = True

    def unwedge(self) -> None:
        """Release its training thread."""
        self._is_wedged = False
        hung, self._hung = self._hung, []
        for act in hung:
            self.do(act)

    def _on_training_thread(self, act: Act) -> None:
        """Do it there: now, or when the thread hangs no more."""
        if self._is_wedged:
            self._hung.append(act)
        else:
            act()

    # ---------------------------------------------------------------- its end of streams

    def hear(self, stream: Stream, message: Received[Any]) -> None:
        """A message of the syncer."""
        if self._messenger.stream is not None:
            self._messenger.stream.hear(stream, message)

    def lose(self, stream: Stream, reason: str) -> None:
        """The stream has ended."""
        if self._messenger.stream is not None:
            self._messenger.stream.lose(stream, reason)

    # ---------------------------------------------------------------- events

    def about(self) -> NodeFields:
        return {"node": "", **self.whose}
