"""Life of a fleet of slices outside of runs: brought up, taken down.

    confirmed by a person or --yes ─► bring_up: requested, waited for
                                      take_down: deleted, and seen to be gone

Only what has the fleet's label is deleted.
"""

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, TypeVar

from chaoslab.fleet.provider import LASTING, Condition, ProviderError, Refusal, SliceReport
from chaoslab.fleet.tpu.owned import Owned
from chaoslab.fleet.tpu.provider import TpuProvider

_LOOK_S: Final = 3.0
_T = TypeVar("_T")
GONE: Final = frozenset(
    {Condition.ABSENT, Condition.FAILED, Condition.PREEMPTED, Condition.LEAVING}
)
"""A slice in such a condition is requested anew."""


def bring_up(
    provider: TpuProvider,
    *,
    within_s: float,
    told: Callable[[SliceReport], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> Sequence[SliceReport]:
    """Request what is missing, start what is stopped, and wait; the last reports, up or not.

    Requests expire after the wait, or after `repair.wait` if that is longer. `told` is given each
    report that differs from the one before. ProviderError if refused: what was accepted before is
    in its words. While the provider does not answer, it is asked again.
    """
    requested = _request_missing(provider, max(within_s, provider.cloud.repair.wait_s))
    until_s = now_s() + within_s
    last: dict[str, SliceReport] = {}
    while True:
        reports = _retried(provider.look, until_s, sleep, now_s)
        for one in reports:
            if one != last.get(one.node):
                told(one)
            last[one.node] = one
        if all(_is_settled(one, requested) for one in reports) or now_s() >= until_s:
            return reports
        sleep(_LOOK_S)


def take_down(
    provider: TpuProvider,
    doomed: Collection[Owned],
    *,
    within_s: float,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> list[tuple[Owned, str]]:
    """Delete these and wait until the API does not list them any more.

    What is refused, or fails after it was accepted, is asked for again and keeps no other from
    being deleted. Returns those that are still listed when the time is over, and why.
    """
    ids, until_s = {one.id for one in doomed}, now_s() + within_s
    accepted, hopeless, why = set[str](), set[str](), dict[str, str]()
    left = list(doomed)
    while left:
        for one in left:
            if failure := _retried(partial(provider.failure_of, one.id), until_s, sleep, now_s):
                accepted.discard(one.id)
                why[one.id] = failure
            if one.condition is Condition.LEAVING or one.id in accepted | hopeless:
                continue
            try:
                provider.delete_owned(one)
                accepted.add(one.id)
            except ProviderError as error:
                why[one.id] = str(error)
                hopeless |= {one.id} if error.refusal in LASTING else set()
        found = _retried(provider.owned, until_s, sleep, now_s)
        left = [one for one in found if one.id in ids]
        if now_s() >= until_s or hopeless.issuperset(one.id for one in left):
            break
        sleep(_LOOK_S)
    return [(one, why.get(one.id, "")) for one in left]


def _request_missing(provider: TpuProvider, within_s: float) -> Collection[str]:
    """Request what is missing, after what is left of it was deleted, and start what is stopped; the
    nodes for which there is a new request.
    """
    requested: list[str] = []
    for report in provider.look():
        try:
            if report.condition in GONE:
                if report.resource:
                    provider.delete(report.node)
                provider.request(report.node, within_s=within_s)
                requested.append(report.node)
            elif report.condition is Condition.STOPPED:
                provider.start(report.node)
        except ProviderError as error:
            told = f"{report.node}: {error}"
            if requested:
                told += f"; requested before: {', '.join(requested)}"
                told += ", see `chaoslab doctor slices down`"
            raise ProviderError(error.refusal, told) from error
    return requested


def _retried(
    look: Callable[[], _T], until_s: float, sleep: Callable[[float], None],
    now_s: Callable[[], float],
) -> _T:  # fmt: skip
    """Result of `look`, once the provider answers. ProviderError when the time is over."""
    while True:
        try:
            return look()
        except ProviderError as error:
            if error.refusal is not Refusal.UNAVAILABLE or now_s() >= until_s:
                raise
        sleep(_LOOK_S)


def is_expired(one: Owned, wall_s: float) -> bool:
    """Whether the time that its fleet was given is over."""
    return one.ends_s <= wall_s


def _is_settled(report: SliceReport, requested: Collection[str]) -> bool:
    """Up, or a request of now that will never be."""
    is_lost = report.condition in (Condition.FAILED, Condition.PREEMPTED)
    return report.condition is Condition.UP or (is_lost and report.node in requested)
