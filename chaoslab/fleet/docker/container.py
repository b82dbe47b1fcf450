"""One incarnation of a node as a container: what it prints, its files, its end.

    create ─► attach ─► start ─► a thread reads its frames ─► queue ─► the fleet's one thread
                                    └ stderr ─► stderr.log          └► take ─► sightings, finish

    nodes/<name>/<incarnation>/  command.json stdout.log stderr.log exit.json, as of a local node

It is attached to before it starts, so nothing that it prints is missed, and its standard input ends
when the harness does. The thread carries bytes and decides nothing.
"""

import json
import queue
import signal
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from chaoslab.clock import Clock
from chaoslab.errors import FleetError
from chaoslab.events import Json, Kind, encode
from chaoslab.fleet.base import NODE_MARK, NodeSpec, Sighting, probed
from chaoslab.fleet.debts import Debts
from chaoslab.fleet.docker.engine import ContainerSpec, Limits, Missing, Seen, Usage
from chaoslab.fleet.docker.estate import HOME, LABEL_NODE, Estate
from chaoslab.fleet.docker.stream import STDERR
from chaoslab.fleet.output import LOG_BYTES_MOST, NodeOutput

NODE: Final = f"{HOME}/node"
SHARED: Final = f"{HOME}/shared"
CACHE: Final = f"{HOME}/cache"
_ENTRY: Final = ("/bin/sh", "-c", "trap '' USR1 USR2 HUP; exec \"$@\"", "node")
"""The hooks do nothing to a program until it takes them up, as with a local node."""
_ENDED_S: Final = 10.0
"""How long an engine may take to say that a container has ended whose output has."""
_SIGNALS: Final = 128
"""Exit codes above it tell a signal, as shells and engines have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yard:
    """What all containers of a run share."""

    estate: Estate
    clock: Clock
    limits: Limits
    mounts: Mapping[str, str]
    """Folders of this machine that every node may read, and where it sees them."""
    arrivals: "queue.Queue[Arrival]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something for the fleet's thread: bytes, the end of a container's output, or a report."""

    life: "Container | None" = None
    chunk: bytes | None = None
    report: Sighting | None = None
    error: FleetError | None = None


class Container:
    """A started container. `is_over` once its exit was noticed."""

    def __init__(self, spec: NodeSpec, incarnation: int, image: str, yard: Yard) -> None:
        """Start it. FleetError if it cannot be; then nothing is left of it but its files."""
        self.spec, self.incarnation, self.image = spec, incarnation, image
        self.is_ending = False
        """It was told to end."""
        self.is_paused = False
        self.is_over = False
        self.limits = yard.limits
        """What it may use now."""
        self.name = yard.estate.container(spec.name, incarnation)
        self._yard, self._engine = yard, yard.estate.engine
        self.debts = Debts(yard.estate.obligations)
        home = yard.estate.run_directory / "nodes" / spec.name
        self._directory = home / str(incarnation)
        self._is_closing = False
        self.was_out_of_memory = False
        """That it was killed for want of memory, by the engine's word."""
        self._usage: Usage | None = None
        self._is_measured = False
        self._begin()

    # ---------------------------------------------------------------- beginning

    def _begin(self) -> None:
        try:
            self._directory.mkdir(parents=True)
            self._log = (self._directory / "stdout.log").open("wb", buffering=0)
            self._errors = (self._directory / "stderr.log").open("wb", buffering=0)
        except OSError as error:
            raise FleetError(f"{self.spec.name} cannot be started: {error}") from error
        self._output = NodeOutput(node=self.spec.name, role=self.spec.role, log=self._log)
        command = self._command()
        with ExitStack() as if_it_fails:
            if_it_fails.callback(self._log.close)
            if_it_fails.callback(self._errors.close)
            if_it_fails.callback(self._engine.remove, self.name)
            self._engine.create(self._as_asked(command))
            self._stream = self._engine.attach(self.name, hears=self.spec.hears)
            if_it_fails.callback(self._stream.close)
            self._engine.start(self.name)
            self._seen = self._engine.inspect(self.name)
            self._write_down(command)
            if_it_fails.pop_all()
        threading.Thread(target=self._carry, name=self.name, daemon=True).start()

    def _command(self) -> tuple[str, ...]:
        filled = {"{incarnation}": str(self.incarnation), "{directory}": NODE}
        words = []
        for word in self.spec.command:
            for mark, value in filled.items():
                word = word.replace(mark, value)  # noqa: PLW2901 - both may be in one word
            words.append(word)
        return tuple(words)

    def _as_asked(self, command: tuple[str, ...]) -> ContainerSpec:
        estate, name = self._yard.estate, self.spec.name
        mark = f"{estate.run_directory}/{name}/{self.incarnation}"
        return ContainerSpec(
            name=self.name,
            image=self.image,
            command=(*_ENTRY, *command),
            limits=self.limits,
            network=estate.network,
            aliases=(name,),
            environment={**self.spec.environment, NODE_MARK: mark},
            labels={
                **estate.labels,
                LABEL_NODE: name,
                "chaoslab.incarnation": str(self.incarnation),
            },
            volumes={
                estate.volume(name): NODE,
                estate.volume("shared"): SHARED,
                estate.cache(): CACHE,
                **self._yard.mounts,
            },
            read_only=frozenset(self._yard.mounts),
            hears=self.spec.hears,
        )

    def _write_down(self, command: tuple[str, ...]) -> None:
        self._write(
            "command.json",
            {
                "argv": list(command),
                "environment": dict(self.spec.environment),
                "container": self.name,
                "image": self._seen.image,
                "engine": self._engine.url,
                "pid": self._seen.pid,
                "start_time": _epoch_s(self._seen.started_at),
                "started_s": self._yard.clock.now_s(),
                "wall": self._yard.clock.wall(),
            },
        )

    def started(self) -> Sighting:
        """That it began."""
        return Sighting(
            source=self.spec.name,
            kind=Kind.NODE_STARTED,
            data={
                "node": self.spec.name,
                "role": self.spec.role.value,
                "incarnation": self.incarnation,
                "pid": self._seen.pid,
                "start_time": _epoch_s(self._seen.started_at),
                "labels": dict(self.spec.labels),
                "container": self.name,
                "image": self.image,
                "image_id": self._seen.image,
            },
        )

    # ---------------------------------------------------------------- while it lives

    def _carry(self) -> None:
        """On a thread of its own: from the engine to the queue, until the output ends."""
        lost_bytes, kept_bytes = 0, 0
        while (piece := self._stream.read()) is not None:
            kind, chunk = piece
            if kind != STDERR:
                self._hand_over(Arrival(life=self, chunk=chunk))
                continue
            try:
                kept_bytes += self._errors.write(chunk[: LOG_BYTES_MOST - kept_bytes])
            except (OSError, ValueError):  # a full disk, or closed: the run goes on
                lost_bytes += len(chunk)
        self._hand_over(Arrival(life=self))

    def _hand_over(self, arrival: Arrival) -> None:
        """As much as the fleet takes in; then the node is held up, as by a full pipe."""
        while not self._is_closing:
            with suppress(queue.Full):
                self._yard.arrivals.put(arrival, timeout=0.5)
                return

    def take(self, chunk: bytes) -> list[Sighting]:
        """The sightings in what it printed."""
        return [] if self.is_over else self._output.take(chunk)

    def look(self) -> Seen | None:
        """It as the engine shows it; None once it is gone or nobody keeps it any more."""
        try:
            return None if self.is_over else self._engine.inspect(self.name)
        except Missing:
            return None

    @property
    def has_exited(self) -> bool:
        """Whether it ended, noticed or not."""
        seen = self.look()
        return seen is None or not seen.is_alive

    def signal(self, name: str) -> None:
        """To its first process; nothing once it is over."""
        if not self.is_over:
            self._engine.kill(self.name, name)

    def tell(self, facts: Mapping[str, Json]) -> None:
        """One line on its standard input; FleetError if nobody reads there."""
        if not self.spec.hears:
            raise FleetError(f"{self.spec.name} was started without test hooks")
        try:
            self._stream.write(encode(facts).encode() + b"\n")
        except OSError as error:
            raise FleetError(f"{self.spec.name} does not take in what it is told") from error

    def owe(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write down, before it is held up in some way, how it is let go again."""
        self.debts.owe(do, whose, engine=self._engine.url, container=self.name, **facts)

    @property
    def yard_limits(self) -> Limits:
        """What it may use when nothing is upon it."""
        return self._yard.limits

    def limit(self, limits: Limits) -> None:
        """Change what it may use, while it runs."""
        if not self.is_over:
            self._engine.update(self.name, limits)
            self.limits = limits

    @property
    def usage(self) -> Usage | None:
        """What it used when the engine said so last, within a second; None until it has."""
        if not self._is_measured:
            self._is_measured = True
            threading.Thread(target=self._measure, name=f"{self.name} use", daemon=True).start()
        return self._usage

    def cpu_used(self) -> tuple[float, float] | None:
        """When the engine said so last, and the CPU seconds it had used by then."""
        usage = self.usage
        return None if usage is None else (usage.at_s, usage.cpu_s)

    def _measure(self) -> None:
        """On a thread of its own, until it is gone. That nobody answers shows elsewhere first."""
        with suppress(FleetError):
            for usage in self._engine.usages(self.name):
                if self._is_closing:
                    return
                self._usage = usage

    def probe(self) -> Sighting:
        """Its state and what it uses, by the engine's own word."""
        seen = self.look()
        if seen is None or not seen.is_alive:
            return probed(
                self.spec.name, incarnation=self.incarnation, pid=self._seen.pid, state="gone"
            )
        used = self.usage or Usage(memory_bytes=0, cpu_s=0.0)
        return probed(
            self.spec.name,
            incarnation=self.incarnation,
            pid=seen.pid,
            state="T" if seen.status == "paused" else "R",
            rss_bytes=used.memory_bytes,
            cpu_s=used.cpu_s,
        )

    # ---------------------------------------------------------------- its end

    def finish(self) -> list[Sighting]:
        """Once its output has ended: its last line, then NODE_EXITED."""
        if self.is_over:
            return []
        last = self._output.end()
        try:
            if not self._engine.wait(self.name, _ENDED_S):
                raise FleetError(
                    f"{self.spec.name} ({self.name}) says nothing more and has not ended"
                )
            seen = self._engine.inspect(self.name)
            self.was_out_of_memory = seen.was_out_of_memory
            ending = self._ending(seen)
        except Missing:  # somebody else removed it, and how it ended with it
            ending = {"exit_code": None, "signal": None, "out_of_memory": False}
        self.is_over = True
        self._release()
        ending = {**ending, "refused_lines": self._output.refused_lines}
        self._note_exit(ending)
        who: dict[str, Json] = {
            "node": self.spec.name,
            "incarnation": self.incarnation,
            "pid": self._seen.pid,
        }
        exited = Sighting(source=self.spec.name, kind=Kind.NODE_EXITED, data={**who, **ending})
        return [*last, exited]

    def abandon(self) -> None:
        """Nobody listens to it any more."""
        if not self.is_over:
            self.is_over = True
            self._release()

    def _release(self) -> None:
        self._is_closing = True
        self._stream.close()
        self._log.close()
        self._errors.close()
        self.debts.settle_all()

    @staticmethod
    def _ending(seen: Seen) -> dict[str, Json]:
        by_signal = _SIGNALS < seen.exit_code < _SIGNALS + 65
        return {
            "exit_code": None if by_signal else seen.exit_code,
            "signal": _signal_name(seen.exit_code - _SIGNALS) if by_signal else None,
            "out_of_memory": seen.was_out_of_memory,
        }

    def _note_exit(self, ending: Mapping[str, Json]) -> None:
        clock = self._yard.clock
        facts: dict[str, Json] = {
            **ending,
            "lost_log_bytes": self._output.lost_log_bytes,
            "exited_s": clock.now_s(),
            "wall": clock.wall(),
        }
        try:
            self._write("exit.json", facts)
        except OSError as error:
            raise FleetError(f"the end of {self.spec.name} cannot be recorded: {error}") from error

    def _write(self, name: str, facts: Mapping[str, Json]) -> None:
        (self._directory / name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _epoch_s(stamp: str) -> float:
    """Seconds since the epoch of an engine's time, which has nine digits after the point."""
    whole, _, rest = stamp.partition(".")
    digits = rest.rstrip("Z")[:6] or "0"
    try:
        return datetime.fromisoformat(f"{whole.rstrip('Z')}.{digits:0<6}+00:00").timestamp()
    except ValueError:
        return 0.0
