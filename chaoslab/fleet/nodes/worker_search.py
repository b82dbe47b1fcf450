"""Workers that a launcher has started: found below it by rank.

    launcher ─┬─► a shell, torchrun, … ─┬─► RANK=0 ─► worker-0
              │                         └─► RANK=1 ─► worker-1
              └─ one pipe or file for all

A worker is the topmost process that has a rank in its environment. Where none has one, workers are
the children of the first process that has enough of them, in the order of their starts.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import psutil

from chaoslab.core import process_tree
from chaoslab.core.process_identity import Identity

_RANKS: Final = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK",
)  # fmt: skip
"""Ranks by torchrun, Open MPI, MPICH and Slurm; ignored if the launcher has one itself."""
_NAMELESS_S: Final = 1.0
"""How long enough children without a rank must have run to be taken for the workers: a process that
was forked a moment ago has the environment of its parent."""
QUIET_S: Final = 5.0
"""Time in which a launcher does something about a worker that has ended."""
ANSWER_S: Final = 35.0
"""Longest time until it is done, if other workers end as well: torchrun gives them 30 s."""
ENDING_S: Final = 30.0
"""The time that they have here, too, if chaoslab ends them."""
_TRACKER: Final = "multiprocessing.resource_tracker"
"""A helper process of Python that stands beside workers."""


class WorkerSearch:
    """The processes of the workers of one launcher, by rank."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._passed: set[Identity] = set()
        """Earlier processes beside workers without ranks."""
        self._since_s: float | None = None

    def find(self, launcher: Identity, known: Mapping[int, Identity]) -> Mapping[int, Identity]:
        """Workers that run now and are not `known` to."""
        found = {} if self._passed else ranked_below(launcher)
        found = found or self._by_order(launcher, known)
        return {rank: one for rank, one in found.items() if rank not in known}

    def find_at_once(self, launcher: Identity) -> Mapping[int, Identity]:
        """The same for a launcher whose workers have run for a while."""
        self._since_s = -_NAMELESS_S
        return self.find(launcher, {})

    def between(self, launcher: Identity, known: Sequence[Identity]) -> list[Identity]:
        """The launcher, and what runs between it and its workers."""
        ranked = set(ranked_below(launcher).values())

        def is_worker(one: Identity) -> bool:
            return one in known or one in ranked

        return [launcher, *(one for one in _below(launcher, is_worker) if not is_worker(one))]

    def _by_order(self, launcher: Identity, known: Mapping[int, Identity]) -> dict[int, Identity]:
        """New children of the first process that has enough of them take the free ranks."""
        parents = [launcher, *_below(launcher, lambda _: False)]
        families = map(_workers_among, map(process_tree.children, parents))
        siblings = next((one for one in families if len(one) >= self._count), [])
        if not siblings:
            self._since_s = None
            return {}
        self._since_s = self._since_s or time.monotonic()
        if not self._passed and time.monotonic() < self._since_s + _NAMELESS_S:
            return {}
        free = [rank for rank in range(self._count) if rank not in known]
        new = [one for one in siblings if one not in self._passed]
        self._passed.update(siblings)
        return dict(zip(free, new, strict=False))


def _below(main: Identity, is_end: Callable[[Identity], bool]) -> Iterator[Identity]:
    """All processes below it, level by level, but for those below one that `is_end`."""
    pending = [main]
    while pending:
        for child in process_tree.children(pending.pop(0)):
            yield child
            if not is_end(child):
                pending.append(child)


def _workers_among(children: Sequence[Identity]) -> list[Identity]:
    return [one for one in children if _TRACKER not in " ".join(command_of(one))]


def ranked_below(launcher: Identity) -> dict[int, Identity]:
    """The topmost processes below it that have a rank which it does not have itself."""
    own = environment_of(launcher)
    names = [name for name in _RANKS if name not in own]

    def rank_of(one: Identity) -> int | None:
        return rank_in(environment_of(one), names)

    found = {}
    for one in _below(launcher, lambda one: rank_of(one) is not None):
        if (rank := rank_of(one)) is not None:
            found[rank] = one
    return found


def rank_in(environment: Mapping[str, str], names: Iterable[str] = _RANKS) -> int | None:
    """The rank that it holds under the first of these names."""
    values = (environment.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), None)


def environment_of(one: Identity) -> Mapping[str, str]:
    """Environment at the start of its program; empty if it is gone, or may not be read."""
    try:
        return psutil.Process(one.pid).environ()
    except psutil.Error:
        return {}


def command_of(one: Identity) -> list[str]:
    """Its command line; empty if it is gone."""
    try:
        return psutil.Process(one.pid).cmdline()
    except psutil.Error:
        return []
