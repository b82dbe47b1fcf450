"""Adapter for torchrun's elastic restart: data parallelism over gloo, state from a checkpoint.

    coordinator: TCPStore ◄── rendezvous, heartbeats ── agent (this node) ── of each learner
                                                          │ spawns; ends and spawns again whenever
                                                          ▼ a learner joins, fails or is lost
    checkpoint ── newest version ─► worker: gradients ═ all_reduce over gloo ═ update
        ▲                              │
        └── rank 0, every sync_every steps: a version

The agent is that of `torchrun --nnodes=MIN:MAX --nproc-per-node=1 --rdzv-backend=c10d`, run by the
function that torchrun itself calls. The command would start the worker in a session of its own,
which no signal to the node's process group reaches. Whatever torchrun does when it fails is left as
it is: an agent that gives up ends the node with its error.
"""

import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, PContext, SignalException
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from chaoslab.systems import data_parallel, torch_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaoslab.systems.learner import Learner

_RUN_ID = "chaoslab"
_RENDEZVOUS = {
    "last_call_timeout_s": "last_call_timeout",
    "keep_alive_interval_s": "keep_alive_interval",
}
"""Settings of `--rdzv-conf`, which takes whole numbers, and torchrun's names of them."""


@contextmanager
def coordinator(host: str, folder: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Serve the rendezvous store in this process; its HOST:PORT, the same as before in `folder`.

    An agent that loses the store fails, even if its worker has finished.
    """
    del settings  # none of them is the store's
    with torch_store.served(host, folder) as port:
        yield f"{host}:{port}"


def train(learner: "Learner") -> None:
    """Run the agent until training is over in its worker, or it is asked to leave."""
    host = learner.coordinator.rpartition(":")[0]
    settings = learner.settings
    # with `start_method: forkserver` a worker begins with these imported; otherwise it does nothing
    multiprocessing.set_forkserver_preload([__name__, "chaoslab.systems.learner"])
    if not settings.get("share_rendezvous_store", True):
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=len(learner.names),
        nproc_per_node=1,
        run_id=_RUN_ID,
        rdzv_backend="c10d",
        rdzv_endpoint=learner.coordinator,
        rdzv_configs={
            "is_host": False,  # otherwise an agent takes the place of a store that died
            **{own: int(settings[name]) for name, own in _RENDEZVOUS.items() if name in settings},
        },
        max_restarts=int(settings.get("max_restarts", 0)),
        monitor_interval=0.1,
        start_method=str(settings.get("start_method", "spawn")),
        local_addr=host if host.startswith("127.") else None,
        logs_specs=DefaultLogsSpecs(log_dir=str(learner.folder / "torchrun")),
    )
    logging.getLogger(PContext.__module__).addFilter(_without_traceback)
    learner.controls.relay()
    signal.signal(signal.SIGTERM, _raise)  # torchrun's own replace it when it starts a worker
    try:
        elastic_launch(config, _work)(partial(type(learner), learner.arguments, learner.known))
    except SignalException:  # raised after it has ended the worker
        learner.ask_to_leave()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is leaving


def _without_traceback(record: logging.LogRecord) -> bool:
    """For a traceback, PyTorch's formatter imports its compiler first: seconds of every survivor,
    which the torchrun command does not need either, since it has no traceback of its worker.
    """
    if record.exc_info:
        record.msg, record.args = f"{record.getMessage()}\n{record.exc_info[1]}", ()
        record.exc_info = None
    return True


def _raise(number: int, frame: object) -> None:
    """Raise as torchrun's handlers do, which are not there before the first rendezvous."""
    del frame
    raise SignalException("asked to leave", signal.Signals(number))


def _work(again: "Callable[[], Learner]") -> None:
    """The training script: what a worker does, from the newest checkpoint on."""
    learner = again()
    learner.controls.follow()
    data_parallel.meet(learner, os.environ["MASTER_ADDR"])
    names = data_parallel.all_names(learner.name)
    version, donor = data_parallel.load(learner)
    learner.joined(version, donor)
    while not data_parallel.is_over_for_any(learner):
        for _ in range(int(learner.settings["sync_every"])):
            learner.step(data_parallel.mean)
        version += 1
        if dist.get_rank() == 0:
            data_parallel.save(learner, version)
        dist.barrier()
        learner.committed(version, names)
    learner.leave()
    dist.destroy_process_group()
