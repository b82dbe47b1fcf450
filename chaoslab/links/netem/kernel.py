"""Calls of the kernel's network tools, with a deadline and their error output."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import Protocol

from chaoslab.core.errors import FleetError
from chaoslab.core.process_identity import has_capability

_ASK_S = 10.0
_CAP_NET_ADMIN = 12


class Run(Protocol):
    """Runs one tool, on this host as `run` does, or in another network."""

    def __call__(self, tool: str, *words: str, text: str = "") -> str:
        """Output of the tool. FleetError with its error output if it fails."""
        ...


def may_administer_network() -> bool:
    """Whether this process has CAP_NET_ADMIN."""
    return has_capability(_CAP_NET_ADMIN)


def why_no_namespace() -> str:
    """Why no network namespace can be created for trials (CAP_SYS_ADMIN); empty if one can."""
    code, said = ask(("unshare", "-n", "true"))
    return (said or f"exit code {code}") if code else ""


def which(program: str) -> str | None:
    """Path of a program, also in the system administrators' folders; None if it is missing."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def run(tool: str, *words: str, text: str = "") -> str:
    """Output of the tool. FleetError with its error output if it fails."""
    code, said = ask((tool, *words), text)
    if code:
        raise FleetError(f"{tool} {shlex.join(words)} failed: {said}")
    return said


def ask(command: Sequence[str], text: str = "") -> tuple[int, str]:
    """Exit code, and output (error output if it failed); 127 if the program is missing."""
    program = which(command[0])
    if program is None:
        return 127, f"{command[0]} is not on PATH"
    try:
        done = subprocess.run(
            [program, *command[1:]], input=text, capture_output=True, text=True, timeout=_ASK_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr.strip()
