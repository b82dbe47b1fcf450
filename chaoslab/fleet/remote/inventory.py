"""Inventory: which node runs on which hosts, and how those are reached. A YAML file, read strictly.

    ssh: {user: ubuntu, key: ~/.ssh/id_ed25519}     ─┐
    syncer: {host: 10.0.0.2}                         ├─► Inventory ─ access ─► Access of a host
    learners:                                        │             └ labels ─► targets, links
      learner-0: {hosts: [10.0.0.3], region: eu}     │
    workers: {worker-0: {host: 10.0.0.3}}           ─┘ in their place, for a script

Nothing is connected here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeVar

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.fleet.base import NodeSite
from chaoslab.fleet.remote.protocol.names import is_interpreter
from chaoslab.fleet.remote.slices import (
    FLEET_NAME,
    PROJECT,
    PUBLIC_KEY,
    RepairLimits,
    TpuEntry,
    is_here,
    require_form,
)
from chaoslab.fleet.remote.ssh.access import KNOWN_HOSTS, Access, expanded, is_address, is_host
from chaoslab.plan.file import load_settings
from chaoslab.plan.model import LAUNCHER, REGION, SYNCER
from chaoslab.plan.model.script import RANK

_OF_SYNCER: Final = (SYNCER, "evaluator")
"""Nodes that run where the syncer does: the evaluator reads what that wrote."""
GENERATION: Final = "generation"
_FOLDER: Final = re.compile(r"(/|~(/|$)).*")
AccessT = TypeVar("AccessT", bound="HostAccess")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """Access to every host. Nothing of ~/.ssh/config is read."""

    user: str = ""
    """User there; left out: the one that runs chaoslab."""
    port: int = 22
    """Port of sshd."""
    key: str = ""
    """File of the private key; left out: the keys at `SSH_AUTH_SOCK`, and the usual files."""
    known_hosts: str = KNOWN_HOSTS
    """File with the keys of the hosts; a host whose key is not in it is refused."""
    jump: str = ""
    """[USER@]HOST[:PORT] through which hosts are reached, an IPv6 address in brackets."""

    def __post_init__(self) -> None:
        self.access("localhost")

    def require_files(self, inventory: str) -> None:
        """PlanError if a file that is named is not there."""
        own = self.known_hosts if self.known_hosts != KNOWN_HOSTS else ""
        for key, file in (("key", self.key), ("known_hosts", own)):
            if file and not expanded(file).is_file():
                raise PlanError(f"there is no file {file}", where=inventory, key=f"ssh.{key}")

    def access(self, host: str) -> Access:
        """Access to a host. PlanError if the host or these settings cannot be."""
        return Access(
            host=host,
            port=self.port,
            user=self.user,
            key=self.key,
            known_hosts=self.known_hosts,
            jump=self.jump,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerPlace:
    """Place of the syncer."""

    host: str = field(metadata={"example": "10.0.0.2"})
    """Name or address of the host, as ssh dials it."""
    address: str = ""
    """Address that learners connect to; left out: `host`, which must be an address then."""
    port: int = 0
    """Port that they dial, for networks that let only some through; left out: a free one."""

    def __post_init__(self) -> None:
        _require_host(self.host, "host")
        if not 0 <= self.port < 2**16:
            raise PlanError(f"must be 1 to 65,535, got {self.port}", key="port")
        if is_address(self.learner_address) and not _is_of_one_host(self.learner_address):
            raise PlanError(
                f"{self.learner_address} is no host's own address: learners connect to it "
                "from their hosts",
                key="address" if self.address else "host",
            )
        if not is_address(self.learner_address):
            raise PlanError(
                f"{self.learner_address!r} is no address: learners connect to it, so write one "
                "as `address`",
                key="address" if self.address else "host",
            )

    @property
    def learner_address(self) -> str:
        """The address on which the syncer listens."""
        return self.address or self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Place of a worker of a script, or of its launcher, and the labels that this gives it."""

    host: str = field(metadata={"example": "10.0.0.3"})
    """Name or address of its host, as ssh dials it; a host may have several workers."""
    region: str = ""
    """Label `region`, for targets."""
    generation: str = ""
    """Label `generation`, for targets."""
    labels: Mapping[str, str] = field(default_factory=dict, metadata={"example": "{rack: a1}"})
    """More labels."""

    def __post_init__(self) -> None:
        _require_host(self.host, "host")

    @property
    def all_labels(self) -> Mapping[str, str]:
        """Region and generation among the others."""
        return _with_own(self.labels, self.region, self.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerPlace:
    """Place of a learner, and the labels that this gives it."""

    hosts: tuple[str, ...] = ()
    """Names or addresses of its hosts, as ssh dials them; its first process runs on the first."""
    tpu: TpuEntry | None = None
    """Cloud TPU slice with its hosts, in place of `hosts`; for the fleet tpu-vm."""
    region: str = ""
    """Label `region`: for targets, and for the profiles of links; of a slice: its zone's."""
    generation: str = ""
    """Label `generation`: of its chips, for targets; of a slice: its type's."""
    labels: Mapping[str, str] = field(default_factory=dict, metadata={"example": "{rack: a1}"})
    """More labels."""

    def __post_init__(self) -> None:
        if not self.hosts and self.tpu is None:
            raise PlanError("needs a host: write [10.0.0.3]", key="hosts")
        if self.hosts and self.tpu is not None:
            raise PlanError("a learner has hosts or a slice, not both", key="hosts")
        for host in self.hosts:
            _require_host(host, "hosts")
        if len(set(self.hosts)) < len(self.hosts):
            raise PlanError("a host is named twice: a learner has one process on each", key="hosts")

    @property
    def all_labels(self) -> Mapping[str, str]:
        """Region and generation among the others."""
        region, generation = self.region, self.generation
        if self.tpu is not None:
            region = region or self.tpu.region
            generation = generation or self.tpu.accelerator.generation
        return _with_own(self.labels, region, generation)

    def problem_with(self, count: int) -> str:
        """Why a learner of this many processes cannot run here; empty if it can."""
        if self.tpu is not None:
            given = self.tpu.accelerator.hosts
            told = f"a slice {self.tpu.type} has {given} hosts"
            return "" if given == count else f"{told}: write `training: {{hosts: {given}}}`"
        given = len(self.hosts)
        if given in (1, count):
            return ""
        return (
            f"it has {given} hosts in the inventory: write `training: {{hosts: {given}}}`, or name "
            f"one host, or {count}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """How hosts are reached, and chaoslab is run on them."""

    ssh: SshSettings = field(default_factory=SshSettings)
    """Access to the hosts."""
    python: str = "python3"
    """Interpreter on every host, 3.11 or newer. If it has all libraries it is used as it is;
    otherwise an environment is made of it, once, and kept on the host."""

    def __post_init__(self) -> None:
        if not is_interpreter(self.python):
            raise PlanError(
                f"{self.python!r} is no interpreter: write python3, or a path without spaces",
                key="python",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyInventory(HostAccess):
    """An inventory of which no more is used than how hosts are reached."""

    syncer: SyncerPlace | None = None
    """Place of a syncer; not used."""
    learners: Mapping[str, LearnerPlace] = field(default_factory=dict)
    """Places of learners; not used."""
    workers: Mapping[str, WorkerPlace] = field(default_factory=dict)
    """Places of workers; not used."""
    workdir: str = ""
    """Folder of a script; not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory(HostAccess):
    """All hosts of a fleet."""

    syncer: SyncerPlace | None = field(default=None, metadata={"example": "{host: 10.0.0.2}"})
    """Place of the syncer and the evaluator."""
    learners: Mapping[str, LearnerPlace] = field(
        default_factory=dict, metadata={"example": "{learner-0: {hosts: [10.0.0.3]}}"}
    )
    """Place of each learner, by its name in the plan."""
    workers: Mapping[str, WorkerPlace] = field(
        default_factory=dict, metadata={"example": "{worker-0: {host: 10.0.0.3}}"}
    )
    """For a script, in the place of both: the host of each worker, or of `launcher`."""
    workdir: str = field(default="", metadata={"example": "~/project"})
    """Folder on each host in which a script is started, from / or ~; left out: the path that the
    current directory has here."""
    name: str = ""
    """Names the fleet, and labels all that is created for it; needed with slices."""
    project: str = ""
    """Project of the cloud; needed with slices."""
    lifetime_s: Duration = 0.0
    """How long slices may exist; needed with slices."""
    repair: RepairLimits = field(default_factory=RepairLimits)
    """How often slices are replaced, and for how long that is waited for."""
    endpoint: str = ""
    """127.0.0.1:PORT of an emulator of the cloud's API; left out: Google's."""
    public_key: str = ""
    """Public ssh key for new hosts: "user:ssh-ed25519 AAAA..."; left out: those of the project."""

    def __post_init__(self) -> None:
        HostAccess.__post_init__(self)  # `super()` finds no class with slots
        for key in ("syncer", "learners"):
            if bool(getattr(self, key)) == bool(self.workers):
                text = "is for chaoslab's own learners, and `workers` for a script: not both"
                raise PlanError(text if self.workers else "is missing", key=key)
        if self.workdir and not _FOLDER.fullmatch(self.workdir):
            text = f"must be a path from / or ~, as in ~/project, got {self.workdir!r}"
            raise PlanError(text, key="workdir")
        if self.slices:
            self._require_cloud()

    def _require_cloud(self) -> None:
        """PlanError if what slices need is missing or wrong."""
        for key in ("name", "project", "lifetime_s"):
            if not getattr(self, key):
                raise PlanError("slices need it: see docs/tpu.md", key=key.removesuffix("_s"))
        require_form(FLEET_NAME, self.name, "name", "my-fleet (at most 20 letters, digits and -)")
        require_form(PROJECT, self.project, "project", "my-project")
        if self.endpoint and not is_here(self.endpoint):
            raise PlanError(
                "must be 127.0.0.1:PORT, an emulator on this machine that is spoken to without "
                f"credentials, got {self.endpoint!r}",
                key="endpoint",
            )
        if self.public_key:
            require_form(PUBLIC_KEY, self.public_key, "public_key", "ubuntu:ssh-ed25519 AAAA… me")

    @property
    def slices(self) -> Mapping[str, TpuEntry]:
        """Slices by learner."""
        return {name: one.tpu for name, one in self.learners.items() if one.tpu is not None}

    def require_slices(self) -> Mapping[str, TpuEntry]:
        """Slices by learner. PlanError if there are none."""
        if not self.slices:
            raise PlanError("has no entry `tpu`: there is nothing to create", key="learners")
        return self.slices

    def hosts_of(self, node: str) -> tuple[str, ...]:
        """Hosts of a node, the one of its first process first. KeyError if it has none."""
        if self.syncer is None:
            return (self.workers[node].host,)
        return (self.syncer.host,) if node in _OF_SYNCER else self.learners[node].hosts

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host once, the syncer's first."""
        first = () if self.syncer is None else (SYNCER,)
        nodes = (*first, *self.learners, *self.workers)
        return tuple(dict.fromkeys(host for node in nodes for host in self.hosts_of(node)))

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of learners and workers by name."""
        places: Mapping[str, LearnerPlace | WorkerPlace] = {**self.learners, **self.workers}
        return {name: place.all_labels for name, place in places.items() if place.all_labels}

    @property
    def listen(self) -> str:
        """host:port where the syncer listens."""
        if self.syncer is None:
            return NodeSite().listen
        address, port = self.syncer.learner_address, self.syncer.port
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    def require_workers(self, names: Iterable[str]) -> None:
        """PlanError if a worker of a script, or its launcher, has no place."""
        if missing := [name for name in names if name not in self.workers]:
            there = ", ".join(self.workers) or "none: write workers: {worker-0: {host: 10.0.0.3}}"
            of_all = f", which runs on one host with all of its workers (or write {RANK})"
            raise PlanError(
                f"the inventory has no host for {', '.join(missing)}"
                f"{of_all if LAUNCHER in missing else ''}; its `workers` are {there}",
                key="inventory",
            )

    def require(self, learners: Mapping[str, int]) -> None:
        """PlanError if one of these learners has no place, or not as many hosts as it needs."""
        if self.workers:
            text = "the inventory has `workers` of a script, and this plan needs `learners`"
            raise PlanError(text, key="inventory")
        if missing := [name for name in learners if name not in self.learners]:
            raise PlanError(
                f"the inventory has no hosts for {', '.join(missing)}: it names "
                f"{', '.join(self.learners)}",
                key="inventory",
            )
        for name, count in learners.items():
            if problem := self.learners[name].problem_with(count):
                raise PlanError(f"the plan has {count} for {name}, and {problem}", key="inventory")


def load(path: Path) -> Inventory:
    """The inventory in a file; PlanError names every mistake in it, with its line and column."""
    return _load(path, Inventory)


def load_access(path: Path) -> HostAccess:
    """The same of how hosts are reached, also where the file says nothing else."""
    return _load(path, AnyInventory)


def _load(path: Path, kind: type[AccessT]) -> AccessT:
    found = load_settings(path, kind, noun="inventory", begins="syncer: {host: …}")
    home, ssh = path.absolute().parent, found.ssh
    key, known_hosts = _beside(ssh.key, home), _beside(ssh.known_hosts, home)
    return replace(found, ssh=replace(ssh, key=key, known_hosts=known_hosts))


def _is_of_one_host(address: str) -> bool:
    found = ip_address(address)
    return not (found.is_unspecified or found.is_multicast)


def _beside(file: str, folder: Path) -> str:
    """A file that is named without a folder lies beside the inventory."""
    return str(folder / file) if file and not file.startswith(("/", "~")) else file


def _with_own(labels: Mapping[str, str], region: str, generation: str) -> Mapping[str, str]:
    own = {REGION: region, GENERATION: generation}
    return {**labels, **{name: value for name, value in own.items() if value}}


def _require_host(host: str, key: str) -> None:
    if not is_host(host):
        raise PlanError(f"{host!r} is no name or address of a host", key=key)
