"""Operations of calls that the API accepted, followed until they have ended: some fail later.

call accepted ─► operation ─► follow ─┬─ done ───► forgotten
                                      └─ failed ─► told, until another call on that slice
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaoslab.fleet.provider import ProviderError, Refusal
from chaoslab.fleet.tpu.resources import Operation

if TYPE_CHECKING:
    from chaoslab.fleet.tpu.api import CloudTpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that was accepted."""

    verb: str
    node: str
    id: str
    """Id of the slice."""
    zone: str


class Operations:
    """Operations of one fleet. Its methods may be called from several threads."""

    def __init__(self, api: "CloudTpu") -> None:
        self._api = api
        self._calls: dict[str, Call] = {}
        """Calls by operation."""
        self._failed: dict[str, tuple[Call, str]] = {}
        """Last failed call and its error, by id."""

    def begin(self, operation: str, call: Call) -> None:
        """A call on a slice was accepted; what failed there before counts no more."""
        self._failed.pop(call.id, None)
        self._calls[operation] = call

    def follow(self) -> None:
        """Ask for all that have not ended. ProviderError if the API cannot be asked."""
        for operation, call in list(self._calls.items()):
            found = self._asked(operation)
            if not found.is_done:
                continue
            self._calls.pop(operation, None)
            if found.refusal is not None:
                self._failed[call.id] = call, f"{call.verb} failed: {found.detail}"

    def failed(self) -> Iterator[Call]:
        """Calls that failed, as far as they were followed."""
        yield from [call for call, _ in list(self._failed.values())]

    def failure(self, id_: str) -> str:
        """Error of the last call on a slice, as far as it was followed; empty without one."""
        return self._failed[id_][1] if id_ in self._failed else ""

    def forget(self, node: str) -> None:
        """Forget failures on slices of a node."""
        for call in self.failed():
            if call.node == node:
                self._failed.pop(call.id, None)

    def _asked(self, operation: str) -> Operation:
        try:
            return self._api.operation(operation)
        except ProviderError as error:
            if error.refusal is not Refusal.ABSENT:  # old ones are forgotten
                raise
            return Operation(name=operation, is_done=True)
