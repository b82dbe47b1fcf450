"""Learners with one defect each: `python -m chaoslab.selftest.mutants.learner NAME`, its flags."""

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from chaoslab.core.events import Json, Payload, encode, kind_of
from chaoslab.core.link_meter import MEASURE_S
from chaoslab.core.payloads import LearnerStep
from chaoslab.diloco.learner import link, messages, messenger, program, training_thread
from chaoslab.diloco.learner.exchange import Inbox, Joined, Snapshot
from chaoslab.diloco.learner.inner_steps import Inner
from chaoslab.diloco.learner.link import Backoff, Link
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.training_thread import Learner
from chaoslab.diloco.model.task import Batch
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Source
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM, Part, flag, replica, start_named

_CRASHES_AFTER_S = 1.0
_LEAVES_AFTER_S = 3.0
_FALSE_CLOCK_SHARE = 0.2
_INTRUDER_INCARNATION = 99
_INTRUDES_AT_STEP = 50
"""By then all learners have joined."""
_INTRUDER_STAYS_S = 2.0
_ALONE_S = 30.0
_ALONE_LONG_S = 1.0
_PATIENCE_S = 30.0
_ANSWERS = 3

# ---------------------------------------------------------------- incarnations that end


@cache
def _first_step_s() -> float:
    return time.monotonic()


def _trains_longer_than(time_s: float) -> bool:
    return time.monotonic() - _first_step_s() > time_s


class CrashingLearner(Learner):
    """Its second incarnation exits with code 1, a second after it began to train."""

    def _note_step(self) -> None:
        super()._note_step()
        if _trains_longer_than(_CRASHES_AFTER_S) and flag("--incarnation") == "2":
            os._exit(1)


class EarlyLearner(Learner):
    """The other victim leaves in mid-training, as if training had ended."""

    def _note_step(self) -> None:
        super()._note_step()
        if _trains_longer_than(_LEAVES_AFTER_S) and flag("--name") == OTHER_VICTIM:
            run_now(self._finish(self._replica.counters.versions))
            sys.exit(0)


class StubbornLearner(Learner):
    """SIGUSR1 (hang) and SIGTERM (leave) have no effect."""

    def install_signal_handlers(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)


class FalseHanger(Learner):
    """Told to hang, it reports no steps any more, and trains on."""

    plays_dead = False

    def _sample(self) -> None:
        if not self.plays_dead:
            super()._sample()

    def install_signal_handlers(self) -> None:
        super().install_signal_handlers()
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "plays_dead", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(self, "plays_dead", False))


# ---------------------------------------------------------------- what it reports


class FalseClock(Learner):
    """The other victim reports a fifth of its step times."""

    def _say(self, said: Payload) -> None:
        if isinstance(said, LearnerStep) and flag("--name") == OTHER_VICTIM:
            said = replace(said, step_s=said.step_s * _FALSE_CLOCK_SHARE)
        super()._say(said)


class LosslessLearner(Learner):
    """A later incarnation of the victim reports a loss of 0."""

    def _say(self, said: Payload) -> None:
        if isinstance(said, LearnerStep) and flag("--incarnation") != "1":
            said = replace(said, loss=0.0)
        super()._say(said)


class MalformedLearner(Learner):
    """The victim prints ten events without any data after each event."""

    def _say(self, said: Payload) -> None:
        super()._say(said)
        for _ in range(10 if flag("--name") == VICTIM else 0):
            print(encode({"kind": kind_of(type(said)), "data": {}}), flush=True)  # noqa: T201


# ---------------------------------------------------------------- what it trains on


class ReopeningLearner(Learner):
    """The victim begins its data anew when the syncer takes it back, as after its restart."""

    begins_anew = False

    async def _join(self) -> None:
        await super()._join()
        self._shard = self._shard._replace(batches=partial(_batches, self, self._shard.batches))

    def _announce(self, joined: Joined, source: Source) -> None:
        if source is Source.RESUMED and flag("--name") == VICTIM:
            self._replica.counters = replace(self._replica.counters, data_position=0)
            self.begins_anew = True
        super()._announce(joined, source)


def _batches(
    learner: ReopeningLearner, batches: Callable[[int], Iterator[Batch]], position: int
) -> Iterator[Batch]:
    """Batches from a position on, and from 0 whenever the learner begins anew."""
    while True:
        learner.begins_anew = False
        for batch in batches(position):
            if learner.begins_anew:
                break
            yield batch
        position = 0


_main = program.main


def _later_with(name: str, change: Callable[[str], str]) -> Callable[..., int]:
    """Program of the learner in whose later incarnations a flag has another value."""

    def main(arguments: Sequence[str] | None = None, *, inner: type[Inner] | None = None) -> int:
        if flag("--incarnation") != "1":
            sys.argv[sys.argv.index(name) + 1] = change(flag(name))
        return _main(arguments, inner=inner)

    return main


# ---------------------------------------------------------------- its connection


class NoBackoff(Backoff):
    """Reconnects without a pause."""

    def next_s(self) -> float:
        return 0.0


class OneStreamLink(Link[Connection]):
    """Never reconnects, and goes on measuring its silent link.

    Nothing can tell it that training has ended, so it leaves after `_ALONE_S`.
    """

    async def _rest(self) -> None:
        until_s = time.monotonic() + _ALONE_S
        while not await self._closing.wait(MEASURE_S):
            self._keep_time(None)
            if time.monotonic() > until_s:
                os.kill(os.getpid(), signal.SIGTERM)


class MuteMessenger(Messenger):
    """Answers pulls in its first incarnation only."""

    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:
        if self.whose["incarnation"] == 1:
            super()._push(snapshot, pull)


