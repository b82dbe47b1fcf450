"""Undo on hosts: the host agent of a run, which the harness left there; leftovers on hosts.

    end_agent ── ssh ──► the agent ends its nodes and undoes all; its folder is removed

The agent does that by itself when its lease is over; this is sooner. An entry can name no other
run than that of its own directory, and chaoslab's own program is all that is run on a host.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.fleet.remote.delivery.deliver import Program
from chaoslab.fleet.remote.host_agent.folder import home
from chaoslab.fleet.remote.protocol.names import AGENT, END_AGENT, is_interpreter
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.run_name import require_own_run
from chaoslab.undo.actions import leftovers
from chaoslab.undo.facts import Facts, require
from chaoslab.undo.janitor import find_runs
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import Examined, Healed, Leftover, Maintenance, Verb, missing, ok

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ENVIRONMENT: Final = re.compile(r"-|3\.\d+-[0-9a-f]{32}")
_UNDO_S: Final = 60.0
_LOOK_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts(Facts):
    """The agent of a run on a host, and how to get there."""

    host: str
    run: str
    python: str
    code: str
    environment: str
    port: int = 22
    user: str = ""
    key: str = ""
    known_hosts: str = ""
    jump: str = ""
    host_keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_own_run(self, self.run)
        require(is_interpreter(self.python), f"{self.python!r} is no interpreter")
        require(_DIGEST.fullmatch(self.code) is not None, f"{self.code!r} is no SHA-256")
        is_known = _ENVIRONMENT.fullmatch(self.environment) is not None
        require(is_known, f"{self.environment!r} is no environment")
        self.access()

    def access(self) -> Access:
        """Access to the host. FleetError if there is none."""
        try:
            return Access(
                host=self.host, port=self.port, user=self.user, key=self.key,
                known_hosts=self.known_hosts, jump=self.jump, host_keys=tuple(self.host_keys),
            )  # fmt: skip
        except PlanError as error:
            raise FleetError(str(error)) from error

    def command(self, *words: str) -> tuple[str, ...]:
        """A command of the agent's program on the host."""
        program = Program(python=self.python, code=self.code, environment=self.environment)
        return program.command("-m", AGENT, *words)


def _end(facts: AgentFacts) -> Healed:
    """End the agent and remove its folder; FleetError if the host cannot be reached."""
    found = _asked(facts, "halt", within_s=_UNDO_S)
    folder = _asked(facts, "remove", within_s=_UNDO_S)["removed"]
    ended = (f"the host agent of run {facts.run}, ended",) if found["had_agent"] else ()
    removed = (f"the folder {folder} of run {facts.run}, removed",) if folder else ()
    return Healed(
        actions=tuple(f"{facts.host}: {one}" for one in (*ended, *found["actions"], *removed))
    )


def _left(facts: AgentFacts) -> tuple[str, ...]:
    """Things that still exist, or that they cannot be seen."""
    try:
        found = _asked(facts, "left", within_s=_LOOK_S)
    except FleetError as error:
        return (f"what run {facts.run} left on {facts.host}, which cannot be asked: {error}",)
    return tuple(f"{facts.host}: {one}" for one in found["left"])


def _asked(facts: AgentFacts, command: str, *, within_s: float) -> dict[str, Any]:
    from chaoslab.core.event_loop import EventLoop  # noqa: PLC0415  # asyncio
    from chaoslab.fleet.remote.protocol.reach import asked  # noqa: PLC0415  # needs asyncssh
    from chaoslab.fleet.remote.ssh.connection import SshReach  # noqa: PLC0415

    reach, loop = SshReach(facts.access(), try_s=0.0), EventLoop()
    try:
        found = loop.run(asked(reach, facts.command(command, facts.run)), within_s=within_s)
        loop.run(reach.close(), within_s=within_s)
    finally:
        loop.close()
    return dict(found)


def _leftovers(_: Path) -> Iterator[Leftover]:
    """Leftovers on this machine, as a host: runs whose agent is dead."""
    for run in find_runs(home()):
        left = sorted({what for entry in open_undos(run) for what in leftovers(entry)})
        what = f"what a host agent left ({', '.join(left[:5]) or 'an undo log'})"
        remedy = shlex.join((sys.executable, "-m", AGENT, "halt", run.name))
        yield Leftover(what=what, where=str(run), remedy=remedy)


def _diagnose() -> Iterator[Examined]:
    if find_spec("asyncssh") is None:
        yield missing("ssh", "asyncssh is not installed", "pip install 'chaoslab[ssh]'")
    else:
        yield ok("ssh", "hosts can be reached: chaoslab doctor --inventory FILE asks them")


MAINTENANCE = Maintenance(
    verbs={END_AGENT: Verb(facts=AgentFacts, undo=_end, left=_left)},
    leftovers=_leftovers,
    diagnose=_diagnose,
)
