"""A Docker engine, asked through the Docker SDK: its containers, and what it reports of them.

    Engine = EngineConnection (how it is reached) + Stores (images, networks, volumes) + containers:
        create, start, attach, kill, pause, update, inspect, usages, events, remove

It asks and answers in plain data, keeps no state, and knows no run. Works with API 1.41 and later;
the version is negotiated.
"""

import io
import json
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.docker.engine.connection import (
    ASK_S,
    Conflict,
    DockerException,
    Missing,
    RequestException,
    is_silence,
    labelled,
)
from chaoslab.fleet.docker.engine.container_facts import ContainerSpec, Limits, MadeAs, Seen, Usage
from chaoslab.fleet.docker.engine.objects import Stores
from chaoslab.fleet.docker.engine.stream import Stream

__all__ = ["ContainerSpec", "Engine", "EventStream", "Limits", "MadeAs", "Missing", "Seen", "Usage"]

CPU_PERIOD_US: Final = 50_000
CPU_SHARES: Final = 1024
"""CPU shares of one container in the competition for cores."""
OOM_SCORE_MOST: Final = 1000
_PAUSE_S: Final = 0.05
_NOT_FROZEN: Final = "unable to freeze"
_FREEZES: Final = 5
"""Attempts to freeze a container."""
_MAY_MOUNT: Final = ("apparmor=unconfined",)
"""AppArmor's own profile for containers forbids it, whatever else they may."""


