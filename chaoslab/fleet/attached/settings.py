"""Fleets of attached trainings, as a plan names them.

fleet: {kind: processes}                           ─► ProcessFleet
fleet: {kind: compose, project: chaoslab-training} ─► ComposeFleet
fleet: {kind: namespace, namespace: training}      ─► NamespaceFleet

With `pid`, `pattern`, `services` or `selector` it is a training of the user's own.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes.settings import connect, require_rights
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS
from chaoslab.undo.base import UndoLog

if TYPE_CHECKING:
    from chaoslab.fleet.attached.containers import Project

_FILES: Final = frozenset({Ability.STORAGE, Ability.VOLUME})


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOthers:
    """Settings of a fleet whose nodes others have started and connected."""

    kind: ClassVar[str]
    default_links: ClassVar[str] = NO_LINKS
    runs_here: ClassVar[bool] = False

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """None: its nodes are connected already."""
        if kind != NO_LINKS:
            raise AbilityError(
                f"there are no links in the {self.kind} fleet: its nodes are connected already. "
                "Faults on links need a training that chaoslab starts"
            )
        return settings.factory(seed)

    def slowing(self, mechanism: Mechanism) -> str:
        """Nothing slows them."""
        return f"nothing ({mechanism}): its nodes were not started by chaoslab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes(OfOthers):
    """A training that runs on this machine: chaoslab's syncer and learners, or with `pid` or
    `pattern` one of your own (`training.script`). It goes on after the run.
    """

    syncer: int | None = None
    """Process of its syncer, by pid; None: of the only one that runs here."""
    pid: int | None = None
    """Pid of a training of your own: of its launcher, or its only process."""
    pattern: str = ""
    """The same by a regular expression for command lines: of its launcher, or of each worker."""
    restarts: bool = True
    """Whether nodes that a fault ended are started by chaoslab; false: only by others, such as a
    supervisor, which are waited for."""

    kind: ClassVar[str] = "processes"

    def find(self) -> Sequence[Found]:
        """The nodes that run now."""
        from chaoslab.fleet.attached import processes, script_search  # noqa: PLC0415  # when needed

        if self.is_script:
            return script_search.find(script_search.Which(pid=self.pid, pattern=self.pattern))
        return processes.find(self.syncer)

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each node has printed to a file."""
        from chaoslab.fleet.attached import script_search  # noqa: PLC0415  # when needed

        return script_search.printed(nodes)

    @property
    def is_script(self) -> bool:
        """Whether the training is the user's own."""
        return self.pid is not None or bool(self.pattern)

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that finds the nodes when its fleet is asked to."""
        return ProcessFleets(settings=self, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose(OfOthers):
    """A training in the containers of a Docker Compose project, chaoslab's or with `services` one
    of your own (`training.script`); nothing is created or removed.
    """

    project: str = "chaoslab-training"
    """Name of the project; docker/compose.yaml calls it like this."""
    services: tuple[str, ...] = ()
    """Services of a training of your own: each of their containers is a worker."""
    restarts: bool = True
    """Whether containers that a fault ended are started by chaoslab; false: only by others, which
    are waited for."""

    kind: ClassVar[str] = "compose"

    def find(self) -> Sequence[Found]:
        """The nodes that run now."""
        with closing(self.on_engine()) as project:
            return project.find()

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each container has printed."""
        with closing(self.on_engine()) as project:
            return project.printed(nodes)

    def on_engine(self) -> "Project":
        """The project on the engine that answers; AbilityError if none does."""
        from chaoslab.fleet.attached.containers import Project  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415

        return Project(engine=Engine.connect(), name=self.project, services=self.services)

    @property
    def is_script(self) -> bool:
        """Whether the training is the user's own."""
        return bool(self.services)

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that asks the engine when a fleet is made."""
        return ComposeFleets(settings=self, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace(OfOthers):
    """A training in the pods of a Kubernetes namespace, chaoslab's or with `selector` one of your
    own (`training.script`); their owner in the cluster starts nodes again.
    """

    namespace: str = ""
    """Name of the namespace; empty: that of the context."""
    context: str = ""
    """Context of the kubeconfig; empty: the current one, unless it looks like production."""
    selector: str = ""
    """Labels of the pods of a training of your own, as kubectl has them (`app=trainer`): each pod
    is a worker."""

    kind: ClassVar[str] = "namespace"

    def find(self) -> Sequence[Found]:
        """The nodes that run now."""
        from chaoslab.fleet.attached.worker_pods import search_of  # noqa: PLC0415  # lightkube

        with closing(connect(self.context, self.namespace)) as cluster:
            return search_of(cluster, self.selector).training()[1]

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:  # noqa: ARG002
        """The last lines that each pod has printed."""
        from chaoslab.fleet.attached.worker_pods import WorkerPods  # noqa: PLC0415  # lightkube

        with closing(connect(self.context, self.namespace)) as cluster:
            return WorkerPods(cluster, self.selector).printed()

    @property
    def is_script(self) -> bool:
        """Whether the training is the user's own."""
        return bool(self.selector)

    def named(self) -> "Namespace":
        """The same by name, whatever the current context is later.

        AbilityError if that is none, or looks like production.
        """
        with closing(connect(self.context, self.namespace)) as cluster:
            return replace(self, namespace=cluster.namespace, context=cluster.context)

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that asks the cluster when a fleet is made."""
        return NamespaceFleets(settings=self, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    settings: Processes
    request: FleetRequest
    kind: str = "processes"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of nodes that others have started."""
        from chaoslab.fleet.attached.processes import ProcessFleet  # noqa: PLC0415

        return abilities_of(ProcessFleet)

    def __call__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        node_links: NodeLinks,  # noqa: ARG002
    ) -> Fleet:
        """Make the fleet of one run."""
        from chaoslab.fleet.attached.processes import ProcessFleet  # noqa: PLC0415
        from chaoslab.fleet.attached.script_fleet import ScriptFleet  # noqa: PLC0415
        from chaoslab.fleet.attached.script_search import Which  # noqa: PLC0415

        settings, request = self.settings, self.request
        place = Place(run_directory=run_directory, clock=clock, undo_log=undo_log)
        if settings.is_script and request.reading is not None:
            return ScriptFleet(place, request, Which(pid=settings.pid, pattern=settings.pattern))
        return ProcessFleet(
            place, replace(request, reading=None),
            restarts=settings.restarts, syncer=settings.syncer,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    settings: Compose
    request: FleetRequest
    kind: str = "compose"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of containers that others have started; AbilityError without the SDK."""
        from chaoslab.fleet.attached.containers import ComposeFleet  # noqa: PLC0415  # needs the SDK

        return abilities_of(ComposeFleet) | _on_files(self.request)

    def __call__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        node_links: NodeLinks,  # noqa: ARG002
    ) -> Fleet:
        """Make the fleet of one run."""
        from chaoslab.fleet.attached.containers import ComposeFleet  # noqa: PLC0415

        reading, restarts = self.request.reading, self.settings.restarts
        return ComposeFleet(
            Place(run_directory=run_directory, clock=clock, undo_log=undo_log),
            self.request,
            project=self.settings.on_engine(),
            restarts=restarts if reading is None else reading.restarts != "supervisor",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    settings: Namespace
    request: FleetRequest
    kind: str = "namespace"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of pods that others have started.

        AbilityError if no cluster answers, or this user lacks rights.
        """
        from chaoslab.fleet.attached.pods import NamespaceFleet  # noqa: PLC0415  # lightkube

        try:
            with closing(connect(self.settings.context, self.settings.namespace)) as cluster:
                require_rights(cluster, self.kind)
        except FleetError as error:
            raise AbilityError(str(error)) from error
        return abilities_of(NamespaceFleet) | _on_files(self.request)

    def __call__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        node_links: NodeLinks,  # noqa: ARG002
    ) -> Fleet:
        """Make the fleet of one run."""
        from chaoslab.fleet.attached.pods import NamespaceFleet  # noqa: PLC0415  # lightkube

        settings = self.settings
        return NamespaceFleet(
            Place(run_directory=run_directory, clock=clock, undo_log=undo_log),
            self.request,
            cluster=connect(settings.context, settings.namespace),
            selector=settings.selector,
        )


def _on_files(request: FleetRequest) -> frozenset[Ability]:
    """Abilities on checkpoints whose folder is named."""
    return _FILES if request.reading and request.reading.keeps else frozenset()
