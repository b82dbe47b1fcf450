"""Adapter for hivemind 1.1.12: DiLoCo on its optimizer, as OpenDiLoCo (arXiv 2407.07852) does it.

    learner.step ─► start - theta = param.grad ─► hivemind.Optimizer ─ after sync_every steps
                       │ progress of all peers (DHT): is a round near, is this one left behind
                       ├ left behind: parameters, outer momentum and epoch of a peer ─► joined
                       ├ matchmaking (DHT), all-reduce of the pseudo-gradients in a group of peers
                       ├ outer SGD with momentum on the mean; the epoch counts ─► committed
                       └ in the background: mean of the peers' parameters, into the next epoch

Two things are OpenDiLoCo's and not hivemind's: a learner is ready after its own `sync_every` steps
(hivemind counts samples of all peers together), and waits until the slowest peer is about to be. No
inner moments cross. What a peer has sent stands in the DHT until it expires: hivemind learns of a
lost peer by a time limit only. This runs inside hivemind's environment, with four processes of
hivemind beside each learner; errors of hivemind end the process.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hivemind import DHT, Optimizer
from hivemind.averaging.control import StepControl
from hivemind.optim.grad_averager import GradientAverager
from hivemind.optim.progress_tracker import (
    GlobalTrainingProgress,
    LocalTrainingProgress,
    ProgressTracker,
)
from hivemind.utils import get_dht_time
from torch import nn, optim

from chaoslab.systems.learner import Learner

_RUN = "chaoslab"
_OPTIMIZER = ("matchmaking_time", "averaging_timeout", "next_chunk_timeout")
_AVERAGERS = ("target_group_size", "request_timeout")
_REFRESH_S, _PATIENCE_S = 2.0, 600.0
"""OpenDiLoCo's longest time between two looks at the progress of others, and its longest wait for
slower peers: hivemind's default differs, or it has none."""


@contextmanager
def coordinator(
    host: str,
    folder: Path,
    settings: Mapping[str, Any],  # noqa: ARG001 - there are none
) -> Iterator[str]:
    """Run the bootstrap peer, at the same port and with the same key whenever in this `folder`.

    Its address is /ip4/HOST/tcp/PORT/p2p/ID: libp2p dials no peer without knowing its key. It
    takes no settings. What it stored is lost with it; peers hold copies.
    """
    kept = folder / "dht_port"
    port = kept.read_text() if kept.exists() else "0"
    _prepare_forks()
    dht = DHT(
        host_maddrs=[f"/ip4/{host}/tcp/{port}"],
        identity_path=str(folder / "dht_identity"),
        start=True,
    )
    address = str(dht.get_visible_maddrs()[0])
    kept.write_text(address.split("/")[4])
    try:
        yield address
    finally:
        dht.shutdown()


def train(learner: Learner) -> None:
    """Train until `learner.is_over`.

    `learner.settings`: `sync_every`, `outer_lr`, `outer_momentum`, and those of the plan. What is
    absent is left to hivemind.
    """
    _prepare_forks()
    host = learner.coordinator.split("/")[2]
    dht = DHT(initial_peers=[learner.coordinator], host_maddrs=[f"/ip4/{host}/tcp/0"], start=True)
    diloco = _DiLoCo(learner, dht)
    diloco.load_state_from_peers()
    diloco.report()
    while not learner.is_over:
        learner.step()
        diloco.step()
        diloco.report()
    diloco.shutdown()
    dht.shutdown()


