"""A provider in memory, whose slices do at once what is asked, and hosts of no fleet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

from chaoslab.core.errors import FleetError
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.remote.slices import RepairLimits
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.states import Condition, ProviderError, Refusal, SliceReport
from tests.fleet.tpu.conftest import inventory_of
from tests.waiting import PATIENCE_S

_AFTER = {
    SliceAct.TAKE: Condition.ABSENT,
    SliceAct.STOP: Condition.STOPPED,
    SliceAct.START: Condition.UP,
    SliceAct.MAINTENANCE: Condition.MAINTAINED,
}


class FakeProvider(TpuProvider):
    """One without an API. What a test puts into `refusals` is refused."""

    def __init__(self, repair: RepairLimits | None = None) -> None:
        no_api: Any = None
        super().__init__(inventory_of(repair=repair), no_api)
        self.reports = {
            name: SliceReport(node=name, condition=Condition.UP, resource=f"{name}-0")
            for name in self.nodes
        }
        self.calls: list[str] = []
        self.refusals: dict[str, ProviderError] = {}
        """By call, such as "request learner-1"."""
        self.after_request = Condition.UP
        self.why = ""
        self.after_do: Callable[[], object] = lambda: None
        """Happens before the answer to what was asked of a slice."""
        self._made = 0

    def turns(self, name: str, condition: Condition) -> None:
        """The provider says something else of a slice from now on."""
        self.reports[name] = replace(self.reports[name], condition=condition)

    def hosts(self, node: str) -> list[HostAddress]:
        self._called("hosts", node)
        return [HostAddress(address=self.reports[node].resource)]

    def look(self) -> Sequence[SliceReport]:
        self._called("look", "")
        return list(self.reports.values())

    def request(self, node: str, *, within_s: float | None = None) -> str:
        self._require_time()
        self._called("request", node)
        self._made += 1
        name = f"{node}-{self._made}"
        self.reports[node] = SliceReport(node=node, condition=self.after_request, resource=name)
        return name

    def delete(self, node: str) -> None:
        self._called("delete", node)
        self.turns(node, Condition.LEAVING)

    def do(self, act: SliceAct, node: str) -> None:
        if act is SliceAct.DELETE:
            self.delete(node)
            return
        if act is SliceAct.START:
            self._require_time()
        self._called(act, node)
        self.turns(node, _AFTER[act])
        self.after_do()

    def why_not(self) -> str:
        return self.why

    def changes(self) -> list[str]:
        """The calls that change something, in order."""
        return [one for one in self.calls if not one.startswith(("look", "hosts"))]

    def _called(self, verb: str, node: str) -> None:
        call = f"{verb} {node}".strip()
        self.calls.append(call)
        if call in self.refusals:
            raise self.refusals[call]


class FakeHosts:
    """Implements `manager.Hosts`: counts incarnations; those a test says cannot be reached."""

    def __init__(self) -> None:
        self.ready: list[tuple[str, str]] = []
        self.gone: list[str] = []
        self.taken_in: list[str] = []
        self.started: list[str] = []
        self.begun: list[str] = []
        self.unreachable: set[str] = set()
        """Addresses."""
        self.may_begin = Event()
        """Whether starts return."""
        self.may_begin.set()

    def make_ready(self, name: str, hosts: Sequence[HostAddress]) -> None:
        (host,) = hosts
        if host.address in self.unreachable:
            raise FleetError(f"{host.address} does not answer")
        self.ready.append((name, host.address))

    def take_in_hosts(self, name: str, hosts: Sequence[HostAddress]) -> Callable[[], None]:
        assert (name, hosts[0].address) in self.ready, "they were made ready before"
        self.taken_in.append(name)
        return lambda: self.started.append(name)

    def lose(self, name: str, why: str) -> None:
        self.gone.append(name)

    def begin(self, name: str, hosts: Sequence[HostAddress]) -> int:
        assert name in self.started, "its agents were started before"
        self.begun.append(name)
        self.may_begin.wait(PATIENCE_S)
        return 1 + self.begun.count(name)


def refusal(code: Refusal) -> ProviderError:
    return ProviderError(code, f"refused: {code}")
