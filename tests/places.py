"""Places for whole runs: how `chaoslab run` is sent there, and what of a run is still there.

    PLACES[name](folder, hosts) ─► Place ─ asked(plan) ─► chaoslab run … ─► record
                                     └──── left(record) ─► [] once nothing of it is there

A place whose requirements are missing skips the test.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from chaoslab.prepare.plans import Asked
from tests.ssh_runs import fleet_of_hosts, left_on
from tests.whole_runs import left_over


def _nothing(_record: Path) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A fleet that runs can be sent to."""

    fleet: str
    settings: tuple[str, ...] = ()
    inventory: str | None = None
    left: Callable[[Path], Sequence[str]] = _nothing
    """What of the run with this record is there, beside the record."""

    def asked(self, plan: str, *settings: str) -> Asked:
        """A plan on this fleet."""
        every = (*self.settings, *settings)
        return Asked(plan=plan, fleet=self.fleet, settings=every, inventory=self.inventory)

    def words(self, plan: str, *settings: str) -> Sequence[str]:
        """The same for the command line: the plan, then the options."""
        return shlex.split(self.asked(plan, *settings).again())


@contextmanager
def local(_folder: Path, _hosts: Sequence[int]) -> Iterator[Place]:
    """Processes of this machine."""
    yield Place(fleet="local", left=lambda record: [str(one) for one in left_over(record)])


@contextmanager
def sim(_folder: Path, _hosts: Sequence[int]) -> Iterator[Place]:
    """A simulation, which starts nothing and so can leave nothing."""
    yield Place(fleet="sim")


@contextmanager
def ssh(folder: Path, hosts: Sequence[int]) -> Iterator[Place]:
    """Hosts with a real sshd: one for the syncer, and as many for each learner as it asks for."""
    with fleet_of_hosts(folder, *hosts) as (inventory, there):
        yield Place(fleet="ssh", inventory=str(inventory), left=lambda _: left_on(there))


@contextmanager
def docker(_folder: Path, _hosts: Sequence[int]) -> Iterator[Place]:
    """Containers of the engine."""
    from tests.docker_runs import engine_with_images, left_on_engine  # noqa: PLC0415  # needs the SDK

    with closing(engine_with_images()) as engine:
        yield Place(fleet="docker", left=partial(left_on_engine, engine))


@contextmanager
def kubernetes(_folder: Path, _hosts: Sequence[int]) -> Iterator[Place]:
    """Pods of the test cluster."""
    from tests import cluster  # noqa: PLC0415  # needs lightkube

    where = {"context": cluster.CONTEXT, "namespace": cluster.NAMESPACE, "image_pull": "Never",
             "disk": "50MB"}  # fmt: skip
    settings = tuple(f"fleet.{key}={value}" for key, value in where.items())
    with pytest.MonkeyPatch.context() as patched, cluster.cluster(patched) as here:
        left = partial(cluster.left_in_cluster, here)
        yield Place(fleet="kubernetes", settings=settings, left=left)


PLACES: Mapping[str, Callable[[Path, Sequence[int]], AbstractContextManager[Place]]] = {
    "local": local, "ssh": ssh, "docker": docker, "kubernetes": kubernetes, "sim": sim,
}  # fmt: skip
MARKS: Mapping[str, Sequence[pytest.MarkDecorator]] = {
    "docker": [pytest.mark.docker], "kubernetes": [pytest.mark.kubernetes],
}  # fmt: skip
"""Of a test on a place."""
