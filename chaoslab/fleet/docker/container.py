"""One incarnation of a node as a container: what it prints, its files, its end.

    create ─► attach ─► start ─► a thread reads its frames ─► queue ─► the fleet's one thread
                                    └ stderr ─► stderr.log          └► take ─► observations, finish

    nodes/<name>/<incarnation>/  command.json stdout.log stderr.log exit.json, as of a local node

It is attached to before it starts, so nothing that it prints is missed, and its standard input ends
when the harness does. The thread carries bytes and decides nothing.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.fleet.base import NodeSpec, probed
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits, Missing, Seen, Usage
from chaoslab.fleet.docker.engine.stream import STDERR
from chaoslab.fleet.docker.engine.usage import Meter
from chaoslab.fleet.docker.private_files import put_private_files
from chaoslab.fleet.docker.run_context import (
    CACHE,
    ENTRY,
    NODE,
    PRIVATE,
    SHARED,
    RunContext,
)
from chaoslab.fleet.docker.run_resources import LABEL_NODE
from chaoslab.fleet.docker.undo_facts import is_on_this_machine
from chaoslab.fleet.incarnation_files import end_by_code
from chaoslab.fleet.node_output import LOG_BYTES_MOST
from chaoslab.fleet.nodes.arrivals import Arrival
from chaoslab.fleet.nodes.incarnation import CarriedIncarnation, Incarnation

_ENDED_S: Final = 10.0
"""Longest time from the end of a container's output to its own end."""


class EngineContainer(Incarnation):
    """A container as its engine shows it, whoever has made it."""

    engine: Engine
    name: str
    _seen: Seen
    """State at its start, or when it was found."""
    _meter: Meter

    @property
    def where(self) -> str:
        return f"container {self.name}"

    @property
    def facts(self) -> Mapping[str, Json]:
        """Main process, 0 if the engine is not on this machine; container and id of its image."""
        return {
            "pid": self._seen.pid if is_on_this_machine(self.engine.url) else 0,
            "container": self.name,
            "image_id": self._seen.image,
        }

    def look(self) -> Seen | None:
        """State by the engine; None once it is gone or is not kept any more."""
        try:
            return None if self.is_over else self.engine.inspect(self.name)
        except Missing:
            return None

    def pause(self) -> None:
        """Freeze all of it."""
        self.engine.pause(self.name)

    def resume(self) -> None:
        with suppress(Missing):
            self.engine.unpause(self.name)

    def probe(self) -> Observation:
        """State and usage, by the engine's report."""
        seen = self.look()
        if seen is None or not seen.is_alive:
            return probed(self.spec.name, incarnation=self.incarnation, pid=self._seen.pid)
        used = self._meter.usage
        return probed(
            self.spec.name,
            incarnation=self.incarnation,
            pid=seen.pid,
            state="T" if seen.status == "paused" else "R",
            rss_bytes=used.memory_bytes if used else 0,
            cpu_s=used.cpu_s if used else 0.0,
        )


