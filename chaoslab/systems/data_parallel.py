"""Data parallelism over gloo, and checkpoints in a folder of all learners, in PyTorch's own words.

    meet ─► load ─► steps: gradients ═ mean over gloo ═ update ─► save (rank 0) ─► ...

For adapters of systems that restart the training function from its last checkpoint. The members,
and when it is restarted, is the system's affair.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from chaoslab.systems import torch_store

if TYPE_CHECKING:
    from chaoslab.diloco.model.fragments import FloatArray
    from chaoslab.systems.learner import Learner

_KEPT = 2
"""Checkpoints that are kept, so that none is removed while another worker reads it."""


def meet(
    learner: "Learner", host: str, *, store: Any = None, timeout_s: float | None = None
) -> None:
    """Make the process group of the learners that RANK and WORLD_SIZE number.

    `store`: where they meet; None: where the environment says. `timeout_s`: of a collective, unless
    the plan sets `gloo_timeout`; None: PyTorch's own.
    """
    torch_store.keep_gloo_on_loopback(host)
    limit_s = learner.settings.get("gloo_timeout_s", timeout_s)
    limit = limit_s and timedelta(seconds=float(limit_s))
    if store is None:
        dist.init_process_group("gloo", timeout=limit)
    else:
        rank, learners = torch_store.place()
        dist.init_process_group("gloo", store=store, rank=rank, world_size=learners, timeout=limit)


def mean(values: "FloatArray") -> "FloatArray":
    """Mean over the group, float32 [n]."""
    total = torch.from_numpy(np.array(values))  # a copy: what JAX returned must not change
    dist.all_reduce(total)
    averaged: FloatArray = (total / dist.get_world_size()).numpy()
    return averaged


def all_names(name: str) -> Sequence[str]:
    """Names of the learners in the group, by rank."""
    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, name)
    return names


def is_over_for_any(learner: "Learner") -> bool:
    """All leave the loop at the same version."""
    is_over = torch.tensor([learner.is_over], dtype=torch.int32)
    dist.all_reduce(is_over, dist.ReduceOp.MAX)
    return bool(is_over.item())


def load(learner: "Learner") -> tuple[int, str | None]:
    """Take the state of the newest checkpoint: its version and writer; 0 without any."""
    saved = _checkpoints(learner)
    if not saved:
        return 0, None
    checkpoint = torch.load(saved[-1])
    learner.set_state(checkpoint["state"].numpy().tobytes())
    return int(checkpoint["version"]), str(checkpoint["donor"])


def save(learner: "Learner", version: int) -> None:
    """Write a checkpoint as a whole or not at all, and remove old ones."""
    state = torch.frombuffer(bytearray(learner.state()), dtype=torch.uint8)
    folder = learner.shared
    part = folder / f"{learner.name}.part"
    torch.save({"version": version, "donor": learner.name, "state": state}, part)
    part.replace(folder / f"{version:09d}.pt")
    for old in _checkpoints(learner)[:-_KEPT]:
        old.unlink(missing_ok=True)


def _checkpoints(learner: "Learner") -> Sequence[Path]:
    return sorted(learner.shared.glob("*.pt"))
