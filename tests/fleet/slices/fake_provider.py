"""A provider in memory, whose slices do at once what is asked, and hosts of no fleet."""

from collections.abc import Sequence
from dataclasses import replace

from chaoslab.core.errors import FleetError
from chaoslab.fleet.provider import Condition, ProvidedHost, ProviderError, Refusal, SliceReport

NODES = ("learner-0", "learner-1")


class FakeProvider:
    """Implements `fleet.provider.Provider`. What a test puts into `refusals` is refused."""

    def __init__(self) -> None:
        self.reports = {
            name: SliceReport(node=name, condition=Condition.UP, resource=f"{name}-0")
            for name in NODES
        }
        self.calls: list[str] = []
        self.refusals: dict[str, ProviderError] = {}
        """By call, such as "request learner-1"."""
        self.after_request = Condition.UP
        self.why = ""
        self._made = 0

    @property
    def nodes(self) -> Sequence[str]:
        return NODES

    def turns(self, name: str, condition: Condition) -> None:
        """The provider says something else of a slice from now on."""
        self.reports[name] = replace(self.reports[name], condition=condition)

    def hosts(self, node: str) -> tuple[ProvidedHost, ...]:
        self._called("hosts", node)
        return (ProvidedHost(address=self.reports[node].resource),)

    def look(self) -> Sequence[SliceReport]:
        self._called("look", "")
        return list(self.reports.values())

    def request(self, node: str) -> str:
        self._called("request", node)
        self._made += 1
        name = f"{node}-{self._made}"
        self.reports[node] = SliceReport(node=node, condition=self.after_request, resource=name)
        return name

    def delete(self, node: str) -> None:
        self._called("delete", node)
        self.turns(node, Condition.LEAVING)

    def take(self, node: str) -> None:
        self._called("take", node)
        self.turns(node, Condition.ABSENT)

    def stop(self, node: str) -> None:
        self._called("stop", node)
        self.turns(node, Condition.STOPPED)

    def start(self, node: str) -> None:
        self._called("start", node)
        self.turns(node, Condition.UP)

    def maintain(self, node: str) -> None:
        self._called("maintain", node)
        self.turns(node, Condition.MAINTAINED)

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
        self.rehosted: list[tuple[str, str]] = []
        self.gone: list[str] = []
        self.taken_in: list[str] = []
        self.begun: list[str] = []
        self.unreachable: set[str] = set()
        """Addresses."""

    def make_ready(self, name: str, hosts: Sequence[ProvidedHost]) -> None:
        (host,) = hosts
        if host.address in self.unreachable:
            raise FleetError(f"{host.address} does not answer")
        self.rehosted.append((name, host.address))

    def take_in_hosts(self, name: str) -> None:
        assert name in {one for one, _ in self.rehosted}, "they were made ready before"
        self.taken_in.append(name)

    def start_hosts(self, name: str) -> None:
        assert name in self.taken_in, "its entry is written before"

    def lose(self, name: str, why: str) -> None:
        self.gone.append(name)

    def begin(self, name: str) -> int:
        self.begun.append(name)
        return 1 + self.begun.count(name)


def refusal(code: Refusal) -> ProviderError:
    return ProviderError(code, f"refused: {code}")
