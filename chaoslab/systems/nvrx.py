"""Adapter for NVRx's in-process restart: data parallelism over gloo, restarted in each process.

    learner ─ Wrapper ─► training function: gradients ═ all_reduce over gloo ═ update
       │        ▲            │ raises, is lost or stalls on any rank
       │        └────────────┘ all: abort, barrier, fewer ranks, from the newest checkpoint
       └─ monitor process (NVRx's): heartbeats; ends a learner that stalls
    store ◄── faults, barriers, heartbeats ── by the learner of rank 0, or the central service

NVRx is `nvidia_resiliency_ext.inprocess` 0.4.1. Ranks are places in the roster, as a launcher gives
them out, once. What is lost stays lost: NVRx only makes the world smaller, and refuses a process
that comes with a rank that it had before; that ends the process with NVRx's error. For CPUs its
defaults serve but for two things: no CUDA health check, which it does not have by default either,
and gloo's timeout, which is the 10 s of its example, since its abort ends no collective of gloo.
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from nvidia_resiliency_ext.inprocess import CallWrapper, Wrapper
from nvidia_resiliency_ext.inprocess.store import StoreMixin

from chaoslab.systems import data_parallel, torch_store

if TYPE_CHECKING:
    from chaoslab.systems.learner import Learner

_TIMES = ("soft_timeout", "hard_timeout", "heartbeat_timeout", "last_call_wait")
"""Settings of its wrapper, by its own names."""
_GLOO_S = 10.0
"""Time limit of a collective without one in the plan, as in NVRx's example for CPUs."""


@contextmanager
def coordinator(host: str, folder: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """The store's HOST:PORT. It is served here with `store: service`; else by a learner."""
    if _is_served(settings):
        with torch_store.served(host, folder) as port:
            yield f"{host}:{port}"
    else:
        yield f"{host}:{_free_port(host, folder)}"


def _is_served(settings: Mapping[str, Any]) -> bool:
    """Whether the central service has the store."""
    return str(settings.get("store", "learner")) == "service"


def _free_port(host: str, folder: Path) -> int:
    """A port for a learner's store, the same as before in `folder`."""
    kept = folder / "port"
    if not kept.exists():
        with socket.create_server((host, 0)) as listener:
            kept.write_text(str(listener.getsockname()[1]))
    return int(kept.read_text())


def train(learner: "Learner") -> None:
    """Train inside NVRx's wrapper until training is over, or it is asked to leave.

    What NVRx raises is passed on: when it refuses this process, or gives up.
    """
    logging.basicConfig()  # NVRx logs to the nearest stream
    host, _, port = learner.coordinator.rpartition(":")
    os.environ |= {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": str(learner.names.index(learner.name)),
        "WORLD_SIZE": str(len(learner.names)),
    }
    settings = learner.settings
    times = {
        name: timedelta(seconds=float(settings[f"{name}_s"]))
        for name in _TIMES
        if f"{name}_s" in settings
    }
    training = _Training(learner)
    wrapper = Wrapper(
        store_factory=_Store,
        store_kwargs={"host": host, "port": int(port), "is_served": _is_served(settings)},
        **times,
    )
    signal.signal(signal.SIGTERM, _leave)
    try:
        wrapper(training.run)()
    except SystemExit:  # the others go on without it
        learner.ask_to_leave()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is leaving


def _leave(number: int, frame: object) -> None:
    del number, frame
    sys.exit()


class _Store(dist.TCPStore, StoreMixin):  # type: ignore[misc]  # neither is there for mypy
    """The store of NVRx's wrapper, on the address of the training alone."""

    def __init__(self, host: str, port: int, *, is_served: bool) -> None:
        """In the learner of rank 0 it serves the others, unless it `is_served` elsewhere."""
        self._is_served, self._server = is_served, None
        if not is_served and torch_store.place()[0] == 0:
            with suppress(OSError):  # in its monitor process, which makes one more client
                self._server, _ = torch_store.listen(host, port)
        super().__init__(host, port, is_master=False, wait_for_workers=False)

    @property
    def critical_ranks(self) -> tuple[int, ...]:
        """Ranks that stay until all others have left."""
        return () if self._is_served else (0,)


class _Training:
    """The training function of one learner, and what is kept from one restart to the next."""

    def __init__(self, learner: "Learner") -> None:
        self._learner = learner
        self._initial = learner.state()  # compiles; no process group is needed for it
        self._store: Any = None

    def run(self, call: CallWrapper | None = None) -> None:
        """Train from the newest checkpoint on; NVRx calls it, again after each fault."""
        if call is None:
            raise ValueError("the training function runs inside NVRx's wrapper")
        learner = self._learner
        self._meet(call.iteration)
        names = data_parallel.all_names(learner.name)
        with call.atomic():
            version = self._begin(is_again=call.iteration > 0)
        while not data_parallel.is_over_for_any(learner):
            for _ in range(int(learner.settings["sync_every"])):
                learner.step(data_parallel.mean)
                call.ping()
            version += 1
            if dist.get_rank() == 0:
                with call.atomic():
                    data_parallel.save(learner, version)
            dist.barrier()
            with call.atomic():  # what is printed is reported, too
                learner.committed(version, names)
        learner.leave()
        dist.destroy_process_group()

    def _meet(self, iteration: int) -> None:
        """Make the process group of those that are left."""
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if self._store is None:
            self._store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)
        store = dist.PrefixStore(f"group/{iteration}", self._store)
        data_parallel.meet(self._learner, host, store=store, timeout_s=_GLOO_S)

    def _begin(self, *, is_again: bool) -> int:
        """Take the state to go on from; its version."""
        learner = self._learner
        if is_again:
            learner.failed()
        version, donor = data_parallel.load(learner)
        if donor is None:
            learner.set_state(self._initial)
        learner.joined(version, donor)
        return version