class Container(EngineContainer, CarriedIncarnation):
    """A started container. `is_over` once its exit was noticed."""

    undo_pause, undo_wedge = labels.UNPAUSE, labels.UNWEDGE

    def __init__(
        self, spec: NodeSpec, incarnation: int, image: str, run_context: RunContext
    ) -> None:
        """Start it. FleetError if it cannot be; then nothing is left of it."""
        super().__init__(spec, incarnation, run_context)
        self.image, self.run_context = image, run_context
        self._arrivals = run_context.arrivals
        self.engine = run_context.run_resources.engine
        self.limits = run_context.setup.limits
        """Its present limits."""
        self.name = run_context.run_resources.container(spec.name, incarnation)
        self._lost_error_bytes = 0
        self.was_out_of_memory = False
        """Whether the engine reports that it was killed out of memory."""
        self._meter = Meter(self.engine, self.name)
        self._begin()

    @property
    def facts(self) -> Mapping[str, Json]:
        return {**super().facts, "image": self.image}

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        """Engine and name of the container."""
        return {"engine": self.engine.url, "container": self.name}

    # ---------------------------------------------------------------- beginning

    def _begin(self) -> None:
        with ExitStack() as if_it_fails:
            self._errors = self._open_files(if_it_fails)
            if_it_fails.callback(self.engine.remove, self.name)
            command = self._command(NODE, PRIVATE)
            self.engine.create(self._container_spec(command))
            if self.spec.private_files:
                put_private_files(self.engine, self.name, PRIVATE, self.spec.private_files)
            self._stream = self.engine.attach(self.name, hears=self.spec.hears)
            if_it_fails.callback(self._stream.close)
            self.engine.start(self.name)
            self._seen = self.engine.inspect(self.name)
            started: dict[str, Json] = {
                "container": self.name,
                "image": self._seen.image,
                "engine": self.engine.url,
                "pid": self._seen.pid,
                "start_time": self._seen.started_s,
            }
            self._files.begun(self.spec, command, started)
            if_it_fails.pop_all()

    def follow(self) -> None:
        """Read what it prints from now on, on a thread of its own."""
        threading.Thread(target=self._carry, name=self.name, daemon=True).start()

    def _container_spec(self, command: Sequence[str]) -> ContainerSpec:
        """The container to create; the volumes it needs are made."""
        run_resources, node = self.run_context.run_resources, self.spec.name
        return ContainerSpec(
            name=self.name,
            image=self.image,
            command=(*ENTRY, *command),
            limits=self.run_context.setup.limits,
            network=run_resources.network,
            aliases=(node,),
            environment={**self.spec.environment, **self.spec.secrets, NODE_MARK: self.mark},
            labels={
                **run_resources.labels,
                LABEL_NODE: node,
                "chaoslab.incarnation": str(self.incarnation),
            },
            volumes={
                run_resources.volume(node): NODE,
                run_resources.volume("shared"): SHARED,
                run_resources.cache(): CACHE,
                **self.run_context.setup.mounts,
            },
            read_only=frozenset(self.run_context.setup.mounts),
            hears=self.spec.hears,
        )

    # ---------------------------------------------------------------- while it runs

    def _carry(self) -> None:
        """Carry output from the engine to the queue until it ends."""
        kept_bytes = 0
        while (piece := self._stream.read()) is not None:
            kind, chunk = piece
            if kind != STDERR:
                self._hand_over(Arrival(observe=partial(self.take, chunk)))
                continue
            written_bytes = 0
            with suppress(OSError, ValueError):  # a full disk, or closed: exit.json says so
                written_bytes = self._errors.write(chunk[: LOG_BYTES_MOST - kept_bytes])
            kept_bytes += written_bytes
            self._lost_error_bytes += len(chunk) - written_bytes
        self._hand_over(Arrival(observe=partial(self.finish, self._how_it_ended())))

    def _how_it_ended(self) -> dict[str, Json] | FleetError:
        """How, by the engine, once its output has ended; the error for which that is unknown."""
        try:
            if not self.engine.wait(self.name, _ENDED_S):
                return FleetError(
                    f"{self.spec.name} ({self.name}) closed its output and has not ended"
                )
            return ending_of(self.engine.inspect(self.name))
        except Missing:  # others removed it, and how it ended with it
            return {"exit_code": None, "signal": None, "out_of_memory": False}
        except FleetError as error:
            return error

    def take(self, chunk: bytes) -> list[Observation]:
        """The observations in what it printed."""
        return [] if self.is_over else self._output.take(chunk)

    @property
    def has_exited(self) -> bool:
        """Whether it ended, noticed or not."""
        seen = self.look()
        return seen is None or not seen.is_alive

    def signal(self, name: str) -> None:
        """Signal its first process; does nothing once it is over."""
        if not self.is_over:
            self.note_sent(name)
            self.engine.kill(self.name, name)

    def disconnect(self) -> None:
        """Take it from the run's network; its open connections are not closed."""
        seen, network = self.engine.inspect(self.name), self.run_context.run_resources.network
        if seen.address:
            self.open_undo(
                labels.PLUG, network=network, aliases=[self.spec.name], address=seen.address
            )
            self.engine.disconnect(network, self.name)

    def reconnect(self) -> None:
        """Connect it to the run's network again, under its name, unless it has ended."""
        if self.has_exited:
            return
        if not self.engine.inspect(self.name).address:
            network = self.run_context.run_resources.network
            self.engine.reconnect(network, self.name, [self.spec.name], "")
        self.pending_undos.close(labels.PLUG)

    def _write(self, line: bytes) -> None:
        self._stream.write(line)

    def limit(self, limits: Limits) -> None:
        """Change what it may use, while it runs."""
        if not self.is_over:
            self.engine.update(self.name, limits)
            self.limits = limits

    @property
    def usage(self) -> Usage | None:
        """Last usage reported by the engine, within a second; None before the first."""
        return self._meter.usage

    def cpu_used(self) -> tuple[float, float] | None:
        """Time of the last usage, and the CPU seconds used by then."""
        usage = self.usage
        return None if usage is None else (usage.at_s, usage.cpu_s)

    # ---------------------------------------------------------------- its end

    def finish(self, ending: dict[str, Json] | FleetError) -> list[Observation]:
        """Once it has ended: its last line, then NODE_EXITED. FleetError if that is unknown."""
        if self.is_over:
            return []
        if isinstance(ending, FleetError):
            raise ending
        self.was_out_of_memory |= bool(ending["out_of_memory"])
        ending["out_of_memory"] = self.was_out_of_memory
        last = self._output.end()
        self._release()
        lost_bytes = self._output.lost_log_bytes + self._lost_error_bytes
        return self._report_exit(last, ending, lost_bytes)

    def _close(self) -> None:
        self._stream.close()
        self._meter.close()


def ending_of(seen: Seen) -> dict[str, Json]:
    """Exit code and signal of a container that has ended, and whether memory was wanting."""
    return {**end_by_code(seen.exit_code), "out_of_memory": seen.was_out_of_memory}
