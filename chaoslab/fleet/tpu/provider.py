"""Provider on Cloud TPU: the slices of one inventory, known by their labels.

    inventory ─► request ─► queued resource FLEET-NODE-TIME ─► slice of the same name
                                  labels chaoslab-fleet, chaoslab-node, chaoslab-until on both

Every slice has a name of its own: a new one is requested while the API still deletes the former.
Whatever lacks the labels of this fleet, or such a name, is not seen, and so never touched. An
accepted call may still fail: its operation is looked at until it has ended, and reports tell of it.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.fleet.provider import (
    Condition,
    ProvidedHost,
    ProviderError,
    Refusal,
    SliceReport,
)
from chaoslab.fleet.tpu.inventory import Cloud
from chaoslab.fleet.tpu.operations import Call, Operations
from chaoslab.fleet.tpu.owned import FLEET, NODE, UNTIL, Owned
from chaoslab.fleet.tpu.resources import Request, Slice

if TYPE_CHECKING:
    from chaoslab.fleet.tpu.api import CloudTpu

_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_CREATE: Final = "create"


class TpuProvider:
    """See `fleet.provider.Provider`. Its calls may come from several threads."""

    def __init__(
        self, cloud: Cloud, api: "CloudTpu", *, wall_s: Callable[[], float] = time.time
    ) -> None:
        """`wall_s`: seconds since the epoch."""
        for node in cloud.slices:
            if not _NODE.fullmatch(node):
                raise PlanError(
                    f"a learner on a slice has a name of at most 30 small letters, digits and -, "
                    f"got {node!r}",
                    key="learners",
                )
        self.cloud, self._api, self._wall_s = cloud, api, wall_s
        self._taken: set[str] = set()
        """Ids of slices that chaoslab itself has asked to be deleted."""
        self._names: set[str] = set()
        """Ids that the fleet has, or had."""
        self._unanswered: dict[str, str] = {}
        """Id of the request that may not have arrived, by node."""
        self._operations = Operations(api)
        self._ends_s = math.inf
        """End of its slices' time, by their labels."""

    @property
    def nodes(self) -> Sequence[str]:
        """Learners with a slice by the inventory."""
        return tuple(self.cloud.slices)

    # ---------------------------------------------------------------- looking

    def owned(self) -> list[Owned]:
        """All of this fleet that the API knows, of nodes of the inventory or not, in order."""
        found: dict[str, Owned] = {}
        for zone in self._zones():
            slices = {one.id: one for one in self._api.slices(zone) if self._is_ours(one)}
            requests = {one.id: one for one in self._api.requests(zone) if self._is_ours(one)}
            for id_ in sorted({*slices, *requests}):
                slice_, request = slices.get(id_), requests.get(id_)
                labels = slice_.labels if slice_ else request.labels if request else {}
                node = labels.get(NODE, "")
                found[id_] = Owned(node=node, id=id_, zone=zone, slice=slice_, request=request)
        self._names.update(found)
        present = [one for one in found.values() if one.condition is not Condition.LEAVING]
        self._ends_s = min([self._ends_s, *(one.ends_s for one in present)])
        return list(found.values())

    def look(self) -> Sequence[SliceReport]:
        """A report for each node of the inventory: of its newest slice, or the request for one."""
        newest = self._newest()
        self._operations.follow()
        for call in self._operations.failed():
            former = newest.get(call.node)
            if call.verb == _CREATE and (former is None or former.id < call.id):
                newest[call.node] = Owned(
                    node=call.node, id=call.id, zone=call.zone, slice=None, request=None
                )
        return [self._report(node, newest.get(node)) for node in self.nodes]

    def hosts(self, node: str) -> tuple[ProvidedHost, ...]:
        """The hosts of its slice, with the host keys that they have published."""
        found = self._newest().get(node)
        if found is None or found.slice is None or found.condition is not Condition.UP:
            said = found.condition.value if found else Condition.ABSENT.value
            raise FleetError(f"the slice of {node} is {said}: see `chaoslab doctor slices status`")
        if difference := self._difference(node, found.slice):
            raise FleetError(
                f"the slice of {node}: {difference}: `chaoslab doctor slices down` deletes it"
            )
        wanted = self.cloud.slices[node].accelerator.hosts
        if len(found.slice.addresses) != wanted:
            raise FleetError(
                f"the slice of {node} has {len(found.slice.addresses)} addresses, not {wanted}"
            )
        keys = self._api.host_keys(found.zone, found.id)
        keys += [()] * (wanted - len(keys))
        return tuple(
            ProvidedHost(address=address, host_keys=key)
            for address, key in zip(found.slice.addresses, keys, strict=False)
        )

    def why_not(self) -> str:
        if self._wall_s() < self._ends_s:
            return ""
        return f"the slices of {self.cloud.name} may not exist any longer: their time is over"

    # ---------------------------------------------------------------- changing

    def request(self, node: str, *, within_s: float | None = None) -> str:
        """Queue a request for a slice; returns the name of both.

        It expires after `within_s`, by default after `repair.wait`. After a call without an answer,
        the next one asks for the same slice, so that there is one of them.
        """
        entry, name = self.cloud.slices[node], self._unanswered.get(node) or self._new_name(node)
        until_s = min(self._ends_s, self._wall_s() + self.cloud.lifetime_s)
        self._unanswered[node] = name
        try:
            operation = self._api.request(
                entry,
                request_id=name,
                slice_id=name,
                labels={FLEET: self.cloud.name, NODE: node, UNTIL: str(int(until_s))},
                public_key=self.cloud.public_key,
                within_s=within_s or self.cloud.repair.wait_s,
            )
            created = Call(verb=_CREATE, node=node, id=name, zone=entry.zone)
            self._operations.begin(operation, created)
        except ProviderError as error:
            if error.refusal is Refusal.UNAVAILABLE:
                raise
            if error.refusal is not Refusal.EXISTS or not self._has(name):
                self._unanswered.pop(node, None)
                raise
        self._unanswered.pop(node, None)
        return name

    def delete(self, node: str) -> None:
        """Delete every slice of the node, with its request."""
        self._unanswered.pop(node, None)
        self._operations.forget(node)
        for one in self.owned():
            if one.node == node and one.condition is not Condition.LEAVING:
                self.delete_owned(one)

    def delete_owned(self, one: Owned) -> None:
        """Delete one slice with its request; nothing if it is gone."""
        self._taken.add(one.id)
        verb = self._api.delete_slice if one.request is None else self._api.delete_request
        try:
            self._change("delete", verb, one)
        except ProviderError as error:
            if error.refusal is not Refusal.ABSENT:
                raise

    def failure_of(self, id_: str) -> str:
        """Error of the last accepted call on this slice; empty without one."""
        self._operations.follow()
        return self._operations.failure(id_)

    def take(self, node: str) -> None:
        """Delete its slice; the request stays, suspended."""
        one = self._present(node)
        self._taken.add(one.id)
        self._change("delete", self._api.delete_slice, one)

    def stop(self, node: str) -> None:
        self._change("stop", self._api.stop_slice, self._present(node))

    def start(self, node: str) -> None:
        self._change("start", self._api.start_slice, self._present(node))

    def maintain(self, node: str) -> None:
        self._change("maintain", self._api.simulate_maintenance, self._present(node))

    # ---------------------------------------------------------------- inside

    def _change(self, verb: str, call: Callable[[str, str], str], one: Owned) -> None:
        operation = call(one.zone, one.id)
        accepted = Call(verb=verb, node=one.node, id=one.id, zone=one.zone)
        self._operations.begin(operation, accepted)

    def _new_name(self, node: str) -> str:
        """A name that no slice of the fleet has had, later than all of the node's."""
        number = int(self._wall_s())
        while (name := f"{self.cloud.name}-{node}-{_short(number)}") in self._names:
            number += 1
        self._names.add(name)
        return name

    def _present(self, node: str) -> Owned:
        found = self._newest().get(node)
        if found is None or found.slice is None:
            raise ProviderError(Refusal.ABSENT, f"{node} has no slice")
        return found

    def _newest(self) -> dict[str, Owned]:
        """Names end with the time of the request, so the last one is the newest."""
        return {one.node: one for one in sorted(self.owned(), key=lambda one: one.id)}

    def _has(self, id_: str) -> bool:
        return any(one.id == id_ for one in self.owned())

    def _zones(self) -> Iterator[str]:
        yield from dict.fromkeys(entry.zone for entry in self.cloud.slices.values())

    def _is_ours(self, one: Slice | Request) -> bool:
        node = one.labels.get(NODE, "")
        named = one.id.startswith(f"{self.cloud.name}-{node}-")
        return bool(node) and named and one.labels.get(FLEET) == self.cloud.name

    def _report(self, node: str, one: Owned | None) -> SliceReport:
        if one is None:
            return SliceReport(node=node, condition=Condition.ABSENT)
        slice_, request = one.slice, one.request
        failure = self._operations.failure(one.id)
        is_nothing = slice_ is None and request is None
        difference = self._difference(node, slice_)
        told = (
            slice_.detail if slice_ else "",
            request.detail if request else "",
            failure,
            difference,
        )
        return SliceReport(
            node=node,
            condition=Condition.FAILED if is_nothing else one.condition,
            resource=one.id,
            state=slice_.state if slice_ else "",
            health=slice_.health if slice_ else "",
            request=request.state if request else "",
            detail="; ".join(filter(None, told)),
            is_as_written=not difference,
            is_gone_by_us=one.id in self._taken,
        )

    def _difference(self, node: str, slice_: Slice | None) -> str:
        """Difference of a slice from the inventory, as a sentence; empty without one."""
        wanted = self.cloud.slices[node].type
        if slice_ is None or slice_.type in ("", wanted):
            return ""
        return f"it is a {slice_.type}, and the inventory says {wanted}"


def _short(number: int) -> str:
    """Number in base 36; of times until 2059 always six digits, so that names sort by time."""
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits
