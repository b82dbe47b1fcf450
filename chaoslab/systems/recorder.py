"""Recorder: the program in the syncer's role where a system of others trains.

    learners ══ reports ══► Recorder ─► Accounts ─► member.joined, push.accepted, round.merged, …
                               │
                               └─ runs the system's own coordinator: lighthouse, DHT peer, store

It takes no part in the training. It prints what the learners report of their system: a version is
merged when all of its contributors have reported it. It ends the training by the plan's stop rule:
all stop at one version, a little after that was decided. A learner shows its token, as it does to a
syncer.
"""

import importlib
import json
import queue
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from chaoslab.core.events import Json
from chaoslab.core.payloads import StreamRefused, SyncerStopped, SyncerStopRuleMet
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.files import atomic_write, make_folder
from chaoslab.diloco.node.snapshot_schedule import SnapshotSchedule
from chaoslab.diloco.node.snapshots import SnapshotFiles
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.options import former_address, parser
from chaoslab.diloco.wire.identity import Tokens
from chaoslab.systems.accounts import LATE_S, Accounts, Report

if TYPE_CHECKING:
    from chaoslab.systems.learner import Learner


class Adapter(Protocol):
    """Interface of the adapters of systems of others, which are found by name.

    The functions of a module of this package with the name of the system.
    """

    def coordinator(
        self, host: str, folder: Path, settings: Mapping[str, Any]
    ) -> AbstractContextManager[str]:
        """Run the system's central service during a block; its HOST:PORT."""
        ...

    def train(self, learner: "Learner") -> None:
        """Train until the learner is over."""
        ...


def adapter(name: str) -> Adapter:
    """The adapter of a system; its imports are the system's."""
    return cast("Adapter", importlib.import_module(f"chaoslab.systems.{name}"))


_TICK_S = 0.1
_NOTICE = 2
"""Versions after the newest one at which all stop, so that all hear of it before."""
_LEAVE_S = 30.0
"""Time for which it waits, after the end, for a sign of learners that have not left."""
_WRITE_S = 5.0
"""Time for which it waits for a requested snapshot."""
_LISTEN_S = 20.0


