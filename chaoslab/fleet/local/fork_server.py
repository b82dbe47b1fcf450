"""Fork server: a process that has imported a program and forks the nodes that run it.

                            fork server ─ fork ─► in between ─ fork ─► spare
    harness ── argv, environment + stdin, stdout, stderr, gate ─────────►│
       ▲                                           exits                 ▼
       └─ adopts ◄───────────────── pid ────────────── node: own group, own environment
                                 waits for "go" on the gate ─► runs the program

Run as `python -m chaoslab.fleet.local.fork_server SOCKET PARENT MODULE ROOM` behind the spawn
guard, with the environment of the nodes. It imports MODULE, opens no device and starts no thread:
a fork of a process with threads may deadlock, so it ends if an import started one. It ends with its
socket.

A node is forked twice, so that the kernel gives it to the harness as a child once the process in
between exits (the harness must be a subreaper meanwhile). Both forks happen before a node is asked
for: they take longer than the rest, and the harness waits for the answer. From the answer on
everything holds that the spawn guard ensures: the node leads a process group, has its mark in its
environment, runs nothing before "go", and dies with the harness. `/proc` shows the environment and
the command line that a process was executed with, and the mark of a node is looked for there: both
are overwritten in place, in the room that the last argument and the variable of that name provide.
"""

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoslab.core.spawn_guard import (
    HARNESS_GONE,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    ask_the_kernel,
    ignore_hooks,
)

ROOM = "CHAOSLAB_ROOM"
"""Environment variable that is as long as what is added to the environment of a node."""
MESSAGE_BYTES = 128 << 10
_ARG_START = 45
"""Place of arg_start (field 48 of /proc/PID/stat) behind the name; arg_end and env follow."""


class HasThreads(Exception):
    """The imports started threads."""


def serve(control: socket.socket, parent: int, module: str) -> Sequence[str] | None:
    """Fork nodes until the control socket ends; None then. In a node: its module and flags."""
    ask_the_kernel(PR_SET_CHILD_SUBREAPER, 0)
    began_s = time.process_time()
    preload(module)
    if len(os.listdir("/proc/self/task")) > 1:
        raise HasThreads(f"importing {module} started threads: it cannot be forked")
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"imports_cpu_s": time.process_time() - began_s}).encode())
    while True:
        spare = _fork_spare(control)
        if isinstance(spare, socket.socket):
            return _become_node(spare, parent)
        message, handles, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not message:
            return None
        pid = spare.hand_over(message, handles)
        try:
            control.send(json.dumps({"pid": pid}).encode())
        except ConnectionError:  # too late: the harness has closed the gate, so the spare exits
            return None


class _Spare:
    """A fork that waits to become a node, as the server sees it."""

    def __init__(self, channel: socket.socket, hold: int, between: int) -> None:
        """The process in between ends once `hold` is closed."""
        self._channel, self._hold, self._between = channel, hold, between

    def hand_over(self, request: bytes, handles: Sequence[int]) -> int:
        """Let it become the node of this request and a child of the harness: its pid, 0 if it
        died. `handles` are closed.
        """
        socket.send_fds(self._channel, [request], handles)
        for handle in (*handles, self._hold):
            os.close(handle)
        os.waitpid(self._between, 0)  # from here on the node is the harness's child
        with self._channel:
            return int(self._channel.recv(32) or 0)


def _fork_spare(control: socket.socket) -> _Spare | socket.socket:
    """The spare; in the spare itself, the channel on which its request comes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held, hold = os.pipe()
    between = os.fork()
    if between:
        theirs.close()
        os.close(held)
        return _Spare(ours, hold, between)
    for end in (control, ours):
        end.close()
    os.close(hold)
    if os.fork():
        theirs.close()
        os.read(held, 1)
        os._exit(0)
    os.close(held)
    return theirs


def preload(module: str) -> None:
    """Import what `python -m module` imports, but not the module that it runs."""
    found = importlib.util.find_spec(module)
    is_package = found is not None and found.submodule_search_locations is not None
    main = f"{module}.__main__" if is_package else module
    importlib.import_module(main)
    del sys.modules[main]  # it is run under another name


# ---------------------------------------------------------------- in the node


def _become_node(channel: socket.socket, parent: int) -> Sequence[str]:
    """Wait for a request and take up its node, up to "go": the module and its flags.

    The end of the server before that is the end of the spare.
    """
    with channel:
        message, handles, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 4)
        if not message:
            os._exit(0)
        request = json.loads(message)
        _become(request, handles[:3])
        channel.send(str(os.getpid()).encode())
    _await_go(handles[3], parent)
    return [str(word) for word in request["argv"]][2:]  # without the interpreter and -m


def _become(request: Mapping[str, object], handles: Sequence[int]) -> None:
    """Take up the node's process group, standard files and environment."""
    os.setpgid(0, 0)
    ask_the_kernel(PR_SET_CHILD_SUBREAPER, 1)
    ignore_hooks()
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    argv, environment = request["argv"], request["environment"]
    if not isinstance(argv, list) or not isinstance(environment, dict):
        raise TypeError("a request must have argv and environment")
    os.environ.clear()
    ctypes.CDLL(None).clearenv()  # nothing may point to what is overwritten
    os.environ.update(environment)
    _show(argv, environment)
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()  # else all nodes would share one state


def _await_go(gate: int, parent: int) -> None:
    """Wait until the harness has recorded how to undo the start; end if it is gone."""
    is_told = os.read(gate, 1) == b"g"
    os.close(gate)
    ask_the_kernel(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not is_told or os.getppid() != parent:
        os._exit(HARNESS_GONE)


def _show(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Let /proc show this command line and environment, as far as there is room.

    A command line whose last byte is not 0 is shown up to its first 0, as after setproctitle(3).
    """
    fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
    arguments, end, variables, variables_end = map(int, fields[_ARG_START : _ARG_START + 4])
    title = b" ".join(map(os.fsencode, argv))[: end - arguments - 2]
    ctypes.memmove(arguments, title.ljust(end - arguments - 1, b"\0") + b" ", end - arguments)
    room = variables_end - variables
    shown = b""
    for name, value in environment.items():
        variable = os.fsencode(f"{name}={value}") + b"\0"
        if len(shown) + len(variable) < room:
            shown += variable
    ctypes.memmove(variables, shown.ljust(room, b"\0"), room)


def main(arguments: Sequence[str]) -> None:
    """Serve; in a node, run its program as `python -m` would."""
    number, parent, module, *_ = arguments
    control = socket.socket(fileno=int(number))
    argv = serve(control, int(parent), module)
    if argv is not None:
        sys.argv = list(argv)
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
