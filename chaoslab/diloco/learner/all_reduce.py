"""Process that computes with those of other learners, for its own learner: sums of their arrays.

    learner ── initialize, sum ─► this process ══ jax.distributed, gloo ══ those of others
            ◄── the sum, and the bytes that came from those of others ──┘

A process that is inside a collective cannot be called back, and JAX ends one that has lost another.
So each learner has its collectives done by a process of their own, which is ended with its
communicator while the learner keeps its state (`data_parallel`). It is started beforehand, with all
imports done. On CPUs, whatever devices the learner has. What comes over gloo's connections is
counted; the coordination of `jax.distributed` is not, which has connections of its own.

    python -m chaoslab.diloco.learner.all_reduce FILE_DESCRIPTOR PARENT [CACHE]
"""

import json
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from chaoslab.diloco.learner.hosts.channel import receive
from chaoslab.diloco.learner.hosts.runtime import initialize
from chaoslab.diloco.model.compilation import enable_compilation_cache, publish_compilations
from chaoslab.diloco.node.ending import end_with
from chaoslab.diloco.node.received import received_bytes

_AXIS = "learners"


def main() -> int:
    """Carry out orders until the learner closes the connection."""
    descriptor, parent, *cache = sys.argv[1:]
    end_with(int(parent))
    os.dup2(2, 1)  # C++ prints, and standard output is for events
    jax.config.update("jax_platforms", "cpu")
    if cache:
        enable_compilation_cache(Path(cache[0]))
    learner = Connection(int(descriptor))
    learner.send_bytes(b"")  # ready
    with suppress(EOFError, BrokenPipeError):  # the learner has ended, or let go of this process
        _serve(learner)
    return 0


def _serve(learner: Connection) -> None:
    order = receive(learner)
    at = str(order.facts["at"])
    initialize(at, order.facts["size"], order.facts["rank"])
    devices = np.array([d for d in jax.devices() if d.id == _first(d.process_index)])
    mesh = Mesh(devices, (_AXIS,))
    split, replicated = (
        NamedSharding(mesh, PartitionSpec(_AXIS)),
        NamedSharding(mesh, PartitionSpec()),
    )
    total = jax.jit(lambda arrays: arrays.sum(0), out_shardings=replicated)
    learner.send_bytes(b"")
    while (order := receive(learner)).do == "sum":
        (mine,) = order.arrays
        gathered = jax.make_array_from_process_local_data(split, mine[np.newaxis])
        learner.send_bytes(np.ascontiguousarray(total(gathered).addressable_data(0)).data.cast("B"))
        learner.send_bytes(json.dumps(_received_bytes(at)).encode())
        publish_compilations()


def _first(process: int) -> int:
    """Number of the first device of a process."""
    return min(int(device.id) for device in jax.devices() if device.process_index == process)


def _received_bytes(coordinator: str) -> int | None:
    """Bytes from other learners' processes since this one began; None if they are not counted.

    A sum brings some: 0 after one is that of a kernel which leaves the field empty.
    """
    return received_bytes(besides_port=int(coordinator.rpartition(":")[2])) or None


if __name__ == "__main__":
    sys.exit(main())
