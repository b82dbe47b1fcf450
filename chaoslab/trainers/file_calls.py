"""Operations on files of a tree of processes, each stopped before the kernel carries it out.

    command ─ spawn guard ─ call filter ─► process tree ══ ptrace ══► Traced.next_call() ─► FileCall
                                                 ▲                            │ None: nothing now
                                                 └── goes on at the next call ┘

All threads and children are traced, and the kernel kills them when the tracer ends. `strace` cannot
stop at the n-th operation of a save: its `when=` counts for each thread and each call alone, from
the start of the process, whatever the file.

Not seen: writes to a mapped file and io_uring (both are reported as such where they begin), files
changed by a process outside of the tree or by a program of another architecture.
"""

import ctypes
import mmap
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from chaoslab.core.errors import AbilityError
from chaoslab.core.spawning import Gate

BLIND: Final = {
    "mmap": "a file that is mapped for writing",
    "io_uring_setup": "files that io_uring writes",
}
"""Calls after which files may change without one."""
_FILTER = Path(__file__).with_name("call_filter.py")
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Architecture number in a filter, and index into `_Call.numbers`, by machine."""
_AT_FDCWD = -100
_IDLE_S = (0.0, 0.002)
_TEST_S = 60.0
_REMEDY = (
    "it needs Linux 5.3 on x86_64 or aarch64, /proc/sys/kernel/yama/ptrace_scope below 2, and in a "
    "container --cap-add SYS_PTRACE"
)


class _Call(NamedTuple):
    name: str
    numbers: tuple[int, int]
    """System call numbers on x86_64 and aarch64; -1: it does not exist there."""
    files: tuple[tuple[str, int], ...] = (("fd", 0),)
    """Arguments that name files: `fd`, `path`, or `at`: a folder's descriptor and a path."""
    flags: tuple[int, int] | None = None
    """Argument and bits, one of which must be set: otherwise the call changes no file."""


