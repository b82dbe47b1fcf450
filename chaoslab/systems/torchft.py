"""Adapter for torchft 0.2: DiLoCo with its own manager, process group and lighthouse.

    learner.step ─► theta ─► torchft.local_sgd.DiLoCo ─ every sync_every steps
                               │ quorum (lighthouse): members, which of them must heal, donors
                               ├ heals: theta, version's parameters and moments of a donor ─► joined
                               ├ allreduce of the outer gradients (gloo), outer SGD
                               └ commit ─► committed, or a failed one ─► failed

The quorum comes after the inner steps, so a learner that heals contributes nothing of its own: it
takes the donor's trained parameters, and the donor's outer gradient counts twice in that mean. At
version 0 torchft heals all but one learner like that (`init_sync`). It runs inside torchft's
environment. Errors of torchft end the process, as they do in its own examples.
"""

import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn, optim
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.local_sgd import DiLoCo

from chaoslab.systems import torch_store

if TYPE_CHECKING:
    from chaoslab.systems.learner import Learner

_LIGHTHOUSE_TIMES = {"join_timeout": 60.0, "heartbeat_timeout": 5.0}
"""Defaults of the program `torchft_lighthouse`, s; from Python `join_timeout` would be 0.1 s."""
_LEAST_LEARNERS = 1
"""As in torchft's examples: neither lighthouse nor manager has a default."""
_MEMBER = re.compile(r"<b>([^<]+)</b> <br/>\s*Step: (\d+)")
"""A member of the latest quorum on the lighthouse's status page."""