class _DiLoCo(Optimizer):  # type: ignore[misc]
    """hivemind's optimizer, whose gradient is the learner's work since the last epoch."""

    def __init__(self, learner: Learner, dht: DHT) -> None:
        given = {name.removesuffix("_s"): value for name, value in learner.settings.items()}
        averagers, momentum = _chosen(given, _AVERAGERS), float(given["outer_momentum"])
        self._learner = learner
        self._is_new = True  # whether the parameters are not those of its own steps
        self._donor: str | None = None
        self._reported = 0
        self._contributors: Sequence[str] = ()
        self._theta = nn.Parameter(torch.from_numpy(learner.parameters()).clone())
        self._start = self._theta.detach().clone()
        super().__init__(
            dht=dht,
            run_id=_RUN,
            target_batch_size=int(given["sync_every"]),
            batch_size_per_step=1,
            # the name travels with the state of the optimizer, and so names the donor
            params=[{"params": [self._theta], "learner": learner.name}],
            optimizer=partial(
                optim.SGD, lr=float(given["outer_lr"]), momentum=momentum, nesterov=momentum > 0.0
            ),
            reuse_grad_buffers=True,
            grad_averager_factory=partial(_PseudoGradients, name=learner.name, **averagers),
            averager_opts=averagers,
            tracker_opts={"max_refresh_period": _REFRESH_S},
            **_chosen(given, _OPTIMIZER),
        )

    def step(self, *arguments: Any, **named: Any) -> None:
        """After an inner step of the learner."""
        trained = torch.from_numpy(self._learner.parameters())
        with torch.no_grad():
            torch.sub(self._start, trained, out=self._theta.grad)
        super().step(*arguments, **named)

    def report(self) -> None:
        """Tell the learner of a new epoch, if there is one."""
        if not self._is_new and self.local_epoch == self._reported:
            return
        self._start = self._theta.detach().clone()
        self._learner.set_parameters(self._start.numpy().astype(np.float32, copy=True))
        if self._is_new:
            self._learner.joined(self.local_epoch, self._donor)
        else:
            self._learner.committed(self.local_epoch, self._contributors)
        self._is_new, self._reported = False, self.local_epoch

    def load_state_from_peers(self, **named: Any) -> None:
        """Also called by hivemind, in `step`, when the others are ahead. It may load nothing."""
        super().load_state_from_peers(**named)
        (group,) = self.state_averager.optimizer.param_groups
        donor, group["learner"] = group["learner"], self._learner.name
        is_loaded = donor != self._learner.name
        self._donor = donor if is_loaded and self.local_epoch else None  # 0: initial parameters
        self._is_new |= is_loaded
        self._contributors = ()

    def _update_global_epoch(self, grad_scaler: None) -> None:
        self._contributors = (self._learner.name,)  # unless there is a group
        self._wait_for_slower()
        super()._update_global_epoch(grad_scaler)

    def _wait_for_slower(self) -> None:
        """Wait as OpenDiLoCo does: until `matchmaking_time` before the slowest peer's last step."""
        until_s = time.monotonic() + _PATIENCE_S
        while not self._learner.is_over and time.monotonic() < until_s:
            if self.scheduled_grads is not None:
                return
            now = self.tracker.global_progress
            if now.num_peers <= 1 or now.eta_next_epoch - get_dht_time() <= self.matchmaking_time:
                return
            time.sleep(max(0.1, now.next_fetch_time - get_dht_time()))

    def _average_gradients_and_load_into_optimizer(self, control: StepControl | None) -> None:
        super()._average_gradients_and_load_into_optimizer(control)
        # when averaging fails, hivemind has emptied the gradient, and steps with zeros
        self._contributors = ()
        if control is not None and control.done() and control.exception() is None:
            self._contributors = tuple(control.result().values())

    def _make_progress_tracker(self, target_batch_size: int, **named: Any) -> ProgressTracker:
        return _Progress(
            dht=self.dht,
            prefix=self.run_id,
            target_batch_size=target_batch_size,
            client_mode=self.client_mode,
            status_loglevel=self.status_loglevel,
            start=True,
            **named,
        )


class _PseudoGradients(GradientAverager):  # type: ignore[misc]
    """hivemind's averager of gradients, for one that is a sum already; groups learn names by it."""

    def __init__(self, *arguments: Any, name: str, **named: Any) -> None:
        self._learner = name  # not _name: an averager is a multiprocessing.Process
        super().__init__(*arguments, **named)

    def accumulate_grads_(self, batch_size: int) -> None:
        super().accumulate_grads_(batch_size)
        self.local_times_accumulated = 1

    def schedule_step(self, *arguments: Any, **named: Any) -> StepControl:
        return super().schedule_step(*arguments, gather=self._learner, **named)


class _Progress(ProgressTracker):  # type: ignore[misc]
    """Progress of the peers, where `target_batch_size` is what each of them has to do."""

    @property
    def ready_to_update_epoch(self) -> bool:
        mine = self.local_progress
        return bool(
            self.global_epoch > mine.epoch or mine.samples_accumulated >= self.target_batch_size
        )

    def _parse_swarm_progress_data(self, metadata: Any) -> GlobalTrainingProgress:
        progress = super()._parse_swarm_progress_data(metadata)
        entries = metadata.values() if isinstance(metadata, dict) else ()
        peers = [LocalTrainingProgress.parse_obj(one.value) for one in entries if one.value]
        left_s = [
            max(0, self.target_batch_size - peer.samples_accumulated) / peer.samples_per_second
            for peer in peers
            if peer.epoch == progress.epoch
        ]
        slowest_s = max(left_s, default=0.0)
        refresh_s = min(max(slowest_s, self.min_refresh_period), self.max_refresh_period)
        now = get_dht_time()
        return replace(progress, eta_next_epoch=now + slowest_s, next_fetch_time=now + refresh_s)


def _chosen(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if given.get(name) is not None}


def _prepare_forks() -> None:
    """Let SIGTERM end hivemind's processes, which are forks and would take over our handler; and
    keep them off stdin: they would close it, which waits for the thread that listens for hooks.
    """
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdin = None
