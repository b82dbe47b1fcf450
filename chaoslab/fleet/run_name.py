"""Name of a run where several share a place: on a container engine, in a cluster, on hosts.

An undo entry that names another run than that of its own directory is refused by it, and so is one
about an object that is not named after that run.
"""

import hashlib
import re
import socket
from pathlib import Path
from typing import Final

from chaoslab.undo.facts import Facts, require

_DIGITS: Final = 10


def run_name(run_directory: Path) -> str:
    """A few hex digits that no other run shares, on this machine or another."""
    whose = f"{socket.gethostname()}:{run_directory.absolute()}"
    return hashlib.sha256(whose.encode()).hexdigest()[:_DIGITS]


def own_name(run: str) -> str:
    """Prefix of the names of all that a run makes on an engine or in a cluster."""
    return f"chaoslab-{run}"


def require_own_run(facts: Facts, run: str) -> None:
    """FleetError unless this is the run of the undo log."""
    own = run_name(facts.directory)
    require(run == own, f"run {run!r} is not that of {facts.directory}, {own}")


def require_own_name(facts: Facts, name: str, what: str) -> None:
    """FleetError unless an object is named after the run of the undo log."""
    own = re.escape(own_name(run_name(facts.directory)))
    is_own = re.fullmatch(rf"{own}-[\w.-]+", name, re.ASCII) is not None
    require(is_own, f"the {what} {name!r} is not this run's")
