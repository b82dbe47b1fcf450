"""`python -m chaoslab.fleet.remote.host_agent`: starts, runs and ends a host agent.

    facts ────── what this host can do
    find ─────── the nodes of a training that runs here, by what standard input asks as JSON
    printed ──── the last lines that each of the nodes has printed that standard input names
    startable ── facts, and why commands of a script that standard input has cannot be started here
    doctor ───── the same in words, and what earlier runs left here
    left RUN ─── what a run still has here
    start RUN ── a process in a session of its own: serve RUN ── once it listens: where, as JSON
    halt RUN ─── SIGTERM to the agent, then its open entries are undone
    record RUN ─ what its nodes printed and how they ended, as a tar file
    remove RUN ─ the folder of a run without open entries

What commands find is one JSON object on standard output, or the tar file; a refusal is one on
standard error, with exit code 1. They are called over ssh and by tests.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from chaoslab import __version__
from chaoslab.core.errors import ChaoslabError, FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import boot_id
from chaoslab.fleet.attached import script_search
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.remote.host_agent.folder import HostFolder, home, write_record
from chaoslab.fleet.remote.host_agent.life import halt, serve, start
from chaoslab.fleet.remote.host_agent.scripts import unstartable
from chaoslab.fleet.remote.host_agent.verbs import found_here
from chaoslab.fleet.remote.protocol.messages import read_as
from chaoslab.fleet.remote.protocol.names import ADOPTS
from chaoslab.undo import leftovers
from chaoslab.undo.actions import leftovers as still_there
from chaoslab.undo.catalogue import maintenance
from chaoslab.undo.log import open_undos

_OF_RUN: Final = ("left", "start", "serve", "halt", "record", "remove")
_COMMANDS: Final = ("facts", "find", "printed", "startable", "doctor", *_OF_RUN)
_LEASE_S: Final = 30.0


def main(arguments: Sequence[str]) -> int:
    """Run one command; 1 if it is refused."""
    flags = argparse.ArgumentParser(
        prog="python -m chaoslab.fleet.remote.host_agent", description=__doc__
    )
    flags.add_argument("command", choices=_COMMANDS)
    flags.add_argument("run", nargs="?", default="", help="ten hex digits")
    flags.add_argument("--lease-s", type=float, default=_LEASE_S)
    flags.add_argument(ADOPTS, action="store_true")
    asked = flags.parse_args(arguments)
    try:
        if asked.command in _OF_RUN:
            found = _result_of(asked.command, asked.run, asked.lease_s, adopts=asked.adopts)
        else:
            found = _of_host(asked.command)
    except (ChaoslabError, OSError) as error:
        sys.stderr.write(json.dumps({"error": str(error)}) + "\n")
        return 1
    if asked.command != "record":
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _of_host(command: str) -> Mapping[str, Json]:
    match command:
        case "facts":
            return _facts()
        case "doctor":
            return _doctor()
        case "find":
            return {"nodes": found_here(**json.load(sys.stdin))}
        case "startable":
            return {**_facts(), "problem": unstartable(**json.load(sys.stdin))}
        case _:
            nodes = [read_as(Found, one) for one in json.load(sys.stdin)]
            return {"printed": {**script_search.printed(nodes)}}


def _result_of(command: str, run: str, lease_s: float, *, adopts: bool) -> Mapping[str, Json]:
    folder = HostFolder(run=run)
    match command:
        case "left":
            return {"left": list(_left(folder))}
        case "start":
            return start(folder, lease_s, adopts=adopts)
        case "serve":
            return serve(folder, lease_s, adopts=adopts)
        case "halt":
            return halt(folder)
        case "record":
            write_record(folder.path, sys.stdout.buffer)
            return {}
        case _:
            return _remove(folder)


def _facts() -> Mapping[str, Json]:
    lacking = sorted(ability.value for ability in LocalFleet.lacking)
    return {"version": __version__, "boot_id": boot_id(), "lacking": lacking}


def _doctor() -> Mapping[str, Json]:
    """Lines of `chaoslab doctor` for this host."""
    sources = [one for name, one in maintenance().items() if name in ("processes", "local")]
    abilities = [one for source in sources for one in source.diagnose()]
    return {
        "abilities": [{**asdict(one), "state": one.state.value} for one in abilities],
        "residue": [one.told() for one in leftovers.find(home())],
    }


def _left(folder: HostFolder) -> Iterator[str]:
    """Things of a run on this host, a few words each."""
    if (process := folder.agent) is not None:
        yield f"the host agent of run {folder.run} (process {process.pid})"
    if folder.path.is_dir() and not folder.is_elsewhere:
        yield f"the folder {folder.path} of run {folder.run}"
        for entry in open_undos(folder.path):
            yield from still_there(entry)


def _remove(folder: HostFolder) -> Mapping[str, Json]:
    if folder.agent is not None:
        raise FleetError(f"the host agent of run {folder.run} still lives: halt it first")
    return {"removed": str(folder.path) if folder.remove() else ""}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
