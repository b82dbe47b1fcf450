"""Recorder: the program in the syncer's role where a system of others trains.

    learners ══ reports ══► Recorder ─► Books ─► member.joined, push.accepted, round.merged, …
                               │
                               └─ runs the system's own coordinator: lighthouse, DHT peer, store

It takes no part in the training. What it prints is what the learners report that their system did:
a version is merged when all of its contributors have told of it. It ends the training by the plan's
stop rule: all stop at one version, a little after that was decided.
"""

import json
import queue
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.files import atomic_write, make_folder
from chaoslab.diloco.node.snapshots import SnapshotSchedule
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.options import former_address, parser
from chaoslab.systems.adapters import Adapter
from chaoslab.systems.books import Books, Report

_TICK_S = 0.1
_NOTICE = 2
"""Versions after the newest one at which all stop, so that all hear of it before."""
_LEAVE_S = 30.0
"""How long it waits, after the end, for the learners to leave."""


@dataclass(slots=True)
class _Session:
    """One connection of a learner."""

    lines: Any
    who: tuple[str, int] | None = None
    """Name and incarnation, once it has said hello."""

    def tell(self, **said: Json) -> None:
        with suppress(OSError, ValueError):  # it went away; its end is on the way
            self.lines.write(json.dumps(said).encode() + b"\n")
            self.lines.flush()


