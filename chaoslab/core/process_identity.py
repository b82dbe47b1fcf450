"""Identity of a process, safe against reused pids and changes of the wall clock.

    pid ── identify ──► Identity: pid, start_ticks, boot_id, namespaces ── facts ──► undo log
    facts ── identity_of ──► Identity ── is_same ──► send: signals that very process, or none

The start is counted in clock ticks since the boot (field 22 of /proc/PID/stat), so the wall clock
has no influence; a process of another boot is gone. A pid is valid in its pid namespace, and ticks
in their time namespace: for a process of another namespace the state is unknown, which is an error,
not "gone".
"""

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json

NODE_MARK = "CHAOSLAB_NODE"
"""Environment variable of every node, inherited by its children: run, node and incarnation."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_EXECVE_S = 1.0
_PAUSE_S = 0.001
_IS_KERNEL_THREAD = 0x00200000
"""Flag PF_KTHREAD of the kernel."""
_IS_EXITING = 0x4
"""PF_EXITING of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity of one process."""

    pid: int
    start_ticks: int
    """Start of the process in clock ticks since the boot."""
    boot_id: str
    namespaces: str
    """Namespaces in which pid and ticks are valid."""

    @property
    def facts(self) -> dict[str, Json]:
        """Fields as `identity_of` reads them."""
        return asdict(self)


def identify(pid: int) -> Identity | None:
    """Identity of the process with this pid, zombies included; None if there is none."""
    fields = _stat(pid)
    if fields is None:
        return None
    return Identity(
        pid=pid, start_ticks=int(fields[19]), boot_id=boot_id(), namespaces=_namespaces()
    )


def is_running(pid: int) -> bool:
    """Whether the pid belongs to a process that is not a zombie."""
    fields = _stat(pid)
    return fields is not None and fields[0] != b"Z"


def wait_status(identity: Identity) -> int | None:
    """How a process ended, as `waitpid` has it, until its parent has asked for that; else None."""
    fields = _stat(identity.pid)
    is_it = fields is not None and fields[0] == b"Z" and int(fields[19]) == identity.start_ticks
    return int(fields[49]) if fields is not None and is_it else None


def is_ending(pid: int) -> bool:
    """Whether it is gone or on its way out, on which it loses its environment and files first."""
    fields = _stat(pid)
    return fields is None or bool(int(fields[6]) & _IS_EXITING)


def _stat(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat from the third on; the name before them may contain anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def cpu_s(identity: Identity) -> float:
    """CPU seconds that the process and its threads have used by now; 0 if it is gone."""
    fields = _stat(identity.pid)
    if fields is None or int(fields[19]) != identity.start_ticks:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_same(identity: Identity) -> bool:
    """Whether the pid still belongs to that process, zombies included."""
    return identify(identity.pid) == identity


def send(identity: Identity, number: int) -> bool:
    """Signal that process; False if it is gone. PermissionError if it is another user's."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # no pidfd: a pid could be reused between check and kill
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


def has_open(identity: Identity, file: Path) -> bool:
    """Whether that process has this very file open, and no copy of it; False if unreadable."""
    descriptors = f"/proc/{identity.pid}/fd"
    try:
        meant, names = file.stat(), os.listdir(descriptors)
    except OSError:
        return False
    for name in names:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(os.stat(f"{descriptors}/{name}"), meant):
                return is_same(identity)
    return False


def node_mark(pid: int) -> str | None:
    """Value of `NODE_MARK` in the environment of a process; None if it has none, is a zombie, gone,
    or another user's.

    The kernel shows no environment while execve replaces the program, so that is waited for.
    """
    deadline = time.monotonic() + _EXECVE_S
    file = Path(f"/proc/{pid}/environ")
    try:
        while not file.read_bytes() and _is_in_execve(pid) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        environment = file.read_bytes()
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)%b=([^\0]*)" % NODE_MARK.encode(), environment)
    return os.fsdecode(found[1]) if found else None


def _is_in_execve(pid: int) -> bool:
    """Whether there is no end of the environment yet (proc(5), field 51), as it is for threads of
    the kernel and for zombies at all times.
    """
    fields = _stat(pid)
    if fields is None or fields[0] in (b"Z", b"X") or int(fields[6]) & _IS_KERNEL_THREAD:
        return False
    return int(fields[48]) == 0


@cache
def boot_id() -> str:
    """Identifier of this boot of the kernel."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def identity_of(facts: Mapping[str, Json]) -> Identity:
    """Identity in the facts of an undo entry. FleetError if there is none, or if the process
    belongs to another namespace, where its state is unknown.
    """
    if not names_process(facts):
        raise FleetError(f"facts: must name a process, got {dict(facts)!r}")
    pid = int(str(facts["pid"]))
    meant = Identity(
        pid=pid,
        start_ticks=int(str(facts["start_ticks"])),
        boot_id=str(facts.get("boot_id")),
        namespaces=str(facts.get("namespaces")),
    )
    if meant.boot_id == boot_id() and meant.namespaces != _namespaces():
        raise FleetError(
            f"process {pid} belongs to another namespace ({meant.namespaces}, here "
            f"{_namespaces()}), so its state is unknown here: run chaoslab there, or, if that "
            "container is gone, remove the line"
        )
    return meant


def names_process(facts: Mapping[str, Json]) -> bool:
    """Whether facts name a process: by its pid and the ticks at which it started."""
    return all(type(facts.get(name)) is int for name in ("pid", "start_ticks"))


def has_capability(number: int) -> bool:
    """Whether this process has a capability of Linux (capabilities(7)); False on other systems."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> number & 1)


@cache
def _namespaces() -> str:
    """Namespaces as the kernel names them; some kernels have none for time."""
    links = (Path(f"/proc/self/ns/{kind}") for kind in ("pid", "time"))
    return " ".join(str(link.readlink()) for link in links if link.is_symlink())