_PATH, _AT = (("path", 0),), (("at", 0),)
_CALLS = (
    _Call("open", (2, -1), _PATH, (1, os.O_CREAT | os.O_TRUNC)),
    _Call("creat", (85, -1), _PATH),
    _Call("openat", (257, 56), _AT, (2, os.O_CREAT | os.O_TRUNC)),
    _Call("write", (1, 64)),
    _Call("pwrite64", (18, 68)),
    _Call("writev", (20, 66)),
    _Call("pwritev", (296, 70)),
    _Call("pwritev2", (328, 287)),
    _Call("sendfile", (40, 71)),
    _Call("copy_file_range", (326, 285), (("fd", 2),)),
    _Call("splice", (275, 76), (("fd", 2),)),
    _Call("truncate", (76, 45), _PATH),
    _Call("ftruncate", (77, 46)),
    _Call("fallocate", (285, 47)),
    _Call("fsync", (74, 82)),
    _Call("fdatasync", (75, 83)),
    _Call("rename", (82, -1), (("path", 0), ("path", 1))),
    _Call("renameat", (264, 38), (("at", 0), ("at", 2))),
    _Call("renameat2", (316, 276), (("at", 0), ("at", 2))),
    _Call("link", (86, -1), (("path", 0), ("path", 1))),
    _Call("linkat", (265, 37), (("at", 0), ("at", 2))),
    _Call("symlink", (88, -1), (("path", 1),)),
    _Call("symlinkat", (266, 36), (("at", 1),)),
    _Call("unlink", (87, -1), _PATH),
    _Call("unlinkat", (263, 35), _AT),
    _Call("mkdir", (83, -1), _PATH),
    _Call("mkdirat", (258, 34), _AT),
    _Call("rmdir", (84, -1), _PATH),
    _Call("mmap", (9, 222), (("fd", 4),), (3, mmap.MAP_SHARED)),
    _Call("io_uring_setup", (425, 425), ()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """A system call that is about to change, or to synchronize, a file below the folder."""

    call: str
    file: str
    """Relative to the folder; of two, the new name."""


class Traced:
    """A command, started and traced; all of it is killed at the end of the `with` block.

    To be used by one thread, which waits for no other child meanwhile. AbilityError if this machine
    does not let processes be traced.
    """

    def __init__(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str],
        output: Path,
    ) -> None:  # fmt: skip
        """`folder`: only calls on files below it are reported. `output`: file of all its output."""
        self.exit_code: int | None = None
        """Exit code of the command, once it has ended; negative: a signal."""
        self._folder = os.path.realpath(folder)
        self._command, self._environment, self._output = command, environment, output
        self._seen = set[int]()
        """Threads that are traced."""
        self._stopped: int | None = None
        """The thread that stands before the call that was reported last."""
        self._idle = 0

    def __enter__(self) -> Self:
        architecture, column = _ARCHITECTURES.get(platform.machine(), (0, 0))
        if sys.platform != "linux" or not architecture:
            raise AbilityError(f"processes cannot be traced on this machine: {_REMEDY}")
        self._calls = {call.numbers[column]: call for call in _CALLS if call.numbers[column] >= 0}
        calls = [":".join(map(str, (n, *(call.flags or ())))) for n, call in self._calls.items()]
        words = (sys.executable, "-I", "-S", str(_FILTER), str(architecture), ",".join(calls))
        with closing(Gate()) as gate, self._output.open("wb") as output:
            self._process = subprocess.Popen(
                gate.guarded([*words, *self._command]), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, env={**os.environ, **self._environment},
                pass_fds=(gate.read_end,), process_group=0,
            )  # fmt: skip
            self._seen.add(self._process.pid)
            try:
                _ptrace(_SEIZE, self._process.pid, 0, _OPTIONS)
            except OSError as error:
                self._process.kill()
                self._process.wait()
                raise AbilityError(
                    f"processes cannot be traced ({error.strerror}): {_REMEDY}"
                ) from error
            gate.go()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all that are traced, where they stand, and wait for their end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # those not heard of yet, too
        while self._seen:
            for thread in self._seen:
                with suppress(ProcessLookupError):
                    os.kill(thread, signal.SIGKILL)
            try:
                thread, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                break
            self._note(thread, status)
        self._process.returncode = -signal.SIGKILL if self.exit_code is None else self.exit_code

    def next_call(self) -> FileCall | None:
        """The next call, before it is carried out; None if there is none for a moment, or none any
        more. The call that was reported before is carried out first.
        """
        if self._stopped is not None:
            self._go_on(self._stopped)
            self._stopped = None
        try:
            thread, status = os.waitpid(-1, _WALL | os.WNOHANG)
        except ChildProcessError:
            return None
        if not thread:
            self._idle += 1
            time.sleep(_IDLE_S[self._idle > _SPINS])
            return None
        self._idle = 0
        event = self._note(thread, status)
        if event is None:
            return None
        call = self._read(thread) if event == _EVENT_SECCOMP else None
        if call is not None:
            self._stopped = thread
            return call
        stop = os.WSTOPSIG(status)
        if event == _EVENT_STOP and stop != signal.SIGTRAP:
            with suppress(ProcessLookupError):
                _ptrace(_LISTEN, thread, 0, 0)  # somebody stopped the process
        else:
            self._go_on(thread, 0 if event else stop)
        return None

    def _note(self, thread: int, status: int) -> int | None:
        """Event of a thread that stopped, 0 for a signal; None for one that ended."""
        if os.WIFSTOPPED(status):
            if status >> 16 == _EVENT_EXEC:
                self._forget_former(thread)
            self._seen.add(thread)
            return status >> 16
        self._seen.discard(thread)
        if thread == self._process.pid:
            self.exit_code = os.waitstatus_to_exitcode(status)
        return None

    def _forget_former(self, thread: int) -> None:
        """A thread that executes a program gets the number of its process; its own becomes free."""
        former = ctypes.c_ulong()
        with suppress(ProcessLookupError):  # it was killed
            _ptrace(_GET_EVENT_MESSAGE, thread, 0, ctypes.addressof(former))
            self._seen.discard(former.value)

    def _go_on(self, thread: int, with_signal: int = 0) -> None:
        with suppress(ProcessLookupError):  # it was killed
            _ptrace(_CONT, thread, 0, with_signal)

    # ---------------------------------------------------------------- what a call is about

    def _read(self, thread: int) -> FileCall | None:
        """The call before which a thread stands; None if it changes no file below the folder."""
        buffer = ctypes.create_string_buffer(88)
        with suppress(OSError):  # it was killed
            _ptrace(_GET_SYSCALL_INFO, thread, len(buffer), ctypes.addressof(buffer))
            number, *arguments = struct.unpack_from("7Q", buffer, 24)
            call = self._calls[number]
            if call.name == "mmap" and not arguments[2] & mmap.PROT_WRITE:
                return None
            if not call.files:
                return FileCall(call=call.name, file="")
            paths = [_named(thread, kind, arguments[at:]) for kind, at in call.files]
            if any(f"{path}/".startswith(f"{self._folder}/") for path in paths):
                return FileCall(call=call.name, file=os.path.relpath(paths[-1], self._folder))
        return None


def _named(thread: int, kind: str, arguments: Sequence[int]) -> str:
    """The absolute path that an argument names. OSError if the thread is gone."""
    if kind == "fd":
        return _open_file(thread, arguments[0]).removesuffix(" (deleted)")
    given = os.fsdecode(_text(thread, arguments[kind == "at"]))
    if not given.startswith("/"):
        folder = ctypes.c_int(arguments[0]).value if kind == "at" else _AT_FDCWD
        given = f"{_open_file(thread, folder)}/{given}"
    folder_of, name = os.path.split(given.rstrip("/"))
    return os.path.normpath(f"{os.path.realpath(folder_of)}/{name}")


def _open_file(thread: int, number: int) -> str:
    number = ctypes.c_int(number).value
    if number == _AT_FDCWD:
        return os.readlink(f"/proc/{thread}/cwd")
    try:
        return os.readlink(f"/proc/{thread}/fd/{number}")
    except FileNotFoundError:
        return ""  # no open file: the call will fail


def _text(thread: int, address: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), 4096, address).partition(b"\0")[0]


