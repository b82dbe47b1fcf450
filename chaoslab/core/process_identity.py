"""Identity of a process, which neither a reused pid nor a clock that is set can blur.

    pid ── identify ──► Identity: pid, start_ticks, boot_id, namespaces ── facts ──► obligations
    facts ── meant_by ──► Identity ── is_same ──► send: it reaches that very process, or nobody

The start is counted in clock ticks since the boot (field 22 of /proc/PID/stat), so setting the wall
clock does not move it; a process of another boot is gone. A pid counts in its pid namespace, and
the ticks in their time namespace: from another one nobody can tell, which is an error, not "gone".
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import psutil

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json

NODE_MARK = "CHAOSLAB_NODE"
"""Set in every node's environment and inherited by all it starts: which run, node, incarnation."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SAME_START_S = 1.01
"""Older files date a process by the wall clock, which the kernel may correct by 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process and no other."""

    pid: int
    start_ticks: int
    """When it started: clock ticks since the boot."""
    boot_id: str
    namespaces: str
    """Those in which the pid and the ticks count."""

    @property
    def facts(self) -> dict[str, Json]:
        """It as `meant_by` reads it."""
        return asdict(self)


def identify(pid: int) -> Identity | None:
    """The process that has this pid now, zombies included; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields_from_3 = stat.rpartition(")")[2].split()  # the name in field 2 may hold anything
    return Identity(
        pid=pid, start_ticks=int(fields_from_3[19]), boot_id=boot_id(), namespaces=_namespaces()
    )


def is_same(identity: Identity) -> bool:
    """Whether the pid still belongs to that process, dead and unreaped included."""
    return identify(identity.pid) == identity


def send(identity: Identity, number: int) -> bool:
    """Whether the signal went to that process; False: it is gone. PermissionError: not ours."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # a kernel without it: a moment is left for a reused pid
        if is_same(identity):
            os.kill(identity.pid, number)
            return True
        return False
    try:
        if not is_same(identity):
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


@cache
def boot_id() -> str:
    """The boot of this kernel, which no other has."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def meant_by(facts: Mapping[str, Json]) -> Identity:
    """The process that an entry means. FleetError if it means none, or one of which nobody can
    tell from here whether it lives.
    """
    if not names_process(facts):
        raise FleetError(f"no process is meant by {dict(facts)!r}")
    pid = int(str(facts["pid"]))
    if "start_ticks" not in facts:
        return _dated(pid, float(str(facts["start_time"])), str(facts.get("mark", "")))
    meant = Identity(
        pid=pid,
        start_ticks=int(str(facts["start_ticks"])),
        boot_id=str(facts.get("boot_id")),
        namespaces=str(facts.get("namespaces")),
    )
    if meant.boot_id == boot_id() and meant.namespaces != _namespaces():
        raise FleetError(
            f"process {pid} is one of another namespace ({meant.namespaces}, here "
            f"{_namespaces()}) and cannot be known from here: call chaoslab there, or, if that "
            "container is gone, take the line out"
        )
    return meant


def names_process(facts: Mapping[str, Json]) -> bool:
    """Whether an entry names one: by ticks, or by the wall clock as earlier versions did."""
    if not _is_whole(facts.get("pid")):
        return False
    started = facts.get("start_ticks", facts.get("start_time"))
    return _is_whole(started) or ("start_ticks" not in facts and isinstance(started, float))


def _dated(pid: int, start_time: float, mark: str) -> Identity:
    """Of an older file. By its date it is known if the clock was not set since; if it does not
    agree, by the mark that each process of ours has in its environment.
    """
    now = identify(pid)
    if now is None:
        return _gone(pid)
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - start_time) <= _SAME_START_S:
            return now
        if mark:
            return now if process.environ().get(NODE_MARK) == mark else _gone(pid)
    except (psutil.Error, OSError):
        return _gone(pid)  # gone meanwhile, or another user's, which we did not start
    raise FleetError(
        f"whether process {pid} is the one that is meant cannot be told: an older version of "
        "chaoslab wrote its start by the wall clock, which was set since, or it is another: look "
        f"at it (`ps -fp {pid}`), do by hand what is left to do, and take the line out"
    )


def _gone(pid: int) -> Identity:
    """A process that there is not: none starts before the boot."""
    return Identity(pid=pid, start_ticks=-1, boot_id="", namespaces="")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _namespaces() -> str:
    """As the kernel names them; a kernel may have none for time."""
    links = (Path(f"/proc/self/ns/{kind}") for kind in ("pid", "time"))
    return " ".join(str(link.readlink()) for link in links if link.is_symlink())
