"""A policy whose inputs are recorded, and the same inputs given to another one."""

from collections.abc import Callable, Sequence
from typing import Any

from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.diloco.syncer.tally import Tally
from chaoslab.diloco.syncer.transfers import Transfers

Call = tuple[tuple[str, ...], tuple[object, ...], str]
"""A method, from the policy on; its arguments; and its result, as text because members change."""
_PARTS = (Membership, Rounds, Tally, Transfers)


class Recorded:
    """Passes everything on to a policy or a part of it, and records the calls."""

    def __init__(self, target: Any, calls: list[Call], place: tuple[str, ...] = ()) -> None:
        self._target, self._calls, self._place = target, calls, place

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, _PARTS):
            return Recorded(found, self._calls, (*self._place, name))
        return self._recording(found, (*self._place, name)) if callable(found) else found

    def _recording(
        self, method: Callable[..., object], place: tuple[str, ...]
    ) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            result = method(*arguments)
            self._calls.append((place, arguments, repr(result)))
            return result

        return call


def replay(calls: Sequence[Call], policy: Policy) -> None:
    """Make the same calls; each must have the same result, and no wake-up may be too late."""
    for number, (place, arguments, result) in enumerate(calls):
        method: Any = policy
        for name in place:
            method = getattr(method, name)
        made = method(*arguments)
        if place == ("next_s",):
            assert float(result) <= made, f"call {number}: {result} is later than {made}"
        else:
            assert repr(made) == result, f"call {number}: {place}{arguments}"
