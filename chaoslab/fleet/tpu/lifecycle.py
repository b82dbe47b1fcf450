"""Life of a fleet of slices outside of runs: claimed, brought up, taken down.

    claim ─► confirmed by a person or --yes ─► bring_up: requested, waited for
                                               take_down: deleted, and seen to be gone

One process of a machine at a time creates, replaces or deletes the slices of a fleet: two runs on
them would each replace what the other has deleted. The lock is the kernel's, on a file below the
caller's home, and ends with the process however that ends. Between machines nothing keeps two of
them apart. Only what has the fleet's label is deleted.
"""

import fcntl
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock, WallClock
from chaoslab.core.errors import AbilityError
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.states import (
    LASTING,
    LOST,
    Condition,
    ProviderError,
    Refusal,
    SliceReport,
)

_LOOK_S: Final = 3.0
_claimed: Final[dict[Path, int]] = {}
"""Open files of the claims of this process: closing one would end its claim."""


def claim(inventory: Inventory) -> None:
    """Have the slices of a fleet until this process ends. AbilityError if another process has them.

    Nothing if this process has them already.
    """
    words = filter(None, (inventory.project, inventory.name, inventory.endpoint))
    path = Path.home() / ".chaoslab" / "fleets" / f"{'.'.join(words)}.lock"
    if path in _claimed:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise AbilityError(
            f"process {owner} works with the slices of {inventory.name}: wait for its end, or end "
            f"it (a run: `chaoslab halt`) [{error.strerror}]"
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    _claimed[path] = lock


def bring_up(
    provider: TpuProvider,
    *,
    within_s: float,
    told: Callable[[SliceReport], None] = lambda _: None,
    clock: Clock | None = None,
) -> Sequence[SliceReport]:
    """Request what is missing, start what is stopped, and wait; the last reports, up or not.

    Requests expire after the wait, or after `repair.wait` if that is longer. `told` is given each
    report that differs from the one before. ProviderError if refused: what was accepted before is
    in its words. While the provider does not answer, it is asked again.
    """
    requested = _request_missing(provider, max(within_s, provider.inventory.repair.wait_s))
    last: dict[str, SliceReport] = {}

    def are_settled() -> bool:
        for one in provider.look():
            if one != last.get(one.node):
                told(one)
            last[one.node] = one
        return all(_is_settled(one, requested) for one in last.values())

    _ask_until(are_settled, within_s, clock or WallClock())
    return list(last.values())


def take_down(
    provider: TpuProvider,
    doomed: Collection[SliceReport],
    *,
    within_s: float,
    clock: Clock | None = None,
) -> list[tuple[SliceReport, str]]:
    """Delete these and wait until the API does not list them any more.

    What is refused, or fails after it was accepted, is asked for again and keeps no other from
    being deleted. Returns those that are still listed when the time is over, and why.
    """
    left = {one.resource: one for one in doomed}
    accepted, hopeless, why = set[str](), set[str](), dict[str, str]()

    def are_gone() -> bool:
        for name, one in left.items():
            if failure := provider.failure_of(name):
                accepted.discard(name)
                why[name] = failure
            if one.condition is Condition.LEAVING or name in accepted | hopeless:
                continue
            try:
                provider.delete_owned(one)
                accepted.add(name)
            except ProviderError as error:
                why[name] = str(error)
                hopeless.update({name} if error.refusal in LASTING else ())
        found = {one.resource: one for one in provider.owned() if one.resource in left}
        left.clear()
        left.update(found)
        return hopeless.issuperset(left)

    _ask_until(are_gone, within_s, clock or WallClock())
    return [(one, why.get(name, "")) for name, one in left.items()]


def _ask_until(is_over: Callable[[], bool], within_s: float, clock: Clock) -> None:
    """Ask again and again, also while the provider does not answer: ProviderError if it does not
    when the time is over.
    """
    until_s = clock.now_s() + within_s
    while True:
        try:
            if is_over():
                return
        except ProviderError as error:
            if error.refusal is not Refusal.UNAVAILABLE or clock.now_s() >= until_s:
                raise
        if clock.now_s() >= until_s:
            return
        clock.sleep_until(clock.now_s() + _LOOK_S)


def _request_missing(provider: TpuProvider, within_s: float) -> Collection[str]:
    """Request what is missing, after what is left of it was deleted, and start what is stopped; the
    nodes for which there is a new request.
    """
    requested: list[str] = []
    for report in provider.look():
        try:
            if report.condition in LOST:
                if report.resource:
                    provider.delete(report.node)
                provider.request(report.node, within_s=within_s)
                requested.append(report.node)
            elif report.condition is Condition.STOPPED:
                provider.do(SliceAct.START, report.node)
        except ProviderError as error:
            told = f"{report.node}: {error}"
            if requested:
                told += f"; requested before: {', '.join(requested)}"
                told += ", see `chaoslab doctor slices down`"
            raise ProviderError(error.refusal, told) from error
    return requested


def _is_settled(report: SliceReport, requested: Collection[str]) -> bool:
    """Up, or a request of now that will never be."""
    is_lost = report.condition in (Condition.FAILED, Condition.PREEMPTED)
    return report.condition is Condition.UP or (is_lost and report.node in requested)
