"""Provider of slices: those of one inventory at Google's API, known by their labels.

    inventory ─► request ─► queued resource FLEET-NODE-TIME ─► slice of the same name
                                  labels chaoslab-fleet, chaoslab-node, chaoslab-until on both

Every slice has a name of its own: a new one is requested while the API still deletes the former.
Whatever lacks the labels of this fleet, or such a name, is not seen, and so never touched. Calls
return when they are accepted, and may still fail: the operation of each is looked at until it has
ended, and reports tell of it.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.tpu.states import (
    FLEET,
    NODE,
    UNTIL,
    Condition,
    ProviderError,
    Refusal,
    SliceReport,
)

if TYPE_CHECKING:
    from chaoslab.fleet.tpu.api import CloudTpu

_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_CREATE: Final = "create"


class _Call(NamedTuple):
    """A call that was accepted."""

    verb: str
    node: str
    zone: str
    id: str
    error: str = ""
    """What it ended with."""


class TpuProvider:
    """Gives, watches and takes back slices. Its calls may come from several threads."""

    def __init__(
        self, inventory: Inventory, api: "CloudTpu", *, wall_s: Callable[[], float] = time.time
    ) -> None:
        """`wall_s`: seconds since the epoch. PlanError if the inventory has no slices, or names
        that cannot be.
        """
        self.inventory, self._slices = inventory, inventory.require_slices()
        for node in self._slices:
            if not _NODE.fullmatch(node):
                raise PlanError(
                    f"a learner on a slice has a name of at most 30 small letters, digits and -, "
                    f"got {node!r}",
                    key="learners",
                )
        self._api, self._wall_s = api, wall_s
        self._taken: set[str] = set()
        """Names of slices that chaoslab itself has asked to be deleted."""
        self._names: set[str] = set()
        """Names that the fleet has, or had."""
        self._unanswered: dict[str, str] = {}
        """Name of the request that may not have arrived, by node."""
        self._calls: dict[str, _Call] = {}
        """Calls by operation, until that has ended."""
        self._failed: dict[str, _Call] = {}
        """The last call that has failed, by name of the slice, until another call on it."""
        self._ends_s = math.inf
        """End of its slices' time, by their labels."""

    def close(self) -> None:
        """End the connections to the API."""
        self._api.close()

    @property
    def nodes(self) -> Sequence[str]:
        """Learners with a slice by the inventory."""
        return tuple(self._slices)

    # ---------------------------------------------------------------- looking

    def owned(self) -> list[SliceReport]:
        """All of this fleet that the API knows, of nodes of the inventory or not, in order."""
        zones = dict.fromkeys(entry.zone for entry in self._slices.values())
        listed = [one for zone in zones for one in self._api.look(zone)]
        found = [self._as_ours(one) for one in listed if self._is_ours(one)]
        self._names.update(one.resource for one in found)
        there = (one.ends_s for one in found if one.condition is not Condition.LEAVING)
        self._ends_s = min([self._ends_s, *there])
        return found

    def look(self) -> Sequence[SliceReport]:
        """A report for each node of the inventory: of its newest slice, or the request for one."""
        self._follow()
        newest = self._newest()
        for call in list(self._failed.values()):
            if call.verb == _CREATE and newest[call.node].resource < call.id:
                newest[call.node] = SliceReport(
                    node=call.node,
                    condition=Condition.FAILED,
                    resource=call.id,
                    zone=call.zone,
                    detail=call.error,
                )
        return [newest[node] for node in self._slices]

    def hosts(self, node: str) -> list[HostAddress]:
        """The hosts of its slice, worker 0 first, with the host keys that they have published.
        FleetError while it is not up, or not as the inventory says.
        """
        found = self._newest()[node]
        if found.condition is not Condition.UP:
            raise FleetError(
                f"the slice of {node} is {found.condition.value}: see `chaoslab doctor slices "
                "status`"
            )
        if found.difference:
            raise FleetError(
                f"the slice of {node}: {found.difference}: `chaoslab doctor slices down` deletes it"
            )
        wanted = self._slices[node].accelerator.hosts
        if len(found.addresses) != wanted:
            raise FleetError(
                f"the slice of {node} has {len(found.addresses)} addresses, not {wanted}"
            )
        keys = self._api.host_keys(found.zone, found.resource)
        keys += [()] * (wanted - len(keys))
        return [
            HostAddress(address=address, host_keys=key)
            for address, key in zip(found.addresses, keys, strict=False)
        ]

    def why_not(self) -> str:
        """Why no slice may be requested any more, by their time; empty if one may. No call."""
        if self._wall_s() < self._ends_s:
            return ""
        return f"the slices of {self.inventory.name} may not exist any longer: their time is over"

    def failure_of(self, name: str) -> str:
        """Error of the last accepted call on this slice; empty without one."""
        self._follow()
        return self._error_on(name)

    # ---------------------------------------------------------------- changing

    def request(self, node: str, *, within_s: float | None = None) -> str:
        """Queue a request for a slice; returns the name of both. ProviderError.

        It expires after `within_s`, by default after `repair.wait`. After a call without an answer,
        the next one asks for the same slice, so that there is one of them.
        """
        self._require_time()
        entry, name = self._slices[node], self._unanswered.get(node) or self._new_name(node)
        until_s = min(self._ends_s, self._wall_s() + self.inventory.lifetime_s)
        self._unanswered[node] = name
        try:
            operation = self._api.request(
                entry,
                slice_id=name,
                labels={FLEET: self.inventory.name, NODE: node, UNTIL: str(int(until_s))},
                public_key=self.inventory.public_key,
                within_s=within_s or self.inventory.repair.wait_s,
            )
            self._begin(operation, _Call(_CREATE, node, entry.zone, name))
        except ProviderError as error:
            if error.refusal is Refusal.UNAVAILABLE:
                raise
            is_ours = error.refusal is Refusal.EXISTS and any(
                one.resource == name for one in self.owned()
            )
            if not is_ours:
                self._unanswered.pop(node, None)
                raise
        self._unanswered.pop(node, None)
        return name

    def delete(self, node: str) -> None:
        """Delete every slice of the node, with its request; nothing if there is none."""
        self._unanswered.pop(node, None)
        for call in list(self._failed.values()):
            if call.node == node:
                self._failed.pop(call.id, None)
        for one in self.owned():
            if one.node == node and one.condition is not Condition.LEAVING:
                self.delete_owned(one)

    def delete_owned(self, one: SliceReport) -> None:
        """Delete one slice with its request; nothing if it is gone."""
        self._taken.add(one.resource)
        try:
            operation = (
                self._api.delete_request(one.zone, one.resource)
                if one.request
                else self._api.do(SliceAct.TAKE, one.zone, one.resource)
            )
        except ProviderError as error:
            if error.refusal is not Refusal.ABSENT:
                raise
        else:
            self._begin(operation, _Call("delete", one.node, one.zone, one.resource))

    def do(self, act: SliceAct, node: str) -> None:
        """Do this to the slice of a node. ProviderError."""
        if act is SliceAct.DELETE:
            self.delete(node)
            return
        if act is SliceAct.START:
            self._require_time()
        one = self._newest()[node]
        if not one.state:
            raise ProviderError(Refusal.ABSENT, f"{node} has no slice")
        if act is SliceAct.TAKE:
            self._taken.add(one.resource)
        operation = self._api.do(act, one.zone, one.resource)
        self._begin(operation, _Call(act.value, node, one.zone, one.resource))

    # ---------------------------------------------------------------- inside

    def _require_time(self) -> None:
        if why := self.why_not():
            raise ProviderError(Refusal.EXPIRED, why)

    def _begin(self, operation: str, call: _Call) -> None:
        """A call on a slice was accepted; what failed there before counts no more."""
        self._failed.pop(call.id, None)
        self._calls[operation] = call

    def _follow(self) -> None:
        """Ask for all operations that have not ended. ProviderError if that cannot be asked."""
        for operation, call in list(self._calls.items()):
            error = self._api.error_of(operation)
            if error is not None:
                self._calls.pop(operation, None)
            if error:
                self._failed[call.id] = call._replace(error=f"{call.verb} failed: {error}")

    def _error_on(self, name: str) -> str:
        call = self._failed.get(name)
        return call.error if call else ""

    def _new_name(self, node: str) -> str:
        """A name that no slice of the fleet has had, later than all of the node's."""
        number = int(self._wall_s())
        while (name := f"{self.inventory.name}-{node}-{_short(number)}") in self._names:
            number += 1
        self._names.add(name)
        return name

    def _newest(self) -> dict[str, SliceReport]:
        """Names end with the time of the request, so the last one is the newest."""
        absent = [SliceReport(node=node, condition=Condition.ABSENT) for node in self._slices]
        found = sorted([*absent, *self.owned()], key=lambda one: one.resource)
        return {one.node: one for one in found}

    def _is_ours(self, one: SliceReport) -> bool:
        named = one.resource.startswith(f"{self.inventory.name}-{one.node}-")
        return bool(one.node) and named and one.labels.get(FLEET) == self.inventory.name

    def _as_ours(self, one: SliceReport) -> SliceReport:
        """With what only this fleet knows of it."""
        entry, difference = self._slices.get(one.node), ""
        if entry and one.type not in ("", entry.type):
            difference = f"it is a {one.type}, and the inventory says {entry.type}"
        detail = "; ".join(filter(None, (one.detail, self._error_on(one.resource), difference)))
        is_by_us = one.resource in self._taken
        return replace(one, detail=detail, difference=difference, is_gone_by_us=is_by_us)


def open_provider(inventory: Inventory) -> TpuProvider:
    """The provider of an inventory. AbilityError without the client library or credentials."""
    try:
        from chaoslab.fleet.tpu.api import CloudTpu  # noqa: PLC0415  # google
    except ImportError as error:
        raise AbilityError(
            f"the Cloud TPU client is not installed ({error}): pip install 'chaoslab[tpu]'"
        ) from error
    return TpuProvider(inventory, CloudTpu(inventory.project, endpoint=inventory.endpoint))


def _short(number: int) -> str:
    """Number in base 36; of times until 2059 always six digits, so that names sort by time."""
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits
