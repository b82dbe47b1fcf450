"""The fake cloud, served, and what speaks to it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.fleet.remote.inventory import Inventory, LearnerPlace, SyncerPlace
from chaoslab.fleet.remote.slices import RepairLimits, TpuEntry
from chaoslab.fleet.tpu.api import CloudTpu
from chaoslab.fleet.tpu.provider import TpuProvider
from tests.fake_tpu import FakeCloud, served

ENTRY = TpuEntry(type="v5litepod-4", runtime="v2-alpha-tpuv5-lite", zone="us-east5-b", spot=True)
NODES = ("learner-0", "learner-1")


def inventory_of(
    learners: Sequence[str] = NODES, *, endpoint: str = "", repair: RepairLimits | None = None
) -> Inventory:
    """An inventory with a slice for each learner."""
    return Inventory(
        syncer=SyncerPlace(host="127.0.0.1"),
        learners=dict.fromkeys(learners, LearnerPlace(tpu=ENTRY)),
        name="vines",
        project="my-project",
        lifetime_s=3600.0,
        repair=repair or RepairLimits(),
        endpoint=endpoint,
    )


class Dial(WallClock):
    """A clock that a test turns; who sleeps by it lets `pace` times as much go by in the cloud."""

    pace = 1.0

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def sleep_until(self, time_s: float) -> None:
        self.time_s += self.pace * (time_s - self.time_s)


@dataclass(frozen=True, kw_only=True)
class Cloudy:
    """A fake cloud, its clock, and a client and a provider that speak to it."""

    fake: FakeCloud
    dial: Dial
    api: CloudTpu
    provider: TpuProvider

    def later(self, by_s: float) -> None:
        """Let time go by in the cloud."""
        self.dial.time_s += by_s

    def id_of(self, node: str) -> str:
        """The only slice of a node in the cloud."""
        (found,) = (one for one in self.fake.ids if node in one)
        return found

    def bring_up(self) -> None:
        """A slice for every node."""
        for node in self.provider.nodes:
            self.provider.request(node)
        self.later(1000.0)
        self.provider.look()
        self.later(1000.0)


def paused_by(sleep: Callable[[float], None]) -> SimpleNamespace:
    """A `time` for the client alone: other threads sleep on."""
    return SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


@contextmanager
def provided(fake: FakeCloud, repair: RepairLimits | None = None) -> Iterator[TpuProvider]:
    """A provider on a fake cloud that is served meanwhile."""
    with served(fake) as endpoint:
        inventory = inventory_of(endpoint=endpoint, repair=repair)
        provider = TpuProvider(inventory, CloudTpu(inventory.project, endpoint=endpoint))
        try:
            yield provider
        finally:
            provider.close()


@pytest.fixture
def cloudy() -> Iterator[Cloudy]:
    dial = Dial()
    fake = FakeCloud(clock=dial.now_s)
    with provided(fake) as provider:
        yield Cloudy(fake=fake, dial=dial, api=provider._api, provider=provider)
