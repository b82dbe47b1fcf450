"""Life of a host agent: started apart from ssh, serving, and ended.

start ── a process ──► serve: janitor, undo log, spool, fleet, socket ─► AgentLoop
  ◄── agent.json: it can be found now ──┘
halt ─── SIGTERM, in the end SIGKILL ──► its open entries are undone
"""

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import Identity, identify, send
from chaoslab.core.spawning import import_path
from chaoslab.core.terminal import ends_with
from chaoslab.fleet.private_folder import PrivateFolder
from chaoslab.fleet.remote.host_agent.agent_loop import DISMISSED, AgentLoop
from chaoslab.fleet.remote.host_agent.clients import Answers
from chaoslab.fleet.remote.host_agent.fleet import HostedFleet, HostedScript
from chaoslab.fleet.remote.host_agent.folder import HostFolder, prune
from chaoslab.fleet.remote.host_agent.proxy import HostProxy
from chaoslab.fleet.remote.host_agent.spool import Spool
from chaoslab.fleet.remote.host_agent.verbs import Verbs
from chaoslab.fleet.remote.protocol.names import ADOPTS, AGENT
from chaoslab.undo.base import UndoLog
from chaoslab.undo.harness import is_of_run
from chaoslab.undo.janitor import Overdue, heal, start_janitor
from chaoslab.undo.log import UndoLogFile

_START_S: Final = 60.0
_END_S: Final = 40.0
_KILL_S: Final = 5.0
_PAUSE_S: Final = 0.01
_log = logging.getLogger(__name__)


# ---------------------------------------------------------------- start


def start(folder: HostFolder, lease_s: float, *, adopts: bool = False) -> Mapping[str, Json]:
    """The agent, started unless it lives. FleetError if it does not come up.

    `adopts`: its nodes are those of a training that runs here already.
    """
    folder.make()
    with folder.locked():
        folder.take()
        if folder.agent is None:
            _prune()
            if remaining := heal(folder.path).remaining:
                raise FleetError(
                    f"an earlier host agent left what cannot be undone: {'; '.join(remaining)}"
                )
            _spawn(folder, lease_s, (ADOPTS,) if adopts else ())
    return {"socket": folder.socket, "folder": str(folder.path)}


def _prune() -> None:
    """Remove old folders; a failure does not prevent the run."""
    try:
        prune(time.time())
    except OSError as error:
        sys.stderr.write(f"old folders stay: {error}\n")


def _spawn(folder: HostFolder, lease_s: float, flags: Sequence[str]) -> None:
    log = folder.path / "host_agent.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            (sys.executable, "-m", AGENT, "serve", folder.run, "--lease-s", repr(lease_s), *flags),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            cwd=folder.path,
            env={**os.environ, "PYTHONPATH": import_path()},
            start_new_session=True,
        )
    deadline_s = time.monotonic() + _START_S
    while folder.agent is None:
        if process.poll() is not None or time.monotonic() > deadline_s:
            process.kill()
            raise FleetError(f"the host agent does not come up{ends_with(log)}")
        time.sleep(_PAUSE_S)


# ---------------------------------------------------------------- serve


def serve(folder: HostFolder, lease_s: float, *, adopts: bool = False) -> Mapping[str, Json]:
    """Be the agent, until it is over."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    process = identify(os.getpid())
    if process is None:
        raise FleetError("this process cannot be identified: /proc is missing")
    with ExitStack() as stack:
        guard = stack.enter_context(start_janitor(folder.path))
        undo_log = stack.enter_context(UndoLogFile(folder.path))
        listener, socket = stack.enter_context(listening(folder.path, undo_log))
        spool = stack.enter_context(Spool(folder.path))
        kind = HostedScript if adopts else HostedFleet
        fleet = kind(folder.path, WallClock(), undo_log=undo_log)
        proxy = HostProxy(folder.path, undo_log)
        stack.callback(proxy.close)
        stack.callback(fleet.leave)
        fleet.__enter__()
        verbs = Verbs(fleet, proxy, words=folder.words, due_within=undo_log.due_within)
        loop = AgentLoop(
            listener=listener,
            fleet=fleet,
            spool=spool,
            answers=Answers(verbs.answer),
            overdue=Overdue(run_directory=folder.path),
            guard=guard,
            lease_s=lease_s,
            session=secrets.token_hex(8),
        )
        _obey_signals(loop)
        folder.write_agent(process, socket)
        why = loop.serve()
    _log.info("the host agent has ended: %s", why)
    if why == DISMISSED:  # the harness that did that has all records
        folder.remove()
    loop.bid_farewell()
    return {"ended": why}


def _obey_signals(loop: AgentLoop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.tell_end())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


# ---------------------------------------------------------------- end


def halt(folder: HostFolder) -> Mapping[str, Json]:
    """End the agent, if it lives, and undo what is left; FleetError if something remains."""
    if not folder.path.is_dir() or folder.is_elsewhere:
        return {"had_agent": False, "actions": []}
    with folder.locked():
        if (process := folder.agent) is not None:
            _end(folder, process)
        healed = heal(folder.path)
    if healed.remaining:
        raise FleetError("; ".join(healed.remaining))
    return {"had_agent": process is not None, "actions": list(healed.actions)}


def _end(folder: HostFolder, process: Identity) -> None:
    """End an agent: in order, then by force. FleetError if it stays."""
    in_order, by_force = (signal.SIGTERM, signal.SIGCONT), (signal.SIGKILL,)
    for numbers, within_s in ((in_order, _END_S), (by_force, _KILL_S)):
        for number in numbers:
            if is_of_run(process, folder.path):
                send(process, number)
        deadline_s = time.monotonic() + within_s
        while folder.agent is not None:
            if time.monotonic() > deadline_s:
                break
            time.sleep(_PAUSE_S)
        else:
            return
    raise FleetError(f"the host agent (process {process.pid}) cannot be ended")


_NAME: Final = "agent.sock"
_BYTES_MOST: Final = 107
"""Most bytes of the path of a Unix socket."""


@contextmanager
def listening(folder: Path, undo_log: UndoLog) -> Iterator[tuple[socket.socket, Path]]:
    """Unix socket of a host agent, by a path that the kernel takes, in a folder of this user alone.

        RUN/agent.sock, or if that is too long ─► /tmp/chaoslab-private-…/agent.sock

    A home may have a long path, as on a cluster. The other folder has an undo entry of its own.

    A socket that only this user may connect to, and its path. FleetError or OSError if there
    can be none.
    """
    elsewhere = PrivateFolder(folder, undo_log)
    with ExitStack() as stack:
        stack.callback(elsewhere.close)
        path = folder / _NAME
        if _is_too_long(path):
            path = elsewhere.made() / _NAME
        if _is_too_long(path):
            raise FleetError(f"{path} is too long for the path of a socket")
        stack.callback(path.unlink, missing_ok=True)
        path.unlink(missing_ok=True)  # of an agent that was killed
        yield stack.enter_context(_bound(path)), path


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(path)) > _BYTES_MOST


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen()
    return listener