def why_not() -> str:
    """Why processes cannot be traced on this machine, and what to do; empty if they can.

    Asked by a thread of its own, so that other children of this process are not waited for.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_why_not).result()


def _why_not() -> str:
    test = Traced(["true"], folder=Path("/"), environment={}, output=Path(os.devnull))
    until_s = time.monotonic() + _TEST_S
    try:
        with test:
            while test.exit_code is None and time.monotonic() < until_s:
                test.next_call()
    except AbilityError as error:
        return error.message
    return "" if test.exit_code == 0 else f"a traced process does not run: {_REMEDY}"


# ---------------------------------------------------------------- the system call

_CONT, _GET_EVENT_MESSAGE, _SEIZE, _LISTEN, _GET_SYSCALL_INFO = 7, 0x4201, 0x4206, 0x4208, 0x420E
_OPTIONS = 0x02 | 0x04 | 0x08 | 0x10 | 0x80 | 0x100000
"""Trace what fork, vfork and clone make; report exec and seccomp; kill all when the tracer ends."""
_EVENT_EXEC, _EVENT_SECCOMP, _EVENT_STOP = 4, 7, 128
_WALL = 0x40000000 | 0x20000000
"""Any child of this thread, and whatever it traces."""
_SPINS = 200
"""Looks without a pause: calls of a save follow each other closely."""


def _ptrace(request: int, thread: int, address: int, data: int) -> None:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    ptrace.restype = ctypes.c_long
    if ptrace(request, thread, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