@dataclass(slots=True)
class _Session:
    """One connection of a learner."""

    connection: socket.socket
    name: str = ""
    """Learner whose token it has shown; empty: none yet."""
    incarnation: int = 0
    """0 until it has said hello."""
    version: int = -1
    """Version that it holds."""

    def tell(self, **said: Json) -> None:
        with suppress(OSError):  # it went away; its end is on the way
            self.connection.sendall(json.dumps(said).encode() + b"\n")

    def end(self) -> None:
        """Take it off, as if the learner had."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Recorder:
    """One thread owns the accounts; a thread for each connection reads its lines."""

    def __init__(
        self, settings: Settings, own: Mapping[str, Json], directory: Path, tokens: Tokens
    ) -> None:
        """`own`: settings of the system. Continues the accounts that are in `directory`."""
        self._settings, self._own, self._tokens = settings, own, tokens
        self._accounts = Accounts(say, directory / "accounts.json")
        self._shared = directory.absolute() / "shared"
        make_folder(self._shared, durable=False)
        self._arrivals: queue.Queue[tuple[_Session, Mapping[str, Any] | None]] = queue.Queue()
        self._present: dict[str, _Session] = {}
        self._beginning: dict[str, float] = {}
        """Learners that have asked, and when, until they say hello."""
        self.keeps_training = self._is_asked = False
        self._stop_at: int | None = None
        self._met_rule = self._stop_reason = ""
        self._noted = self._accounts.version
        self._coordinator = ""
        self._snapshots: _Snapshots | None = None

    def keep_snapshots(self, folder: Path) -> None:
        """Ask learners for snapshots, in this folder, as the settings say."""
        settings = self._settings
        every, kept = settings.evaluate_every, settings.snapshots_kept
        schedule = SnapshotSchedule(SnapshotFiles(folder), every=every, kept=kept)
        self._snapshots = _Snapshots(folder, schedule)

    def run(self, listener: socket.socket, coordinator: str) -> None:
        """Serve until training has ended and all learners have left or given no sign."""
        self._coordinator = coordinator
        host, port = listener.getsockname()[:2]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        say(self._accounts.ready(f"{host}:{port}"))
        self._accounts.restate()
        heard_s = time.monotonic()
        while not self._is_over(time.monotonic() - heard_s):
            if self._take_all():
                heard_s = time.monotonic()
            self._accounts.advance(time.monotonic())
            self._note_merged()
            if self._stop_at is None and (reason := self._why_to_stop()):
                self._stop(reason)
        self._accounts.advance(time.monotonic() + LATE_S)
        say(self._accounts.final(self._stop_reason, was_asked=not self._met_rule))

    def ask_to_end(self) -> None:
        """Called by a handler of signals."""
        self._is_asked = True

    # ------------------------------------------------------------ arrivals

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            session = _Session(connection)
            threading.Thread(target=self._read, args=(session,), daemon=True).start()

    def _read(self, session: _Session) -> None:
        with suppress(OSError, ValueError), session.connection.makefile("rb") as lines:
            for line in lines:
                self._arrivals.put((session, json.loads(line)))
        self._arrivals.put((session, None))
        session.connection.close()

    def _take_all(self) -> bool:
        """Handle everything that has arrived; whether anything has."""
        wait_s, has_any = _TICK_S, False
        with suppress(queue.Empty):
            while True:
                session, said = self._arrivals.get(timeout=wait_s)
                wait_s, has_any = 0.0, True
                try:
                    self._receive(session, said)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    self._end(session, said_goodbye=False)
                    session.end()
                    say(_refusal(session, f"not_a_report: {error!r}"))
        return has_any

    def _receive(self, session: _Session, said: Mapping[str, Any] | None) -> None:
        if said is None:
            self._end(session, said_goodbye=False)
        elif "token" in said:
            self._admit(session, said)
        elif not session.incarnation:
            return  # of a connection that was replaced, or never showed a token
        elif "holds" in said:
            session.version = int(said["holds"])
            self._accounts.adopt(session.version, said["digest"], time.monotonic())
        elif "committed" in said:
            session.version = int(said["committed"])
            report = Report.of(session.name, session.incarnation, said)
            self._accounts.report(report, time.monotonic())
        elif "goodbye" in said:
            self._ask_for_the_last(session)
            session.tell(released=True)
            self._end(session, said_goodbye=True)

    def _admit(self, session: _Session, said: Mapping[str, Any]) -> None:
        name = self._tokens.owner(str(said["token"]))
        if name is None:
            say(_refusal(session, "wrong_token"))
            session.end()
            return
        session.name = name
        if "ask" in said:
            self._beginning[name] = time.monotonic()
            session.tell(
                name=name,
                names=list(self._settings.learners),
                settings={**json.loads(self._settings.to_json()), **self._own},
                coordinator=self._coordinator,
                shared=str(self._shared),
                version=self._accounts.version,
            )
            return
        self._beginning.pop(name, None)
        former = self._present.get(name)
        if former is not None:
            former.incarnation = 0
            former.end()
        session.incarnation = int(said["incarnation"])
        self._present[name] = session
        epoch = self._accounts.join(
            name, session.incarnation, source=said["source"], donor=said["donor"]
        )
        self._accounts.began = self._accounts.began or time.monotonic()
        stop = {} if self._stop_at is None else {"stop_at": self._stop_at}
        session.tell(epoch=epoch, noted=self._accounts.version, **stop)

    def _end(self, session: _Session, *, said_goodbye: bool) -> None:
        incarnation, session.incarnation = session.incarnation, 0
        if incarnation and self._present.get(session.name) is session:
            del self._present[session.name]
            self._accounts.leave(session.name, incarnation, said_goodbye=said_goodbye)

    # ------------------------------------------------------------ versions

    def _note_merged(self) -> None:
        """Tell the learners what they need not report again, and ask for a snapshot that is due."""
        version, tokens = self._accounts.version, self._accounts.committed_tokens
        holders = [one for one in self._present.values() if one.version == version]
        if version != self._noted:
            self._noted = version
            for session in self._present.values():
                session.tell(noted=version)
        if self._snapshots is not None and holders:
            self._snapshots.ask(holders[0], version, tokens)

    def _ask_for_the_last(self, leaving: _Session) -> None:
        """A snapshot of the end, of the last learner to leave."""
        self._accounts.advance(time.monotonic())
        is_last = len(self._present) == 1 and leaving.version == self._accounts.version
        if self._snapshots is not None and is_last:
            tokens = self._accounts.committed_tokens
            self._snapshots.ask(leaving, leaving.version, tokens, is_last=True)

    # ------------------------------------------------------------ the end

    def _is_over(self, silent_s: float) -> bool:
        if self._stop_at is None:
            return False
        now_s = time.monotonic()
        is_awaited = any(now_s - asked_s < _LEAVE_S for asked_s in self._beginning.values())
        return silent_s >= _LEAVE_S or not (self._present or is_awaited)

    def _why_to_stop(self) -> str:
        if self._is_asked:
            return self._met_rule or "the syncer was asked to end"
        settings, accounts = self._settings, self._accounts
        passed_s = time.monotonic() - accounts.began if accounts.began else 0.0
        limits = (
            (settings.stop_rounds, accounts.version, "rounds"),
            (settings.stop_tokens, accounts.committed_tokens, "committed tokens"),
            (settings.stop_steps, accounts.steps, "steps"),
            (settings.stop_time_s, passed_s, "s"),
        )
        for limit, reached, unit in limits:
            if limit is not None and reached >= limit and not self._met_rule:
                self._met_rule = f"{reached:.0f} {unit}"
                if self.keeps_training:
                    say(SyncerStopRuleMet(reason=self._met_rule))
        return "" if self.keeps_training else self._met_rule

    def _stop(self, reason: str) -> None:
        self._stop_at, self._stop_reason = self._accounts.newest + _NOTICE, reason
        say(SyncerStopped(reason=reason))
        for session in self._present.values():
            session.tell(stop_at=self._stop_at)


class _Snapshots:
    """Snapshots that learners write, one at a time."""

    def __init__(self, folder: Path, schedule: SnapshotSchedule) -> None:
        self._folder, self._schedule = folder, schedule
        self._asked: tuple[int, float] | None = None  # tokens, when
        self._written = -1

    def ask(self, holder: _Session, version: int, tokens: int, *, is_last: bool = False) -> None:
        """Ask for one of this version, if it is due and none is on the way."""
        self._note_written()
        asked_tokens, asked_s = self._asked or (-1, 0.0)
        is_on_the_way = time.monotonic() - asked_s < _WRITE_S
        if tokens <= max(self._written, asked_tokens if is_on_the_way else -1):
            return
        if is_last or (self._schedule.is_due(tokens) and not (self._asked and is_on_the_way)):
            asked: dict[str, Json] = {
                "version": version, "committed_tokens": tokens, "folder": str(self._folder),
            }  # fmt: skip
            holder.tell(snapshot=asked)
            self._asked = tokens, time.monotonic()

    def _note_written(self) -> None:
        if self._asked is None:
            return
        tokens, _ = self._asked
        if (self._folder / f"{tokens:015d}.npz").exists():
            self._written, self._asked = tokens, None
            self._schedule.written(tokens)


def main(adapter: Adapter, arguments: Sequence[str]) -> int:
    """Run it with the flags of `python -m chaoslab.diloco.syncer`; the exit code."""
    flags = parser()
    flags.add_argument("--system-settings", default="{}", help="of the system, as JSON")
    options = flags.parse_args(arguments)
    settings = Settings.from_json(options.settings_json)
    own = json.loads(options.system_settings)
    make_folder(options.directory, durable=True)
    tokens = Tokens.load_or_create(
        options.tokens or options.directory / "tokens", settings.learners
    )
    file = options.directory / "address"
    listener = _listen(former_address(file, options.address))
    host = listener.getsockname()[0]
    recorder = Recorder(settings, own, options.directory, tokens)
    recorder.keeps_training = options.keep_training
    if options.snapshots is not None:
        recorder.keep_snapshots(options.snapshots)
    signal.signal(signal.SIGTERM, lambda *_: recorder.ask_to_end())
    with listener, adapter.coordinator(host, options.directory, own) as coordinator:
        with atomic_write(file, durable=True) as written:
            written.append("{}:{}".format(*listener.getsockname()[:2]).encode())
        recorder.run(listener, coordinator)
    return 0


def _listen(address: str) -> socket.socket:
    """The former port may be in use for a moment; OSError if it is for longer."""
    host, _, port = address.rpartition(":")
    until_s = time.monotonic() + _LISTEN_S
    while True:
        try:
            return socket.create_server((host, int(port)))
        except OSError:
            if time.monotonic() >= until_s:
                raise
            time.sleep(_TICK_S)


def _refusal(session: _Session, reason: str) -> StreamRefused:
    return StreamRefused(reason=reason, peer="", claimed=session.name, known_as="", count=1)
