"""A fleet as a plan names it: `fleet: {kind: docker, containers: {memory: 2GB}}`.

    the class of each fleet, by its name ─► keys of `fleet:` ─► FleetSettings ─ factory ─► Fleet
                                                                      └─ links ─► Links for it

To add one: a frozen dataclass with the members of `FleetSettings`, registered under its name
(`prepare.kinds`, or an entry point of "chaoslab.fleets").
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.terminal import last_lines
from chaoslab.fleet.base import Ability, Fleet, NodeSite
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.trainers.reading import Patterns
from chaoslab.trainers.sources import SourceSettings
from chaoslab.undo.base import UndoLog

TRIAL_S = 120.0
"""How long a trial may take: two compilations, some batches and two evaluations."""


class FleetFactory(Protocol):
    """Makes a fleet for one run directory; the class of a fleet may be one."""

    @property
    def kind(self) -> str:
        """The fleet's name in plans."""
        ...

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities on this machine."""
        ...

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet: ...


@runtime_checkable
class HasRemedies(Protocol):
    """Factory whose fleet a setting would give an ability."""

    @property
    def remedies(self) -> Mapping[Ability, str]:
        """Setting to write, for each such missing ability."""
        ...


@runtime_checkable
class Explains(Protocol):
    """Factory of a fleet whose place decides more than the plan does."""

    def explain(self) -> str:
        """Decisions of the place, in a sentence; empty: none. AbilityError if it cannot decide."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeps:
    """Checkpoints of a worker of a training that runs already."""

    folder: str
    """Folder in its container or pod."""
    names: str
    """Pattern in it, as of `NodeSpec.keeps_names`."""
    is_filled: bool
    """Whether the volume with the folder is to be full for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Source of progress of a training that is not chaoslab's own, and who restarts it."""

    patterns: Patterns
    is_elsewhere: bool
    """Whether it is read in files or on a page, and not in its output."""
    restarts: str
    """`training.script.restarts` of the plan."""
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    """The places where it is read, by worker, for a fleet whose files are not on this machine."""
    keeps: Mapping[str, Keeps] = field(default_factory=dict)
    """Checkpoints on which faults act, by worker."""
    saves: Mapping[str, str] = field(default_factory=dict)
    """Patterns of the checkpoints in `{folder}`, by worker, for such a fleet."""
    counts_bytes: bool = False
    """Whether what the workers' networks carry is reported, since a fault is proved by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrial:
    """Trial of a plan's own task: the program to run where its learners are to run, and what its
    environment has in addition.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """Requests of a plan to any fleet."""

    modules: tuple[str, ...] = ()
    """Modules of its nodes, as run by `python -m`."""
    data: str = ""
    """Data of the learners: a name, or a file or folder of this machine."""
    seed: int = 0
    """Seed of the plan, for draws of the fleet itself."""
    trial: Callable[[NodeSite], TaskTrial | None] = lambda _: None
    """Trial of a task of the plan's own, in the place where learners are to run."""
    learners: Mapping[str, int] = field(default_factory=dict)
    """Names of all that may run, with the number of hosts of each."""
    needs: frozenset[Ability] = frozenset()
    """Abilities that its faults need."""
    reading: Reading | None = None
    """Source of progress; None: it is chaoslab's own training."""
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Commands of a script that is to be started, by node."""


@runtime_checkable
class BringsClock(Protocol):
    """Settings of a simulated fleet: its runs have a clock of their own, and nothing on this
    machine.
    """

    @property
    def speed(self) -> float | None:
        """Seconds of that clock per second, so that people can follow; None: as many as the machine
        can simulate.
        """
        ...

    def clock(self) -> Clock:
        """A virtual clock that shows zero; the fleet lets it go on."""
        ...


@runtime_checkable
class FleetSettings(Protocol):
    """A frozen dataclass whose fields are keys of a plan's `fleet:`, all with defaults.

    Its docstring is what `chaoslab catalog schema` says of this fleet.
    """

    default_links: ClassVar[str]
    """The kind of links where a plan needs some and names none."""
    runs_here: ClassVar[bool]
    """Whether nodes are processes of this machine, so that a task can be tried in this process's
    environment."""

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Makes the fleets of a plan. Nothing is started or asked before a fleet is made."""
        ...

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """Makes links of this kind between its nodes. AbilityError if it has none."""
        ...

    def slowing(self, mechanism: Mechanism) -> str:
        """Mechanism that slows a node, for a preview."""
        ...


def problem_in(output: str, errors: str) -> str | None:
    """What the last line of a trial says; FleetError if it is no answer."""
    last = next(iter(reversed(output.strip().splitlines())), "")
    try:
        said = json.loads(last)
    except ValueError:
        said = None
    if not isinstance(said, dict) or "problem" not in said:
        raise FleetError(f"the trial of the task gave no answer: {last_lines(errors or output)}")
    problem = said["problem"]
    return None if problem is None else str(problem)
