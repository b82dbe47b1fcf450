"""Process of a simulated learner: what its parts share, its training thread, and its events.

training thread ── wedged? ──► acts wait until it is released      other threads go on
Learner, Joining, Leaving ──► counters, pace, messenger, saving ──► say
"""

from functools import partial
from typing import Any

from chaoslab.core.payloads import LearnerAdopted, NodeFields
from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner.pace import Grid
from chaoslab.diloco.settings import learning_rate
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.sim.clock import Timer
from chaoslab.sim.counters import Counters
from chaoslab.sim.messenger import Messenger, ModelledPayloads
from chaoslab.sim.model import PARAMETERS
from chaoslab.sim.process import Act, Process, need
from chaoslab.sim.saving import Saving
from chaoslab.sim.wires import Stream


class Pace(Grid):
    """Pace of a simulated learner: the grid of the real one, without waiting."""

    def ends_s(self, began_s: float, takes_s: float) -> float:
        """End of a step that began now and takes this long without pace."""
        period_s = self.period_s
        if period_s is None:
            self._due_s = None
            return began_s + takes_s / self._speed * self._factor
        place_s = self._place_s(began_s, period_s)
        ends_s = max(began_s + takes_s, place_s)
        self._end(place_s, period_s, ends_s - place_s, waited_s=0.0)
        return ends_s


class LearnerProcess(Process):
    """One life of a learner without its training, which `sim.learner.Learner` adds."""

    messenger: Messenger
    pace: Pace
    saving: Saving
    counters: Counters | None
    """Counters; None until it was first welcomed."""
    is_training: bool
    """Whether it has joined: from then on it makes steps."""
    is_ending: bool
    was_noticed: bool
    """Whether it was told of a preemption."""

    def prepare(self) -> None:
        """Before anything else: what its command line says."""
        self.parameters = PARAMETERS[need(self.flags, "model")]
        self.tokens = int(need(self.flags, "batch")) * int(need(self.flags, "sequence"))
        self.hosts = self.spec.hosts.count if self.spec.hosts else 1
        self.pace = Pace(
            step_time_s=float(self.flags["step-time"]) if "step-time" in self.flags else None,
            speed=float(self.flags.get("speed", 1.0)),
        )
        payloads = ModelledPayloads(self, self.parameters)
        self.messenger = Messenger(
            self, self, payloads=payloads, changed=lambda: self.on_training_thread(self.look)
        )
        self.on("updates", payloads.tampering.apply_hook)
        self._checkpoint_bytes = int(self.world.costs.checkpoint_bytes * self.parameters)
        self.saving = Saving(self, size_bytes=self._checkpoint_bytes)
        self.learning_rate = partial(
            learning_rate,
            lr=float(need(self.flags, "lr")),
            warmup_steps=int(need(self.flags, "warmup-steps")),
            decay_steps=int(need(self.flags, "decay-steps")),
            final_share=float(need(self.flags, "final-share")),
        )
        self.counters = None
        self.is_training = self.is_ending = self.was_noticed = False
        self._is_wedged, self._hung = False, list[Act]()

    def look(self) -> None:
        """Something has arrived, or it was asked to leave, while it makes no step."""
        raise NotImplementedError

    def end(self) -> None:
        """End the process and its stream."""
        super().end()
        if self.messenger.stream is not None:
            self.messenger.stream.abandon()

    # ---------------------------------------------------------------- the training thread

    def wedge(self) -> None:
        """Hang its training thread."""
        self._is_wedged = True

    def unwedge(self) -> None:
        """Release its training thread."""
        self._is_wedged = False
        hung, self._hung = self._hung, []
        for act in hung:
            self.do(act)

    def on_training_thread(self, act: Act) -> None:
        """Do it there: now, or when the thread hangs no more."""
        if self._is_wedged:
            self._hung.append(act)
        else:
            act()

    def train_later(self, delay_s: float, act: Act) -> Timer:
        """Do it there in this many seconds."""
        return self.later(delay_s, partial(self.on_training_thread, act))

    def takes(self, mean_s: float) -> float:
        """Duration of a piece of work, drawn anew."""
        return self.chance.spread(mean_s, self.world.costs.spread)

    def boundary(self, counters: Counters) -> None:
        """Leave the state between two steps to the messenger."""
        self.messenger.boundary(counters.snapshot(self._checkpoint_bytes))

    def save(self, counters: Counters) -> None:
        """Write a checkpoint beside training."""
        self.saving.save_later(
            step=counters.step, data_position=counters.data_position, payload=self.saving.values
        )

    def adopt(self, counters: Counters, then: Act) -> None:
        """Adopt everything that has arrived, then go on."""
        adoptions = self.messenger.inbox.adoptions
        while adoptions:
            published = adoptions.pop(next(iter(adoptions)))
            data = counters.adopt(published)
            if data is not None:
                break
        else:
            then()
            return

        def told() -> None:
            self.say(LearnerAdopted(**self.messenger.membership, **data))
            self.adopt(counters, then)

        self.reach(Phase.ADOPT, told, fragment=published.fragment, version=published.version)

    # ---------------------------------------------------------------- its end of streams

    def hear(self, stream: Stream, message: Received[Any]) -> None:
        """A message of the syncer."""
        if self.messenger.stream is not None:
            self.messenger.stream.hear(stream, message)

    def lose(self, stream: Stream, reason: str) -> None:
        """The stream has ended."""
        if self.messenger.stream is not None:
            self.messenger.stream.lose(stream, reason)

    # ---------------------------------------------------------------- events

    def _about(self) -> NodeFields:
        return {"node": "", **self.whose}
