"""What a plan needs of a Docker engine: the fleet `docker`, made for one plan.

    fleet.containers, training.data ─► ContainerFleets ─ engine, images ─► DockerFleet for each run

The engine is asked when it is needed and not before: a plan can be read without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.base import Ability, Fleet, NodeSite
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.plan.model import Containers, FaultPlan
from chaoslab.prepare.launch import Command, programs, task_trial
from chaoslab.prepare.task_trial import TRIAL_S, problem_in
from chaoslab.undo.base import UndoLog

if TYPE_CHECKING:
    from chaoslab.fleet.docker.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFleets:
    """Makes the fleets of one plan; see `conduct.FleetFactory`."""

    containers: Containers
    data: str
    modules: tuple[str, ...] = ()
    """What its nodes run, as by `python -m`."""
    trial: Command | None = None
    """What tries a task of the plan's own."""
    kind: str = "docker"

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it can do on the engine that answers; AbilityError if none does, or lacks images."""
        from chaoslab.fleet.docker.capabilities import lacking  # noqa: PLC0415
        from chaoslab.fleet.docker.fleet import ABILITIES  # noqa: PLC0415  # needs the SDK

        engine = _connect()
        try:
            image = self._require_image(engine)
            self._require_fitness(engine, image)
            self._require_trainable(engine, image)
            missing = frozenset() if self._releases(engine) else frozenset({Ability.UPGRADE})
            return ABILITIES - missing - lacking(engine.facts()).keys()
        finally:
            engine.close()

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """One for this run."""
        from chaoslab.fleet.docker.engine import Limits  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.fleet import DockerFleet, Setup  # noqa: PLC0415

        engine = _connect()
        machine = engine.facts()
        asked = self.containers
        setup = Setup(
            image=self._require_image(engine),
            limits=Limits(
                cpus=asked.cpus or float(str(machine["NCPU"])),
                memory_bytes=asked.memory_bytes or int(str(machine["MemTotal"])),
                processes=asked.processes,
            ),
            releases=self._releases(engine),
            mounts=self._mounts(engine),
        )
        return DockerFleet(
            run_directory, clock, undo_log=undo_log, engine=engine, setup=setup,
            node_links=node_links,
        )  # fmt: skip

    def _require_image(self, engine: "Engine") -> str:
        from chaoslab.fleet.docker.images import node_image  # noqa: PLC0415  # needs the SDK

        own = self.containers.image
        name = own or node_image()
        try:
            is_there = engine.image_id(name) is not None
        except FleetError as error:  # a name that cannot be one, for example
            raise AbilityError(str(error)) from error
        if not is_there:
            remedy = (
                "pull or build it there, or leave fleet.containers.image out"
                if own
                else "run `chaoslab images build`, or name another as fleet.containers.image"
            )
            raise AbilityError(f"the Docker engine at {engine.url} has no image {name}: {remedy}")
        return name

    def _require_fitness(self, engine: "Engine", image: str) -> None:
        """An image of somebody else's is tried; ours has all."""
        from chaoslab.fleet.docker.image_check import why_unfit  # noqa: PLC0415  # needs the SDK

        if self.containers.image and (why := why_unfit(engine, image, self.modules)):
            raise AbilityError(
                f"no node can run in the image {image} ({why}): begin its Dockerfile with an image "
                "of `chaoslab images list`, or leave fleet.containers.image out"
            )

    def _require_trainable(self, engine: "Engine", image: str) -> None:
        """A task of the plan's own is tried in the image and with the mounts that it would have."""
        from chaoslab.fleet.docker.engine import Limits  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.image_check import asked_of_image  # noqa: PLC0415

        mounts = self._mounts(engine)
        if self.trial is None:
            return
        facts = engine.facts()
        limits = Limits(
            cpus=float(str(facts["NCPU"])), memory_bytes=int(str(facts["MemTotal"])), processes=256
        )
        said = asked_of_image(
            engine, image, self.trial.argv, environment=self.trial.environment, mounts=mounts,
            limits=limits, within_s=TRIAL_S,
        )  # fmt: skip
        if (problem := problem_in(said, "")) is not None:
            raise AbilityError(f"training.task, tried in the image {image}: {problem}")

    def _releases(self, engine: "Engine") -> Mapping[str, str]:
        from chaoslab.fleet.docker.images import NEXT, next_image  # noqa: PLC0415  # needs the SDK

        name = next_image()
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
        return {path: path}


def containers(plan: FaultPlan) -> ContainerFleets:
    """The fleets that a plan asks for."""
    return ContainerFleets(
        containers=plan.fleet.containers,
        data=plan.training.data,
        modules=tuple(program.split()[0] for program in programs(plan).values()),
        trial=task_trial(plan, NodeSite(python="python3")),
    )


def _connect() -> "Engine":
    from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415  # needs the SDK

    return Engine.connect()
