"""The fake cloud, served, and what speaks to it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from chaoslab.fleet.tpu.api import CloudTpu
from chaoslab.fleet.tpu.provider import TpuProvider
from tests.fake_tpu import FakeCloud, served
from tests.fleet.local_slices import cloud_of


class Dial:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def turn(self, by_s: float) -> None:
        self.now_s += by_s


@dataclass(frozen=True, kw_only=True)
class Cloudy:
    """A fake cloud, its clock, and a client and a provider that speak to it."""

    fake: FakeCloud
    dial: Dial
    api: CloudTpu
    provider: TpuProvider
    endpoint: str

    def later(self, by_s: float) -> None:
        """Let time go by in the cloud."""
        self.dial.turn(by_s)

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


@pytest.fixture
def cloudy() -> Iterator[Cloudy]:
    dial = Dial()
    fake = FakeCloud(clock=dial)
    with served(fake) as endpoint:
        inventory = cloud_of(endpoint)
        api = CloudTpu(inventory.project, endpoint=endpoint)
        provider = TpuProvider(inventory, api)
        yield Cloudy(fake=fake, dial=dial, api=api, provider=provider, endpoint=endpoint)
        api.close()