@contextmanager
def coordinator(host: str, folder: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Run the lighthouse in this process; its HOST:PORT, the same one for the same `folder`.

    `settings`: `join_timeout_s`, `heartbeat_timeout_s`. A lighthouse keeps nothing over a restart.
    """
    kept = folder / "lighthouse_port"
    port = int(kept.read_text()) if kept.exists() else 0
    times = {
        f"{name}_ms": round(1000 * float(settings.get(f"{name}_s", default)))
        for name, default in _LIGHTHOUSE_TIMES.items()
    }
    lighthouse = LighthouseServer(
        bind=f"{host}:{port}", min_replicas=_LEAST_LEARNERS, quorum_tick_ms=100, **times
    )
    kept.write_text(lighthouse.address().rpartition(":")[2])
    try:
        yield f"{host}:{kept.read_text()}"
    finally:
        lighthouse.shutdown()


def train(learner: "Learner") -> None:
    """Train until `learner.is_over`.

    `learner.settings`: `sync_every`, `outer_lr`, `outer_momentum`; of torchft's manager `timeout_s`
    and `quorum_retries`; of its process group `group_timeout_s`. What is absent is left to torchft.
    """
    _Training(learner).run()


class _Training:
    """DiLoCo of torchft around one learner."""

    def __init__(self, learner: "Learner") -> None:
        self._learner = learner
        self._is_member = False
        settings = learner.settings
        self._theta = nn.Parameter(torch.from_numpy(learner.parameters()), requires_grad=False)
        self._committed = self._theta.numpy().copy()  # float32 [n]: those of its version
        self._model = nn.ParameterList([self._theta])
        self._inner = _InnerSteps(self._theta, learner)
        momentum = float(settings["outer_momentum"])
        outer = optim.SGD(
            [self._theta],
            lr=float(settings["outer_lr"]),
            momentum=momentum,
            nesterov=momentum > 0.0,
        )
        # last: the others wait for a learner from its manager's first heartbeat on
        self._manager = self._make_manager(settings)
        self._client = _Client(self._manager._client, learner.coordinator)  # noqa: SLF001
        self._manager._client = self._client  # noqa: SLF001 (nothing public tells the quorum)
        sync_every = int(settings["sync_every"])
        self._diloco = DiLoCo(self._manager, [self._model], self._inner, outer, sync_every)
        self._manager.register_state_dict_fn("learner", self._take, self._give)

    def run(self) -> None:
        learner, client = self._learner, self._client
        if not learner.rounds:
            self._join(0)
        with self._diloco:
            while not learner.is_over:
                client.quorum = None
                self._inner.step()
                if client.quorum is not None:
                    self._report()
        self._manager.shutdown(wait=False)

    def _report(self) -> None:
        learner, version = self._learner, self._manager.current_step()
        if not self._client.is_committed:
            learner.set_parameters(self._theta.numpy())
            learner.failed()
            return
        if not self._is_member:  # no learner was ahead of it: it began a training of its own
            learner.set_parameters(self._committed)
            self._join(version - 1)
        self._committed = self._theta.numpy().copy()
        learner.set_parameters(self._committed)
        learner.committed(version, self._client.contributors)

    def _give(self) -> dict[str, Any]:
        """State for a learner that heals, beside `theta` and what DiLoCo keeps."""
        return {"committed": self._committed, "state": self._learner.state()}

    def _take(self, given: dict[str, Any]) -> None:
        learner, quorum = self._learner, self._client.quorum
        self._committed = given["committed"]
        learner.set_state(given["state"])
        learner.set_parameters(self._committed)
        if not self._is_member or quorum.max_step > self._client.step:  # else all have version 0
            donor = quorum.replica_ids[quorum.recover_src_replica_rank]
            self._join(quorum.max_step, _name(donor))

    def _join(self, version: int, donor: str | None = None) -> None:
        self._is_member = True
        self._learner.joined(version, donor)

    def _make_manager(self, settings: Mapping[str, Any]) -> Manager:
        host, _, _ = self._learner.coordinator.rpartition(":")
        # kept: the others reach it for as long as it lives
        self._store, port = torch_store.listen(host)
        torch_store.keep_gloo_on_loopback(host)
        timeout, retries = _seconds(settings, "timeout"), settings.get("quorum_retries")
        chosen = {"timeout": timeout, "quorum_retries": retries}
        group = _seconds(settings, "group_timeout")
        return Manager(
            pg=ProcessGroupGloo(timeout=group) if group else ProcessGroupGloo(),
            load_state_dict=self._model.load_state_dict,
            state_dict=self._model.state_dict,
            min_replica_size=_LEAST_LEARNERS,
            use_async_quorum=False,  # DiLoCo refuses the other
            rank=0,
            world_size=1,
            store_addr=host,
            store_port=port,
            lighthouse_addr=f"http://{self._learner.coordinator}",
            replica_id=self._learner.name,
            hostname=host,
            **{name: value for name, value in chosen.items() if value is not None},
        )


class _InnerSteps(optim.Optimizer):  # type: ignore[misc]  # torch is not there for mypy
    """The learner's steps as an optimizer, around whose `step` DiLoCo hooks itself."""

    def __init__(self, theta: nn.Parameter, learner: "Learner") -> None:
        super().__init__([theta], {})
        self._theta, self._learner = theta, learner

    def step(self, _closure: Any = None) -> None:
        self._learner.step()
        self._theta.copy_(torch.from_numpy(self._learner.parameters()))


class _Client:
    """A manager's client, that notes what it is answered."""

    def __init__(self, client: Any, lighthouse: str) -> None:
        self._client, self._lighthouse = client, lighthouse
        self.quorum: Any = None
        """The latest one; None if there was none since it was set to None."""
        self.step = 0
        """The learner's own version before it."""
        self.contributors: Sequence[str] = ()
        """Names of those in it that need no healing."""
        self.is_committed = False

    def _quorum(self, *, step: int, init_sync: bool, **request: Any) -> Any:
        self.step, self.is_committed = step, False
        request |= {"step": step, "init_sync": init_sync}
        quorum = self._client._quorum(**request)  # noqa: SLF001
        members = list(quorum.replica_ids)
        if quorum.max_step == 0 and init_sync:
            members = members[:1]  # torchft's primary, from which all others heal
        elif quorum.max_world_size < len(members):
            behind = self._behind(quorum)
            members = [member for member in members if member not in behind]
        self.contributors = [_name(member) for member in members]
        self.quorum = quorum
        return quorum

    def should_commit(self, *arguments: Any, **named: Any) -> bool:
        self.is_committed = self._client.should_commit(*arguments, **named)
        return self.is_committed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _behind(self, quorum: Any) -> set[str]:
        """Members that must heal: the answer only says how many; the lighthouse shows which."""
        try:
            with urllib.request.urlopen(f"http://{self._lighthouse}/status", timeout=1.0) as page:
                steps = dict(_MEMBER.findall(page.read().decode()))
        except OSError:  # it went away since: what is known here is this learner's part in it
            ranks = [*quorum.recover_dst_replica_ranks, *[quorum.replica_rank] * quorum.heal]
            return {quorum.replica_ids[rank] for rank in ranks}
        newest = quorum.max_step
        return {one for one in quorum.replica_ids if int(steps.get(one, newest)) < newest}


def _seconds(settings: Mapping[str, Any], name: str) -> timedelta | None:
    value = settings.get(f"{name}_s")
    return None if value is None else timedelta(seconds=float(value))


def _name(replica_id: str) -> str:
    """A learner's name, without the UUID that torchft adds."""
    return replica_id.rpartition(":")[0]