class DecliningMessenger(Messenger):
    """A later incarnation answers three pulls, and no further one."""

    answered = 0

    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:
        self.answered += 1
        if self.whose["incarnation"] == 1 or self.answered <= _ANSWERS:
            super()._push(snapshot, pull)


class LastingPace(Pace):
    """Does not stop being slow when it is told to."""

    def apply_slow_hook(self, facts: Mapping[str, Json]) -> None:
        if facts:
            super().apply_slow_hook(facts)


class ToldPace(Pace):
    """Notes whether it is told to be slow."""

    is_slow = False

    def apply_slow_hook(self, facts: Mapping[str, Json]) -> None:
        super().apply_slow_hook(facts)
        ToldPace.is_slow = bool(facts)


class ShirkingMessenger(Messenger):
    """Answers no pull while its chip is slow."""

    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:
        if not ToldPace.is_slow:
            super()._push(snapshot, pull)


class WaitingMessenger(Messenger):
    """Stops training to wait for the syncer once it has adopted nothing for a second."""

    adopted: Sequence[int] = ()
    adopted_s = 0.0

    def take(self) -> Inbox:
        if (snapshot := self._snapshot) is not None:
            versions = snapshot.counters.versions
            if versions != self.adopted:
                self.adopted, self.adopted_s = versions, time.monotonic()
            elif time.monotonic() > self.adopted_s + _ALONE_LONG_S:
                run_now(self.wait(_PATIENCE_S))
        return super().take()


class IntrudingMessenger(Messenger):
    """The victim connects once more, as the other victim with a token that is made up."""

    has_intruded = False

    def boundary(self, snapshot: Snapshot) -> None:
        super().boundary(snapshot)
        is_due = flag("--name") == VICTIM and snapshot.counters.step >= _INTRUDES_AT_STEP
        if is_due and not self.has_intruded:
            self.has_intruded = True
            threading.Thread(
                target=_intrude, args=(self._payloads.specs_json,), daemon=True
            ).start()


def _intrude(specs_json: str) -> None:
    hello = messages.hello(
        OTHER_VICTIM,
        _INTRUDER_INCARNATION,
        secrets.randbits(63),
        specs_json=specs_json,
        counters=None,
    )
    connection = Connection(flag("--syncer"), token=f"{OTHER_VICTIM}:{secrets.token_hex(32)}")
    connection.open()
    connection.send(pb.FromLearner(hello=hello))
    threading.Event().wait(_INTRUDER_STAYS_S)
    connection.close()


MUTANTS = {
    "crashing_rejoiner": [Part(program, "Learner", CrashingLearner)],
    "crawling_rejoiner": [Part(program, "Replica", replica.CrawlingReplica)],
    "declining_rejoiner": [Part(program, "Messenger", DecliningMessenger)],
    "double_counter": [Part(program, "Replica", replica.DoubleReplica)],
    "early_leaver": [Part(program, "Learner", EarlyLearner)],
    "faint_rejoiner": [
        Part(program, "main", _later_with("--lr", lambda lr: str(float(lr) / 1000)))
    ],
    "false_clock": [Part(program, "Learner", FalseClock)],
    "false_hanger": [Part(program, "Learner", FalseHanger)],
    "flipped_learner": [Part(program, "Replica", replica.FlippedReplica)],
    "flipping_donor": [Part(program, "Inner", replica.FlippingInner)],
    "forgetful_rejoiner": [Part(program, "Replica", replica.ForgetfulReplica)],
    "reconnecting_without_pause": [Part(link, "Backoff", NoBackoff)],
    "hot_rejoiner": [Part(program, "main", _later_with("--lr", lambda lr: str(10 * float(lr))))],
    "idle_rejoiner": [Part(program, "Replica", replica.IdleReplica)],
    "intruding_learner": [Part(program, "Messenger", IntrudingMessenger)],
    "keeping_rejoiner": [
        Part(program, "Replica", replica.KeepingReplica),
        Part(training_thread, "Joining", replica.KeepingJoining),
    ],
    "lasting_slowness": [Part(program, "Pace", LastingPace)],
    "lossless_rejoiner": [Part(program, "Learner", LosslessLearner)],
    "malformed_learner": [Part(program, "Learner", MalformedLearner)],
    "misplaced_rejoiner": [Part(program, "main", _later_with("--shard", lambda _: "0"))],
    "mute_rejoiner": [Part(program, "Messenger", MuteMessenger)],
    "no_reconnect": [Part(messenger, "Link", OneStreamLink)],
    "noisy_learners": [Part(program, "Inner", replica.NoisyInner)],
    "one_batch_rejoiner": [Part(program, "Replica", replica.OneBatchReplica)],
    "repeating_learner": [Part(program, "Replica", replica.RepeatingReplica)],
    "reopening_learner": [Part(program, "Learner", ReopeningLearner)],
    "shirking_learner": [
        Part(program, "Pace", ToldPace),
        Part(program, "Messenger", ShirkingMessenger),
    ],
    "skipping_rejoiner": [Part(program, "Replica", replica.SkippingReplica)],
    "stale_rejoiner": [Part(program, "Replica", replica.StaleReplica)],
    "stuck_rejoiner": [Part(program, "Inner", replica.StuckInner)],
    "stubborn_learner": [Part(program, "Learner", StubbornLearner)],
    "turned_learner": [Part(program, "Inner", replica.TurnedInner)],
    "waiting_learner": [Part(program, "Messenger", WaitingMessenger)],
    "wrong_adopter": [Part(program, "Inner", replica.WrongInner)],
}

if __name__ == "__main__":
    start_named(program, MUTANTS)
