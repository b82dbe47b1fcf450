"""A stand-in for the syncer: starts in a blink, merges nothing, says what a real one says.

    little_learner ── {"learner", "incarnation", "step"}, a line for each step ──► little_syncer
                   ◄── the end of the connection: training is over ─────────────┘

A plan names it under `fleet.programs`. Every `ROUND_S` whoever stepped since contributes to a
round. Stop rules are those of rounds and time.
"""

import argparse
import json
import math
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field

from chaoslab.core.events import Json, Payload, node_line
from chaoslab.core.payloads import (
    Contributor,
    MemberJoined,
    MemberLeft,
    MembershipFields,
    RoundMerged,
    SyncerFinal,
    SyncerReady,
    SyncerStopped,
    SyncerStopRuleMet,
)
from chaoslab.core.protocol import LeaveReason

ROUND_S = 0.05
TOKENS_PER_STEP = 1024


@dataclass(slots=True, kw_only=True)
class Seat:
    """One connection of a learner."""

    connection: socket.socket
    heard: bytes = b""
    learner: str = ""
    incarnation: int = 0
    epoch: int = 0
    step: int = 0
    merged_step: int = 0


@dataclass(slots=True, kw_only=True)
class LittleSyncer:
    """All of it, on one thread."""

    settings: dict[str, Json]
    is_holding: bool
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    began_s: float = math.inf
    """When the first learner joined."""
    rounds: int = 0
    epochs: int = 0
    is_stop_rule_met: bool = False
    is_asked: bool = False

    def run(self, listener: socket.socket) -> None:
        """Until the stop rule is met, or somebody asks."""
        self.selector.register(listener, selectors.EVENT_READ, None)
        next_s = time.monotonic() + ROUND_S
        while not self.is_asked:
            for key, _ in self.selector.select(max(0.0, next_s - time.monotonic())):
                if key.data is None:
                    connection, _ = listener.accept()
                    self.selector.register(
                        connection, selectors.EVENT_READ, Seat(connection=connection)
                    )
                else:
                    self._hear(key.data)
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + ROUND_S
                self._round()
                if reason := self._is_enough():
                    if not self.is_holding:
                        break
                    if not self.is_stop_rule_met:
                        self.is_stop_rule_met = True
                        say(SyncerStopRuleMet(reason=reason))
        self._finish()

    def seats(self) -> list[Seat]:
        """Of the members."""
        data = [key.data for key in self.selector.get_map().values()]
        return [seat for seat in data if seat is not None and seat.epoch]

    def _hear(self, seat: Seat) -> None:
        try:
            chunk = seat.connection.recv(1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            self._leave(seat)
            return
        *lines, seat.heard = (seat.heard + chunk).split(b"\n")
        for line in lines:
            said = json.loads(line)
            seat.step = said["step"]
            if not seat.epoch:
                self._join(seat, said["learner"], said["incarnation"])

    def _join(self, seat: Seat, learner: str, incarnation: int) -> None:
        self.epochs += 1
        self.began_s = min(self.began_s, time.monotonic())
        seat.learner, seat.incarnation, seat.epoch = learner, incarnation, self.epochs
        seat.merged_step = seat.step
        source = "initial" if incarnation == 1 else "syncer"
        say(MemberJoined(**who(seat), source=source, members=len(self.seats())))

    def _leave(self, seat: Seat) -> None:
        self.selector.unregister(seat.connection)
        seat.connection.close()
        if seat.epoch:
            members = len(self.seats())
            say(MemberLeft(**who(seat), members=members, reason=LeaveReason.CLOSED))

    def _round(self) -> None:
        working = [seat for seat in self.seats() if seat.step > seat.merged_step]
        if not working:
            return
        self.rounds += 1
        members = [seat.learner for seat in self.seats()]
        merged = RoundMerged(
            round=self.rounds, fragment=0, version=self.rounds, base_version=self.rounds - 1,
            contributors=tuple(map(contribution, working)),
            committed_tokens=self.rounds * TOKENS_PER_STEP,
            digest=f"{self.rounds:016x}", momentum_digest=f"{self.rounds:016x}",
            members=len(members),
            missed=tuple(sorted(set(members) - {seat.learner for seat in working})),
            quorum_s=0.0, grace_s=0.0, sync_s=0.0,
        )  # fmt: skip
        say(merged)
        for seat in working:
            seat.merged_step = seat.step

    def _is_enough(self) -> str:
        rounds, limit_s = self.settings.get("stop_rounds"), self.settings.get("stop_time_s")
        if isinstance(rounds, int) and self.rounds >= rounds:
            return f"{self.rounds} rounds"
        passed_s = time.monotonic() - self.began_s
        return (
            f"{passed_s:.1f} s" if isinstance(limit_s, int | float) and passed_s >= limit_s else ""
        )

    def _finish(self) -> None:
        say(SyncerStopped(reason=f"{self.rounds} rounds"))
        for seat in self.seats():
            seat.connection.close()
        final = SyncerFinal(
            rounds=self.rounds, versions={}, digests={}, momentum_digests={}, stored_digests={},
            stored_momentum_digests={}, committed_tokens=self.rounds * TOKENS_PER_STEP,
            rejected={}, reason=f"{self.rounds} rounds", was_asked=not self._is_enough(),
        )  # fmt: skip
        say(final)


def who(seat: Seat) -> MembershipFields:
    """The head of what is said of a learner."""
    return {"learner": seat.learner, "incarnation": seat.incarnation, "epoch": seat.epoch}


def contribution(seat: Seat) -> Contributor:
    """One of the contributors of a round."""
    steps = seat.step - seat.merged_step
    return Contributor(
        **who(seat), step=seat.step, c_steps=steps, c_tokens=steps * TOKENS_PER_STEP,
        weight=float(steps), tokens_from=seat.merged_step * TOKENS_PER_STEP,
        tokens_to=seat.step * TOKENS_PER_STEP,
    )  # fmt: skip


def say(said: Payload) -> None:
    """One event on standard output."""
    sys.stdout.write(node_line(said, node_s=time.monotonic()) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Take the flags of the real one; most of them mean nothing here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings-json", required=True)
    parser.add_argument("--keep-training", action="store_true")
    asked, _ = parser.parse_known_args()
    syncer = LittleSyncer(settings=json.loads(asked.settings_json), is_holding=asked.keep_training)
    signal.signal(signal.SIGTERM, lambda *_: setattr(syncer, "is_asked", True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ready = SyncerReady(
            address=f"127.0.0.1:{listener.getsockname()[1]}", rounds=0, committed_tokens=0,
            is_recovered=False, last_epoch=0, versions={}, digests={},
            momentum_digests={},
        )  # fmt: skip
        say(ready)
        syncer.run(listener)


if __name__ == "__main__":
    main()
