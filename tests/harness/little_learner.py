"""A stand-in for a learner: starts in a blink, computes nothing, says what a real one says.

It dials the syncer by its link, sends a line for each step, dials again when the connection breaks,
and takes up the hooks of a local node: SIGUSR1 hang, SIGUSR2 go on, SIGTERM leave.
"""

import argparse
import json
import signal
import socket
import sys
import time

from chaoslab.core.events import Payload, node_line
from chaoslab.core.payloads import (
    LearnerFinal,
    LearnerLeft,
    LearnerStarted,
    LearnerStep,
    LeftBecause,
    LifeFields,
)

STEP_S = 0.02
WORK = 20_000
"""Numbers added up in a step: a little CPU time, so that a chip can be slowed."""
_DIAL_S = 0.5
_SAMPLE_STEPS = 10


class LittleLearner:
    """One life."""

    def __init__(self, name: str, incarnation: int, syncer: str) -> None:
        host, _, port = syncer.rpartition(":")
        self.who: LifeFields = {"learner": name, "incarnation": incarnation}
        self.syncer = (host, int(port))
        self.step = 0
        self.leaves = self.is_wedged = False  # no events: a handler could wait for its own thread

    def run(self) -> None:
        """Until the syncer ends training, or somebody asks."""
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "is_wedged", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(self, "is_wedged", False))
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "leaves", True))
        say(LearnerStarted(**self.who, devices=1, parameters=0))
        failures = 0
        while not self.leaves and failures < 3:
            try:
                with socket.create_connection(self.syncer, timeout=_DIAL_S) as connection:
                    connection.settimeout(None)
                    failures = failures + 1 if not self.work(connection) else 0
            except OSError:
                failures += 1
                time.sleep(STEP_S)
        self.finish(LeftBecause.ASKED if self.leaves else LeftBecause.STOPPED)

    def work(self, connection: socket.socket) -> bool:
        """Step until the connection ends; whether it did step."""
        began = self.step
        connection.setblocking(False)
        try:
            while not self.leaves:
                time.sleep(STEP_S)
                if self.is_wedged:
                    continue
                self.step += 1
                sum(range(WORK))
                connection.send(json.dumps({**self.who, "step": self.step}).encode() + b"\n")
                if self.step % _SAMPLE_STEPS == 1:
                    self.sample()
                if self.has_ended(connection):
                    break
        except OSError:
            pass
        return self.step > began + 1

    @staticmethod
    def has_ended(connection: socket.socket) -> bool:
        """Whether the syncer, or the link, closed it."""
        try:
            return not connection.recv(1)
        except BlockingIOError:
            return False

    def sample(self) -> None:
        """What a learner says now and then: its loss falls once, after the first step of all."""
        is_untrained = self.step == 1 and self.who["incarnation"] == 1
        sample = LearnerStep(
            **self.who, epoch=1, step=self.step, steps=_SAMPLE_STEPS, step_s=STEP_S,
            loss=3.0 if is_untrained else 2.0, tokens=self.step * 1024, data_position=self.step,
        )  # fmt: skip
        say(sample)

    def finish(self, reason: LeftBecause) -> None:
        """Its account, and farewell."""
        final = LearnerFinal(
            **self.who, step=self.step, tokens=self.step * 1024, versions={}, digests={},
            committed={}, discarded={}, in_flight={},
        )  # fmt: skip
        say(final)
        say(LearnerLeft(**self.who, step=self.step, reason=reason))


def say(said: Payload) -> None:
    """One event on standard output."""
    sys.stdout.write(node_line(said, node_s=time.monotonic()) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Take the flags of the real one; most of them mean nothing here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--syncer", required=True)
    asked, _ = parser.parse_known_args()
    LittleLearner(asked.name, asked.incarnation, asked.syncer).run()


if __name__ == "__main__":
    main()