class Recorder:
    """One thread owns the books; a thread for each connection reads its lines."""

    def __init__(
        self,
        settings: Settings,
        own: Mapping[str, Json],
        directory: Path,
        *,
        is_held: bool,
        snapshots: Path | None,
    ) -> None:
        """`own`: settings of the system. Continues the books that are in `directory`."""
        self._settings, self._own = settings, own
        self._books = Books(say, directory / "books.json")
        self._shared = directory.absolute() / "shared"
        make_folder(self._shared, durable=False)
        self._arrivals: queue.Queue[tuple[_Session, Mapping[str, Any] | None]] = queue.Queue()
        self._present: dict[str, _Session] = {}
        self._is_held, self._is_asked = is_held, False
        self._stop_at: int | None = None
        self._held_reason = self._stop_reason = ""
        self._schedule = SnapshotSchedule(
            snapshots or Path(), every=settings.evaluate_every, kept=settings.snapshots_kept
        )
        self._folder = snapshots
        self._coordinator = ""
        self._began_s: float | None = None

    def run(self, listener: socket.socket, coordinator: str) -> None:
        """Serve until training has ended and all learners have left, or `_LEAVE_S` later."""
        self._coordinator = coordinator
        host, port = listener.getsockname()[:2]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        say(
            Kind.SYNCER_READY,
            {"address": f"{host}:{port}", **self._books.held()},
        )
        over_s = float("inf")
        while time.monotonic() < over_s and (self._stop_at is None or self._present):
            with suppress(queue.Empty):
                self._receive(*self._arrivals.get(timeout=_TICK_S))
            self._books.advance(time.monotonic())
            if self._stop_at is None and (reason := self._why_to_stop()):
                self._stop(reason)
                over_s = time.monotonic() + _LEAVE_S
        self._books.advance(float("inf"))
        say(
            Kind.SYNCER_FINAL, self._books.final(self._stop_reason, was_asked=not self._held_reason)
        )

    def ask_to_end(self) -> None:
        """Called by a handler of signals."""
        self._is_asked = True

    # ------------------------------------------------------------ what arrives

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            session = _Session(connection.makefile("rwb"))
            threading.Thread(target=self._read, args=(session,), daemon=True).start()

    def _read(self, session: _Session) -> None:
        with suppress(OSError, ValueError):  # cut off, or a line that was
            for line in session.lines:
                self._arrivals.put((session, json.loads(line)))
        self._arrivals.put((session, None))

    def _receive(self, session: _Session, said: Mapping[str, Any] | None) -> None:
        if said is None:
            self._end(session, said_goodbye=False)
        elif "ask" in said:
            session.tell(
                names=list(self._settings.learners),
                settings={**json.loads(self._settings.to_json()), **self._own},
                coordinator=self._coordinator,
                shared=str(self._shared),
                version=self._books.version,
            )
        elif "hello" in said:
            self._hello(session, said)
        elif session.who is None:
            return  # of a connection that was replaced
        elif "holds" in said:
            self._books.hold(said["holds"], said["digest"])
            self._ask_for_snapshot(session, said["holds"])
        elif "committed" in said:
            self._books.report(Report.of(session.who, said), time.monotonic())
            self._ask_for_snapshot(session, said["committed"])
        elif "goodbye" in said:
            self._end(session, said_goodbye=True)

    def _hello(self, session: _Session, said: Mapping[str, Any]) -> None:
        name = said["hello"]
        session.who = (name, said["incarnation"])
        self._present[name] = session
        epoch = self._books.join(
            name, said["incarnation"], source=said["source"], donor=said["donor"]
        )  # fmt: skip
        self._began_s = self._began_s or time.monotonic()
        session.tell(epoch=epoch, **({} if self._stop_at is None else {"stop_at": self._stop_at}))

    def _end(self, session: _Session, *, said_goodbye: bool) -> None:
        who, session.who = session.who, None
        if who is None or self._present.get(who[0]) is not session:
            return
        del self._present[who[0]]
        self._books.leave(who, said_goodbye=said_goodbye)

    def _ask_for_snapshot(self, session: _Session, version: int) -> None:
        """Of the values that this learner holds, if one is due."""
        tokens = self._books.committed_tokens
        if self._folder is not None and self._schedule.is_due(tokens):
            session.tell(
                snapshot={
                    "version": version, "committed_tokens": tokens, "folder": str(self._folder),
                }
            )  # fmt: skip
            self._schedule.written(tokens)

    # ------------------------------------------------------------ the end

    def _why_to_stop(self) -> str:
        if self._is_asked:
            return self._held_reason or "the syncer was asked to end"
        settings, books = self._settings, self._books
        passed_s = time.monotonic() - self._began_s if self._began_s else 0.0
        limits = (
            (settings.stop_rounds, books.version, "rounds"),
            (settings.stop_tokens, books.committed_tokens, "committed tokens"),
            (settings.stop_steps, books.steps, "steps"),
            (settings.stop_time_s, passed_s, "s"),
        )
        for limit, reached, unit in limits:
            if limit is not None and reached >= limit and not self._held_reason:
                self._held_reason = f"{reached:g} {unit}"
                if self._is_held:
                    say(Kind.SYNCER_HELD, {"reason": self._held_reason})
        return "" if self._is_held else self._held_reason

    def _stop(self, reason: str) -> None:
        self._stop_at, self._stop_reason = self._books.newest + _NOTICE, reason
        say(Kind.SYNCER_STOPPED, {"reason": reason})
        for session in self._present.values():
            session.tell(stop_at=self._stop_at)


def main(adapter: Adapter, arguments: Sequence[str]) -> int:
    """Run it with the flags of `python -m chaoslab.diloco.syncer`; the exit code."""
    flags = parser()
    flags.add_argument("--system-settings", default="{}", help="of the system, as JSON")
    options = flags.parse_args(arguments)
    settings = Settings.from_json(options.settings_json)
    own = json.loads(options.system_settings)
    file = options.directory / "address"
    listener = _listen(former_address(file, options.address))
    make_folder(options.directory, durable=True)
    host = listener.getsockname()[0]
    recorder = Recorder(
        settings, own, options.directory, is_held=options.hold, snapshots=options.snapshots
    )
    signal.signal(signal.SIGTERM, lambda *_: recorder.ask_to_end())
    with listener, adapter.coordinator(host, options.directory, own) as coordinator:
        with atomic_write(file, durable=True) as written:
            written.append("{}:{}".format(*listener.getsockname()[:2]).encode())
        recorder.run(listener, coordinator)
    return 0


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_server((host, int(port)))