class Engine(Stores):
    """One engine. A verb raises FleetError with the request; `Missing` if the object is gone."""

    # ---------------------------------------------------------------- the engine itself

    def facts(self) -> Mapping[str, Json]:
        """Facts about the engine: Version, ApiVersion, NCPU, MemTotal, CgroupVersion and more."""
        with self._asked("for its version"):
            return {**self._client.version(), **self._client.info()}

    def machine(self, processes: int) -> Limits:
        """All cores and all memory of its machine."""
        facts = self.facts()
        cpus, memory_bytes = float(str(facts["NCPU"])), int(str(facts["MemTotal"]))
        return Limits(cpus=cpus, memory_bytes=memory_bytes, processes=processes)

    def within(self, limits: Limits) -> Limits:
        """These limits, with no more cores than its machine has: it refuses more."""
        return replace(limits, cpus=min(limits.cpus, self.machine(limits.processes).cpus))

    def events(self) -> "EventStream":
        """Events of containers and networks from now on, including those of others."""
        with self._asked("for its events"):
            own = Engine.connect(self.url)
            filters = {"type": ["container", "network"]}
            return EventStream(own._client.events(filters=filters, decode=True), own)  # noqa: SLF001

    # ---------------------------------------------------------------- containers

    def create(self, spec: ContainerSpec) -> str:
        """Make a container and return its id; nothing runs yet."""
        api, may_mount = self._client.api, "SYS_ADMIN" in spec.capabilities
        with self._asked(f"to create {spec.name}"):
            host = api.create_host_config(
                binds=[
                    f"{source}:{target}:{'ro' if source in spec.read_only else 'rw'}"
                    for source, target in spec.volumes.items()
                ],
                cpu_period=CPU_PERIOD_US,
                cpu_quota=round(spec.limits.cpus * CPU_PERIOD_US),
                mem_limit=spec.limits.memory_bytes,
                memswap_limit=spec.limits.memory_bytes,
                pids_limit=spec.limits.processes,
                network_mode=spec.network,
                init=True,
                port_bindings=(
                    None if spec.published is None else {spec.published: (self.host, None)}
                ),
                cap_drop=["ALL"],
                cap_add=list(spec.capabilities),
                sysctls=dict(spec.sysctls),
                security_opt=["no-new-privileges", *(_MAY_MOUNT if may_mount else ())],
                userns_mode="host" if may_mount else None,
                cpu_shares=CPU_SHARES * spec.share,
                oom_score_adj=OOM_SCORE_MOST if spec.is_first_to_go else None,
                log_config={"Type": "json-file", "Config": {"max-size": "16m"}},
            )
            network = (
                api.create_networking_config(
                    {spec.network: api.create_endpoint_config(aliases=list(spec.aliases))}
                )
                if spec.has_network
                else None
            )
            made = api.create_container_from_config(
                {
                    **api.create_container_config(
                        image=spec.image,
                        command=list(spec.command[1:]),
                        entrypoint=list(spec.command[:1]),
                        environment=dict(spec.environment),
                        labels=dict(spec.labels),
                        user=spec.user,
                        hostname=spec.aliases[0] if spec.aliases else None,
                        stdin_open=spec.hears,
                        host_config=host,
                        networking_config=network,
                        ports=None if spec.published is None else [spec.published],
                        detach=False,
                    ),
                    "StdinOnce": spec.hears,
                },
                spec.name,
            )
            return str(made["Id"])

    def put_archive(self, container: str, folder: str, archive: bytes) -> None:
        """Unpack a tar archive on a container's file system, whether it runs or not."""
        with self._asked(f"to write files of {container}"):
            self._client.api.put_archive(container, folder, archive)

    def read_file(self, container: str, path: str) -> bytes:
        """Content of one file of a container, whether it runs or not."""
        with self._asked(f"to read {path} of {container}"):
            pieces, _ = self._client.api.get_archive(container, path)
            packed = io.BytesIO(b"".join(pieces))
        with tarfile.open(fileobj=packed) as tar:
            member = tar.next()
            content = tar.extractfile(member) if member is not None and member.isfile() else None
            if content is None:
                raise FleetError(f"{path} of {container} is not a regular file")
            return content.read()

    def start(self, container: str) -> None:
        """Start a container that was created."""
        with self._asked(f"to start {container}"):
            self._client.api.start(container)

    def run(self, spec: ContainerSpec, within_s: float) -> str:
        """Run a container to its end; returns what it printed, and nothing of it is left."""
        try:
            self.create(spec)
            self.start(spec.name)
            if not self.wait(spec.name, within_s):
                raise FleetError(f"container {spec.name} has not ended after {within_s:g} s")
            return self.said(spec.name).strip()
        finally:
            self.remove(spec.name)

    def attach(self, container: str, *, hears: bool) -> Stream:
        """Output from now on; with `hears`, its standard input, which ends with us."""
        wanted = {"stdout": 1, "stderr": 1, "stream": 1, "stdin": int(hears)}
        with self._asked(f"to attach to {container}"):
            return Stream(self._client.api.attach_socket(container, wanted))

    def ended(self, container: str) -> str:
        """How a container has ended, as a clause; empty while it runs."""
        try:
            seen = self.inspect(container)
        except Missing:
            return f"container {container} is gone"
        return (
            ""
            if seen.is_alive
            else f"container {container} has ended with exit code {seen.exit_code}"
        )

    def inspect(self, container: str) -> Seen:
        """State of a container now."""
        with self._asked(f"to inspect {container}"):
            found = self._client.api.inspect_container(container)
        state = found["State"]
        networks = (found.get("NetworkSettings") or {}).get("Networks") or {}
        addresses = [str(one.get("IPAddress") or "") for one in networks.values()]
        return Seen(
            status=str(state["Status"]),
            pid=int(state["Pid"]),
            exit_code=int(state["ExitCode"]),
            was_out_of_memory=bool(state["OOMKilled"]),
            started_at=str(state["StartedAt"]),
            image=str(found["Image"]),
            address=next(filter(None, addresses), ""),
        )

    def reached(self, container: str, port: int) -> str:
        """host:port at which this machine reaches a port of it that was published."""
        with self._asked(f"for port {port} of {container}"):
            bound = self._client.api.port(container, port)
        if not bound:
            raise FleetError(f"port {port} of {container} was not published")
        return self.published_address(str(bound[0]["HostPort"]))

    def usages(self, container: str) -> Iterator[Usage]:
        """Usage of a container, about once a second, until it is gone.

        One answer at a time would take a second each.
        """
        api = self._client.api
        path = api._url("/containers/{0}/stats", container)  # noqa: SLF001 - as the SDK does
        asked = {"params": {"stream": True}, "stream": True, "timeout": ASK_S}
        with (
            self._asked(f"for the statistics of {container}"),
            closing(api.get(path, **asked)) as told,  # `api.stats` leaves it open
        ):
            for line in told.iter_lines():
                yield Usage.of(json.loads(line))

    def said(self, container: str, *, last: int | None = None) -> str:
        """Output until now, or its last this many lines."""
        tail = "all" if last is None else last
        with self._asked(f"for the output of {container}"):
            found = self._client.api.logs(container, stdout=True, stderr=True, tail=tail)
        return bytes(found).decode(errors="replace")

    def printed(
        self,
        container: str,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        follow: bool = False,
        with_errors: bool = False,
    ) -> Iterator[bytes]:
        """Its standard output between two times of the engine's clock, from its log.

        With `follow` also what it prints from now on, until it ends; `with_errors`: standard error,
        too.
        """
        with self._asked(f"for the output of {container}"):
            yield from self._client.api.logs(
                container, stdout=True, stderr=with_errors, stream=True,
                follow=follow, since=since_s, until=until_s,
            )  # fmt: skip

    def made_as(self, container: str) -> MadeAs:
        """Command, networks and volumes of a container."""
        with self._asked(f"to inspect {container}"):
            found = self._client.api.inspect_container(container)
        networks = (found.get("NetworkSettings") or {}).get("Networks") or {}
        return MadeAs(
            id=str(found["Id"]),
            command=(str(found["Path"]), *map(str, found.get("Args") or ())),
            networks={
                str(name): tuple(map(str, one.get("Aliases") or ()))
                for name, one in networks.items()
            },
            addresses={
                str(name): str(given)
                for name, one in networks.items()
                if (given := (one.get("IPAMConfig") or {}).get("IPv4Address"))
            },
            user=str(found["Config"].get("User") or ""),
            mounts={
                str(one["Destination"]): str(one.get("Name") or one.get("Source"))
                for one in found.get("Mounts") or ()
                if one.get("Type") in ("volume", "bind")
            },
        )

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to its first process; nothing happens to one that has ended."""
        try:
            with self._asked(f"to kill {container}"):
                self._client.api.kill(container, signal)
        except FleetError:
            with suppress(Missing):
                if self.inspect(container).is_alive:
                    raise

    def pause(self, container: str) -> None:
        """Freeze all its processes; again, if they start others meanwhile, as health checks do."""
        tries_left = _FREEZES
        while self.inspect(container).status != "paused":
            tries_left -= 1
            try:
                with self._asked(f"to pause {container}"):
                    self._client.api.pause(container)
            except FleetError as error:
                if not tries_left or _NOT_FROZEN not in str(error):
                    raise

    def unpause(self, container: str) -> None:
        """Let them go on; nothing happens to one that is not frozen."""
        with self._asked(f"to unpause {container}"):
            if self.inspect(container).status == "paused":
                self._client.api.unpause(container)

    def update(self, container: str, limits: Limits) -> None:
        """Change what it may use while it runs."""
        with self._asked(f"to update {container}"):
            self._client.api.update_container(
                container,
                cpu_period=CPU_PERIOD_US,
                cpu_quota=max(1000, round(limits.cpus * CPU_PERIOD_US)),
                mem_limit=limits.memory_bytes,
                memswap_limit=limits.memory_bytes,
            )

    def wait(self, container: str, limit_s: float) -> bool:
        """Whether it has ended within that time."""
        with suppress(Missing), self._asked(f"to wait for {container}"):
            try:
                self._client.api.wait(container, timeout=limit_s)
            except RequestException as error:
                if is_silence(error):
                    return False  # which is its answer
                raise
        return True

    def remove(self, container: str) -> bool:
        """End and remove it; whether it was there. Another client that does so is waited for."""
        remove = partial(self._client.api.remove_container, container, force=True, v=False)
        try:
            return self._is_removed(container, remove)
        except Conflict:
            self._await_removal(container)
            return True

    def names(self, labels: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        """Every container with these labels, running or not: its labels by its name."""
        with self._asked("for its containers"):
            found = self._client.api.containers(all=True, filters=labelled(labels))
        return {_name(one): dict(one["Labels"]) for one in found}

    # ---------------------------------------------------------------- inside

    def _await_removal(self, container: str) -> None:
        deadline = time.monotonic() + ASK_S
        with suppress(Missing):
            while time.monotonic() < deadline:
                self.inspect(container)
                time.sleep(_PAUSE_S)
            raise FleetError(f"{container} is being removed by another client, and still is there")


def _name(found: Mapping[str, Any]) -> str:
    """Name of a listed container; its id once its name is free, during its removal."""
    names = found.get("Names") or [found["Id"]]
    return str(names[0]).lstrip("/")


class EventStream:
    """Reports of an engine, one mapping each, until it is closed or the engine is gone."""

    def __init__(self, source: Any, engine: Engine) -> None:
        self._source, self._engine = source, engine

    def __iter__(self) -> Iterator[Mapping[str, Json]]:
        """FleetError when the engine breaks off without being asked to."""
        with self._engine._asked("for its events"):  # noqa: SLF001 - of the same module
            yield from self._source

    def close(self) -> None:
        """The iteration comes to an end."""
        with suppress(DockerException, RequestException, OSError, AttributeError, ValueError):
            self._source.close()
        with suppress(OSError, AttributeError):
            self._source._response.close()  # noqa: SLF001 - which the SDK leaves open
        self._engine.close()
