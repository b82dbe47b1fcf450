"""The docker fleet as a plan names it, and what a plan needs of a Docker engine.

    fleet.containers ─► Docker ─ factory ─► ContainerFleets ─ engine, images ─► DockerFleet, per run
                           └─ links ─► a proxy or a gateway in a container of the run

The engine is asked when it is needed and not before: a plan can be read without one. The SDK is
imported as late.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.units import Bytes
from chaoslab.fleet.base import Ability, Fleet, NodeSite
from chaoslab.fleet.local.slowdown import said
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.settings import TRIAL_S, FleetFactory, FleetRequest, TaskTrial, problem_in
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.base import Links
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS
from chaoslab.undo.base import UndoLog

if TYPE_CHECKING:
    from chaoslab.fleet.docker.engine.engine import Engine

_MEMORY_LEAST: Final = 64_000_000
_TRIAL_PROCESSES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Settings of each container of a docker fleet; other fleets ignore them."""

    image: str = ""
    """Image; empty: the one that `chaoslab doctor images build` makes of this very source."""
    cpus: float | None = None
    """Cores that it may use; None: all of the engine's machine."""
    memory_bytes: Bytes | None = None
    """Memory that it may use; None: all of the engine's machine."""
    processes: int = 512
    """Processes and threads that it may have."""

    def __post_init__(self) -> None:
        if self.cpus is not None and self.cpus <= 0:
            raise PlanError(f"must be above 0, got {self.cpus:g}", key="cpus")
        if self.memory_bytes is not None and self.memory_bytes < _MEMORY_LEAST:
            raise PlanError("must be at least 64MB; a learner needs about 512MB", key="memory")
        if self.processes < 1:
            raise PlanError(f"must be at least 1, got {self.processes}", key="processes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """Containers of the Docker engine of this machine, or of DOCKER_HOST."""

    containers: Containers = field(default_factory=Containers)
    """Settings of the containers of a docker fleet."""

    default_links: ClassVar[str] = "toxiproxy"
    runs_here: ClassVar[bool] = False

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that asks the engine when a fleet is made."""
        return ContainerFleets(
            containers=self.containers,
            data=request.data,
            modules=request.modules,
            trial=request.trial(NodeSite(python="python3")),
        )

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """Links by a proxy or a gateway in one more container of the run."""
        known: Mapping[str, LinksFactory] = {
            NO_LINKS: settings.factory(seed),
            "embedded": partial(_proxied, seed=seed),
            "toxiproxy": partial(_proxied, seed=None),
            "netem": _forwarded,
        }
        if kind not in known:
            raise AbilityError(
                f"there are no links {kind!r} between containers: use {', '.join(known)}"
            )
        return known[kind]

    def slowing(self, mechanism: Mechanism) -> str:
        """CPU quota by the engine, unless the node is asked to rest."""
        return said(mechanism) if mechanism is Mechanism.HOOK else "the CPU quota of its container"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    containers: Containers
    data: str
    modules: tuple[str, ...] = ()
    """Modules of its nodes, as run by `python -m`."""
    trial: TaskTrial | None = None
    """Trial of a task of the plan's own."""
    kind: str = "docker"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities on the engine that answers; AbilityError if none does, or it lacks images."""
        from chaoslab.fleet.docker.capabilities import lacking  # noqa: PLC0415
        from chaoslab.fleet.docker.fleet import DockerFleet  # noqa: PLC0415  # needs the SDK

        import_module("chaoslab.fleet.authority")  # AbilityError without its library
        engine = _connect()
        try:
            image = self._require_image(engine)
            self._require_fitness(engine, image)
            self._require_trainable(engine, image)
            missing = frozenset() if self._releases(engine) else frozenset({Ability.UPGRADE})
            return abilities_of(DockerFleet) - missing - lacking(engine.facts()).keys()
        finally:
            engine.close()

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run."""
        from chaoslab.fleet.docker.fleet import DockerFleet  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.run_context import Setup  # noqa: PLC0415

        engine, asked = _connect(), self.containers
        machine = engine.machine(asked.processes)
        setup = Setup(
            image=self._require_image(engine),
            limits=replace(
                machine,
                cpus=asked.cpus or machine.cpus,
                memory_bytes=asked.memory_bytes or machine.memory_bytes,
            ),
            releases=self._releases(engine),
            mounts=self._mounts(engine),
        )
        return DockerFleet(
            run_directory, clock, undo_log=undo_log, engine=engine, setup=setup,
            node_links=node_links,
        )  # fmt: skip

    def _require_image(self, engine: "Engine") -> str:
        from chaoslab.fleet.docker.images.images import source  # noqa: PLC0415  # needs the SDK

        own = self.containers.image
        name = own or source().image
        try:
            is_there = engine.image_id(name) is not None
        except FleetError as error:  # a name that cannot be one, for example
            raise AbilityError(str(error)) from error
        if not is_there:
            remedy = (
                "pull or build it there, or leave fleet.containers.image out"
                if own
                else "run `chaoslab doctor images build`, or name another as fleet.containers.image"
            )
            raise AbilityError(f"the Docker engine at {engine.url} has no image {name}: {remedy}")
        return name

    def _require_fitness(self, engine: "Engine", image: str) -> None:
        """Try an image that the plan names; those of `chaoslab doctor images build` have all."""
        from chaoslab.fleet.docker.images.image_check import why_unfit  # noqa: PLC0415  # needs the SDK

        if self.containers.image and (why := why_unfit(engine, image, self.modules)):
            raise AbilityError(
                f"no node can run in the image {image} ({why}): begin its Dockerfile with an image "
                "of `chaoslab doctor images list`, or leave fleet.containers.image out"
            )

    def _require_trainable(self, engine: "Engine", image: str) -> None:
        """Try a task of the plan's own in the image and with the mounts that it would have."""
        from chaoslab.fleet.docker.images.image_check import asked_of_image  # noqa: PLC0415

        mounts = self._mounts(engine)
        if self.trial is None:
            return
        said = asked_of_image(
            engine, image, self.trial.argv, environment=self.trial.environment, mounts=mounts,
            limits=engine.machine(_TRIAL_PROCESSES), within_s=TRIAL_S,
        )  # fmt: skip
        if (problem := problem_in(said, "")) is not None:
            raise AbilityError(f"training.task, tried in the image {image}: {problem}")

    def _releases(self, engine: "Engine") -> Mapping[str, str]:
        from chaoslab.fleet.docker.images.images import NEXT, source  # noqa: PLC0415  # needs the SDK

        name = source().next_image
        return {NEXT: name} if engine.image_id(name) is not None else {}

    def _mounts(self, engine: "Engine") -> Mapping[str, str]:
        """The text to train on, where it is a file or folder of this machine."""
        place = Path(self.data)
        if not place.exists():
            return {}
        if not engine.is_local:
            raise AbilityError(
                f"the text {self.data} is on this machine, and the Docker engine at {engine.url} "
                "on another: put it into the image, and name that as fleet.containers.image"
            )
        path = str(place.resolve())
        if ":" in path:  # which parts a source from its target, as engines read it
            raise AbilityError(
                f"a container cannot see {path!r}, because its name has a colon: rename it, or put "
                "the text into the image, and name that as fleet.containers.image"
            )
        return {path: path}


# ---------------------------------------------------------------- links


def _proxied(run_directory: Path, /, *, undo_log: UndoLog, seed: int | None) -> Links:
    """Links by a proxy in a container; with a seed the embedded one, without one Toxiproxy."""
    from chaoslab.fleet.docker.proxy import ContainerProxyHost  # noqa: PLC0415  # needs the SDK

    proxy_host = ContainerProxyHost(run_directory, _connect())
    if seed is not None:
        from chaoslab.links.proxied.embedded import EmbeddedLinks  # noqa: PLC0415  # as below

        return EmbeddedLinks(run_directory, undo_log=undo_log, seed=seed, proxy_host=proxy_host)
    from chaoslab.links.toxiproxy.links import ToxiproxyLinks  # noqa: PLC0415  # imported when used

    proxy_host.require_toxiproxy()
    return ToxiproxyLinks(run_directory, undo_log=undo_log, proxy_host=proxy_host)


def _forwarded(run_directory: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001
    """Links by a gateway of the run's network: what it leaves goes with that."""
    from chaoslab.fleet.docker.gateway import ContainerGateway  # noqa: PLC0415  # needs the SDK
    from chaoslab.links.netem.links import NetemLinks  # noqa: PLC0415

    return NetemLinks(ContainerGateway(run_directory, _connect()))


def _connect() -> "Engine":
    from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415  # needs the SDK

    return Engine.connect()
