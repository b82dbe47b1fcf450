"""Workers that a launcher starts by itself: found below it, and each a node of its own.

    launcher ─┬─► a shell, torchrun, … ─┬─► RANK=0 ─► worker-0
    (node)    │                         └─► RANK=1 ─► worker-1
              └─ one pipe for all ─► trainer.said, of the worker whose rank stands before the line

A worker is the topmost process that has a rank in its environment. Where none has one, workers are
the children of the first process that has enough of them, in the order of their starts. None of
them is a child of the harness: how one ended is known if that is read before its launcher asks.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from chaoslab.core import process_tree
from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import Identity, is_running, is_same, wait_status
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place, signal_name
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.node_output import NodeOutput

_RANKS: Final = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK",
)  # fmt: skip
"""Of torchrun, Open MPI, MPICH and Slurm; one that the harness itself has tells nothing."""
_NAMELESS_S: Final = 1.0
"""How long enough children without a rank must have run to be taken for the workers: a process that
was forked a moment ago has the environment of its parent."""
_TRACKER: Final = "multiprocessing.resource_tracker"
"""A helper process of Python that stands beside workers."""


class LaunchedProcess(LocalProcess):
    """A worker, from the moment at which it was found."""

    def __init__(
        self, spec: NodeSpec, incarnation: int, place: Place, found: Identity, *, launcher: int,
        is_again: bool,
    ) -> None:  # fmt: skip
        """`launcher`: the incarnation of its launcher, and `is_again` whether that one had started
        an earlier life of it, too.
        """
        super().__init__(spec, incarnation, place)
        self.identity, self.launcher, self._is_again = found, launcher, is_again
        self._status: int | None = None
        self._files = IncarnationFiles(self._directory, place.clock)
        self._files.errors.touch()
        self._files.begun(spec, _command(found), found.facts)
        self._output = NodeOutput(spec, incarnation, self._files.log)

    @property
    def facts(self) -> Mapping[str, Json]:
        return {**super().facts, "started_by": "launcher"} if self._is_again else super().facts

    @property
    def has_exited(self) -> bool:
        if self.is_over:
            return True
        if self._status is None:
            self._status = wait_status(self.identity)
        return not (is_running(self.identity.pid) and is_same(self.identity))

    def finish(self) -> list[Observation]:
        self.is_over = True
        self.pending_undos.close_all()
        self._files.log.close()
        return self._report_exit([], self._ending(), 0)

    def _ending(self) -> dict[str, Json]:
        if self._status is None:
            return {"exit_code": None, "signal": next(reversed(self._sent), None), "is_seen": False}
        code = os.waitstatus_to_exitcode(self._status)
        by = signal_name(-code) if code < 0 else None
        return {"exit_code": None if by else code, "signal": by}

    def _write(self, line: bytes) -> None:
        raise BlockingIOError(f"{self.spec.name} has no standard input of the harness: {line!r}")


class WorkerSearch:
    """The processes of the workers of one launcher, by rank."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._passed: set[Identity] = set()
        """Of workers without ranks: all that were beside them before."""
        self._since_s: float | None = None

    def find(self, launcher: Identity, known: Mapping[int, Identity]) -> Mapping[int, Identity]:
        """Those that run now and are not `known` to."""
        found = {}
        if not self._passed:
            for one in _below(launcher, _has_rank):
                if (rank := _rank(one)) is not None:
                    found[rank] = one
        found = found or self._by_order(launcher, known)
        return {rank: one for rank, one in found.items() if rank not in known}

    def between(self, launcher: Identity, known: Sequence[Identity]) -> list[Identity]:
        """The launcher, and what runs between it and its workers."""

        def is_worker(one: Identity) -> bool:
            return one in known or _has_rank(one)

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
    return [one for one in children if _TRACKER not in " ".join(_command(one))]


def _has_rank(one: Identity) -> bool:
    return _rank(one) is not None


def _rank(one: Identity) -> int | None:
    """From its environment, as it was when its program started."""
    try:
        environment = Path(f"/proc/{one.pid}/environ").read_bytes()
    except OSError:
        return None
    values = dict(item.partition(b"=")[::2] for item in environment.split(b"\0"))
    for name in _RANKS:
        value = values.get(name.encode(), b"")
        if name not in os.environ and value.isdigit():
            return int(value)
    return None


def _command(one: Identity) -> list[str]:
    try:
        return psutil.Process(one.pid).cmdline()
    except psutil.Error:
        return []
