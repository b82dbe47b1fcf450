"""Nodes found by their command lines: role and flags of the program.

python -m chaoslab.diloco.learner --name=learner-0 --syncer syncer:4600 ─► Command
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.fleet.base import Role

PROGRAMS: Final[Mapping[str, Role]] = MappingProxyType(
    {"chaoslab.diloco.syncer": Role.SYNCER, "chaoslab.diloco.learner": Role.LEARNER}
)
"""Role of each program, as run by `python -m`."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A node's role and the flags of its program; a flag without a value has an empty one."""

    role: Role
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the node; the default of a program without one."""
        default = "syncer" if self.role is Role.SYNCER else "learner-0"
        return self.flags.get("--name", default)

    @property
    def settings(self) -> Mapping[str, Json]:
        """Rules of the training, as for a syncer; empty without any."""
        try:
            found = json.loads(self.flags.get("--settings-json", "{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A node that runs."""

    name: str
    role: Role
    where: str
    """The process or container, in words."""
    handle: str
    """Handle for finding it again: a pid, or the name of a container."""
    command: Command
    is_first: bool = False
    """Whether it is the first process of its container, which no signal from inside ends."""
    rank: int | None = None
    """Its rank among the workers of a script, if its environment says one."""


@runtime_checkable
class FindsNodes(Protocol):
    """Settings of a fleet whose nodes run already."""

    @property
    def is_script(self) -> bool:
        """Whether the training is the user's own."""
        ...

    def find(self) -> Sequence[Found]:
        """Syncer and learners, or launcher and workers. AbilityError if there are none."""
        ...

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each node of a script has printed, as far as they can be read."""
        ...


def of_script(
    name: str, where: str, handle: str, role: Role = Role.LEARNER, *, is_first: bool = False
) -> Found:
    """A node of a training of the user's own, whose command line says nothing."""
    return Found(
        name=name,
        role=role,
        where=where,
        handle=handle,
        command=Command(role=role),
        is_first=is_first,
    )


def numbered(workers: Sequence[Found], which: str) -> Sequence[Found]:
    """Workers that were started each by itself as worker-0, worker-1, …: by their ranks, or, where
    none has one, in this order. AbilityError if some have ranks, and not these.
    """
    ranks = sorted(one.rank for one in workers if one.rank is not None)
    if ranks and ranks != list(range(len(workers))):
        more = f" and {len(workers) - _SHOWN} more" if len(workers) > _SHOWN else ""
        raise AbilityError(
            f"{which}: of the processes that match, {len(ranks)} have the ranks "
            f"{', '.join(map(str, ranks))}, and those of a training are 0 to {len(workers) - 1}: "
            f"{'; '.join(one.where[:100] for one in workers[:_SHOWN])}{more}"
        )
    ordered = sorted(workers, key=lambda one: one.rank or 0)
    return [replace(one, name=f"worker-{number}") for number, one in enumerate(ordered)]


def refuse_others(nodes: Sequence[Found], learners: Sequence[str]) -> None:
    """AbilityError if a plan asks for these learners, and others were found."""
    there = [node.name for node in nodes if node.role is Role.LEARNER]
    if learners and sorted(learners) != sorted(there):
        raise AbilityError(
            f"the plan has {plural(len(learners), 'learner')}, and {len(there)} run: "
            "`chaoslab attach` takes their number from what runs"
        )


def command_of(words: Sequence[str]) -> Command | None:
    """Node of a command line; None if it is no program of chaoslab's run under test."""
    roles = ((PROGRAMS[word], at) for at, word in enumerate(words) if word in PROGRAMS)
    found = next(roles, None)
    if found is None:
        return None
    role, at = found
    flags: dict[str, str] = {}
    rest = list(words[at + 1 :])
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            continue
        key, is_joined, value = word.partition("=")
        has_next = not is_joined and bool(rest) and not rest[0].startswith("--")
        flags[key] = rest.pop(0) if has_next else value
    return Command(role=role, flags=flags)


def training_of(nodes: Iterable[Found], where: str, none: str) -> Sequence[Found]:
    """The syncer and its learners, in the order of a plan's roster.

    AbilityError if they are no training that a plan can name: `where` says what was looked at,
    `none` that no node is there.
    """
    nodes = tuple(nodes)
    syncers = [node for node in nodes if node.role is Role.SYNCER]
    learners = sorted(
        (node for node in nodes if node.role is Role.LEARNER),
        key=lambda node: (len(node.name), node.name),
    )
    if not nodes:
        raise AbilityError(f"{where}: {none}")
    if len(syncers) != 1 or not learners:
        seen = ", ".join(f"{node.name} ({node.where})" for node in nodes)
        raise AbilityError(
            f"{where}: a training has one syncer and at least one learner that run; found {seen}"
        )
    if syncers[0].name != "syncer":
        raise AbilityError(f"{where}: the syncer calls itself {syncers[0].name!r}, not 'syncer'")
    for one, next_one in pairwise(learners):
        if one.name == next_one.name:
            raise AbilityError(
                f"{where}: {one.name} runs twice ({one.where} and {next_one.where}), and a plan "
                "could not tell which it breaks: end one of them"
            )
    names = [node.name for node in learners]
    wanted = [f"learner-{index}" for index in range(len(learners))]
    if names != wanted:
        raise AbilityError(
            f"{where}: {', '.join(names)} run, and plans call learners {wanted[0]} to "
            f"{wanted[-1]}: "
            "start what is missing, or name them so"
        )
    for node in nodes:
        if "--incarnation" in node.command.flags and node.role is Role.LEARNER:
            raise AbilityError(
                f"{where}: {node.name} is started with --incarnation, so that it could not join "
                "again after a restart: leave the flag out"
            )
    return (*syncers, *learners)
