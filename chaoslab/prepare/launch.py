"""Launch of the run under test: a plan's `training` as command lines and environments.

    FaultPlan ─ Launch ──► NodeSpec of the syncer ─────────────────── SYNCER_READY: address
                       └─► NodeSpecs of the learners, given their links' addresses
                       └─► NodeSpec of the evaluator, after the run

Every flag of `chaoslab.diloco` that the harness uses stands in this file or, for authentication, in
`admission`. The run under test is started by command line and never imported: what works here works
by hand.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.cache import cache_folder
from chaoslab.core.events import Json
from chaoslab.core.secrets import Secrets, reference
from chaoslab.core.units import Pacing
from chaoslab.fleet.base import Ability, Hosts, NodeSite, NodeSpec, Role
from chaoslab.fleet.settings import TaskTrial
from chaoslab.plan.model import LAUNCHER, SYNCER, Algorithm, FaultPlan, Script, Training
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare.admission import Admission
from chaoslab.prepare.systems import environment_python
from chaoslab.trainers.reading import OWN_LINES

EVALUATOR = "evaluator"
_EVALUATIONS = 10
_DECAY_STEPS = 5000
"""Decay steps of a training whose steps are not known beforehand."""
_PROGRAMS = {
    Role.SYNCER: "chaoslab.diloco.syncer",
    Role.LEARNER: "chaoslab.diloco.learner",
    Role.EVALUATOR: "chaoslab.diloco.evaluate",
}
"""Unless the plan names others under `fleet.programs`, which take the same flags."""
_SYSTEM = "chaoslab.systems.node"
"""The program of learners and syncer where a system of others trains."""
_KEEPS = {Role.SYNCER: "state", Role.LEARNER: "checkpoints"}
"""The folders in which they keep what outlives them."""
_HOST_FLAGS = ("--host-index", "{host}", "--meeting", "{meeting}")
_HOST_SECRET = "CHAOSLAB_HOSTS_SECRET"
"""Secret of the processes of a learner of several hosts, if each has a machine of its own."""
_LOCALHOST = "127.0.0.1"
"""Address at which learners of one machine meet to average their gradients."""
_AS_IT_IS: Mapping[str, Json] = {
    "merge": "average", "outer_lr": 1.0, "outer_momentum": 0.0, "compression": "f32",
    "norm_limit": None,
}  # fmt: skip
"""With data parallelism the next version is the common state of all learners."""
_ENVIRONMENT = {"NPROC": "1"}
"""One thread per process: several learners share this machine's cores."""
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Keeps the output of a killed process."""


def programs(plan: FaultPlan) -> Mapping[Role, str]:
    """The module that each role runs, and its first arguments."""
    given, system = plan.fleet.programs, plan.training.system
    theirs = {role: f"{_SYSTEM} {system} {role}" for role in _KEEPS} if system in SYSTEMS else {}
    return {role: given.get(role, theirs.get(role, own)) for role, own in _PROGRAMS.items()}


def task_trial(plan: FaultPlan, node_site: NodeSite | None = None) -> TaskTrial | None:
    """Trial of the plan's own task where its learners will run; None for a preset."""
    training = plan.training
    if training.task is None:
        return None
    fragments = settings(training)["fragments"]
    argv = (
        (node_site or NodeSite()).python, "-m", "chaoslab.diloco.task_trial",
        "--task", training.task, "--data", training.data,
        "--batch", str(training.inner.batch), "--sequence", str(training.inner.sequence),
        "--fragments", str(fragments), "--shards", str(len(training.roster)),
        "--hosts", str(math.lcm(*training.host_counts)),
    )  # fmt: skip
    return TaskTrial(argv=argv, environment=_ENVIRONMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The nodes of one run of a plan."""

    plan: FaultPlan
    snapshots: Path
    """Folder of the snapshots between syncer and evaluator, unless `node_site` says otherwise."""
    tokens: Path
    """Folder of the learners' tokens, if the syncer takes any."""
    folder: Path = field(default_factory=Path)
    """Folder of the run in which workers of a script may keep files."""
    node_site: NodeSite = field(default_factory=NodeSite)
    """The place in which the nodes are to run."""
    secrets: Secrets = field(default_factory=Secrets)
    """Secrets of the plan: command lines, which every user of a machine sees, name them instead."""
    _admission: Admission = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        admission = Admission(self.node_site, self.tokens, self.plan.limits.timeout_s)
        object.__setattr__(self, "_admission", admission)

    def workers(
        self, script: Script, ports: Mapping[str, Mapping[str, int]] | None = None
    ) -> tuple[NodeSpec, ...]:
        """Workers of a training that is not chaoslab's own, or their launcher: a user's command as
        it is. `ports`: by node, where on this machine the script's ports are, by name; those that
        the plan names without it.
        """
        ports, python = ports or {}, self.node_site.python
        folder = self.node_site.folder or str(self.folder.absolute())
        environment = {
            "CHAOSLAB_WORKERS": str(script.workers),
            "CHAOSLAB_FOLDER": folder,
            **_UNBUFFERED,
        }
        workers = tuple(
            NodeSpec(
                name=name,
                role=Role.LEARNER,
                command=()
                if script.is_launched
                else script.words(rank, folder, ports.get(name), python),
                environment={"CHAOSLAB_RANK": str(rank), **environment},
                labels=self.plan.labels.get(name, {}),
                reads=OWN_LINES if script.reads_files else script.patterns,
                keeps=folder,
                keeps_names=script.damageable(rank),
                has_volume=self._needs(Ability.VOLUME),
            )
            for rank, name in enumerate(script.names)
        )
        if not script.is_launched:
            return workers
        launcher = NodeSpec(
            name=LAUNCHER,
            role=Role.LAUNCHER,
            command=script.words(0, folder, ports.get(LAUNCHER), python),
            environment=environment,
            labels=self.plan.labels.get(LAUNCHER, {}),
            reads=workers[0].reads,
            launches=workers,
            restarts=script.restarts == "itself",
        )
        return (launcher,)

    def syncer(self, *, keeps_training: bool = False) -> NodeSpec:
        """The syncer, on a port of its own choosing; it reports it in SYNCER_READY.

        If it `keeps_training`, that goes on when the stop rule is met, until SIGTERM.
        """
        kept = _EVALUATIONS if self.plan.is_evaluated else None
        return self._node(
            SYNCER,
            Role.SYNCER,
            "--address", self.node_site.listen,
            "--snapshots", self._shared_snapshots,
            "--settings-json", json.dumps(settings(self.plan.training, kept=kept)),
            *(["--keep-training"] if keeps_training else []),
            *self._system_settings(),
        )  # fmt: skip

    def learners(self, addresses: Mapping[str, str]) -> tuple[NodeSpec, ...]:
        """Initial learners, given by name the address of the syncer."""
        return tuple(self._learner(name, addresses[name]) for name in self._training.learner_names)

    def reserve(self, addresses: Mapping[str, str]) -> tuple[NodeSpec, ...]:
        """Learners that may join later: known to the syncer, counted in the division of data."""
        return tuple(self._learner(name, addresses[name]) for name in self._training.reserve_names)

    def _learner(self, name: str, syncer: str) -> NodeSpec:
        """Each reads its own shard of the data; how many there are never changes in a run."""
        roster, hosts = self._training.roster, self._training.hosts_of(name)
        return self._node(
            name,
            Role.LEARNER,
            *(() if hosts == 1 else ("--hosts", str(hosts))),
            "--syncer", syncer,
            "--shard", str(roster.index(name)), "--shards", str(len(roster)),
            *self._model(),
            "--seed", str(self.plan.seed),
            "--save-every", repr(self._training.save_every_s),
            *self._pace(name),
            *_inner(self._training),
            *(("--data-parallel", _LOCALHOST) if self._training.is_data_parallel else ()),
            "--compilation-cache", self._cache,
        )  # fmt: skip

    def _pace(self, name: str) -> tuple[str, ...]:
        """Step time and speed of a learner; a step time that is measured is told to it later."""
        step_time, speed = self._training.step_time, self._training.speeds.get(name)
        given = () if isinstance(step_time, Pacing) else ("--step-time", repr(step_time))
        return given if speed is None else (*given, "--speed", repr(speed))

    def evaluator(self) -> NodeSpec:
        """Measures the held-out loss of at most ten snapshots, spread over the run, and exits."""
        return self._node(
            EVALUATOR,
            Role.EVALUATOR,
            "--snapshots", self._shared_snapshots,
            *self._model(),
            "--sequence", str(self.plan.training.inner.sequence),
            "--at-most", str(_EVALUATIONS),
            "--compilation-cache", self._cache,
        )  # fmt: skip

    def _system_settings(self) -> tuple[str, ...]:
        """Settings of a system of others, for its coordinator and its learners."""
        training = self._training
        if training.system not in SYSTEMS:
            return ()
        return "--system-settings", json.dumps(training.system_settings)

    @property
    def _training(self) -> Training:
        return self.plan.training

    @property
    def _shared_snapshots(self) -> str:
        return self.node_site.snapshots or str(self.snapshots.absolute())

    @property
    def _cache(self) -> str:
        return self.node_site.cache or str(compilation_cache())

    def _model(self) -> tuple[str, ...]:
        training = self._training
        named = ("--task", training.task) if training.task else ("--model", training.model)
        return (*named, "--data", self.secrets.text(training.data))

    def _node(self, name: str, role: Role, *flags: str) -> NodeSpec:
        identity = ("--name", name, "--incarnation", "{incarnation}")
        place = ("--directory", "{directory}", *self.node_site.flags)
        place = () if role is Role.EVALUATOR else place
        waits = any(fault.at is not None and fault.at.phase for fault in self.plan.faults)
        is_told = role is Role.LEARNER and self._training.step_time is Pacing.AUTO
        # in places without a better mechanism a slow learner rests by itself
        hooks_used = any(map(self._needs, (Ability.HOOKS, Ability.HOSTS, Ability.SLOW)))
        hears = is_told or (role is not Role.EVALUATOR and (waits or hooks_used))
        hooks = ("--test-hooks",) if hears else ()
        program = programs(self.plan)[role]
        is_theirs = program.startswith(f"{_SYSTEM} ")
        system = self._training.system
        hosts = self._training.hosts_of(name) if role is Role.LEARNER else 1
        return NodeSpec(
            name=name,
            role=role,
            command=(
                str(environment_python(system)) if is_theirs else self.node_site.python,
                "-m",
                *program.split(),
                *identity,
                *place,
                *self._admission.flags(name, role),
                *hooks,
                *flags,
            ),
            environment={**_ENVIRONMENT, **(SYSTEMS[system].environment if is_theirs else {})},
            secrets=self._named_in(flags),
            private_files=self._admission.private_files(name, role),
            labels=self.plan.labels.get(name, {}),
            hosts=(
                None if hosts == 1 else Hosts(count=hosts, flags=_HOST_FLAGS, secret=_HOST_SECRET)
            ),
            hears=hears,
            keeps=_KEEPS.get(role, ""),
            has_volume=role in _KEEPS and self._needs(Ability.VOLUME),
            loses_power=role in _KEEPS and self._needs(Ability.CUT_POWER),
        )

    def _named_in(self, flags: Sequence[str]) -> Mapping[str, str]:
        """The secrets that these flags name."""
        values = self.secrets.values
        return {name: values[name] for name in values if reference(name) in " ".join(flags)}

    def _needs(self, ability: Ability) -> bool:
        return any(ability in getattr(fault.settings, "needs", ()) for fault in self.plan.faults)


def settings(training: Training, *, kept: int | None = None) -> Mapping[str, Json]:
    """The syncer's `--settings-json`: the plan's keys, with the algorithm's preset applied.

    `kept`: how many snapshots to spread over a training whose tokens are not known beforehand.

    Streaming waits for every learner (K = M, and learners wait for rounds); diloco also has one
    fragment and no overlap. With data parallelism the outer step takes what all have, as it is.
    """
    stop, limit = training.stop, training.norm_limit
    modes = {Algorithm.DATA_PARALLEL: "rigid", Algorithm.ELASTIC_DATA_PARALLEL: "elastic"}
    given: dict[str, Json] = {
        "learners": list(training.roster),
        "fragments": training.fragment_count,
        "sync_every": training.sync_every,
        "overlap": training.overlap if _is_overlapped(training) else 0,
        "quorum": training.learner_count if training.is_blocking else training.quorum,
        "contribute": training.contribute,
        "blocking": training.is_blocking,
        "data_parallel": modes.get(training.algorithm, "off"),
        "gamma": training.grace.gamma,
        "grace_max_steps": training.grace.max_steps,
        "merge": training.merge,
        "outer_lr": training.outer.lr,
        "outer_momentum": training.outer.momentum,
        "blend": training.blend,
        "compression": training.compression,
        "norm_limit": limit if math.isfinite(limit) else None,
        "suspect_after_s": training.suspect_after_s,
        "drop_after_s": training.drop_after_s,
        "start_patience_s": training.start_patience_s,
        "evaluate_every": _evaluate_every(training),
        "snapshots_kept": kept,
        "stop_rounds": stop.rounds,
        "stop_tokens": stop.tokens,
        "stop_steps": stop.steps,
        "stop_time_s": stop.time_s,
        "stop_loss": stop.loss,
    }
    return {**given, **_AS_IT_IS} if training.is_data_parallel else given


def _is_overlapped(training: Training) -> bool:
    return training.algorithm in (Algorithm.DECOUPLED, Algorithm.STREAMING)


def compilation_cache() -> Path:
    """Folder of compiled steps between runs: under $CHAOSLAB_CACHE or ~/.cache/chaoslab.

    One directory per thread setting, because JAX's key ignores the thread count.
    """
    return cache_folder("jax-one-thread")


def _evaluate_every(training: Training) -> int | None:
    """A tenth of the tokens that the stop rule stands for when every learner works.

    None when it is not known: as for the steps, or a task of the plan's own counts the tokens.
    """
    if training.evaluate_every is not None or training.task is not None:
        return training.evaluate_every
    steps = expected_steps(training)
    return max(1, int(steps * _tokens_per_step(training)) // 10) if steps else None


def expected_steps(training: Training) -> float | None:
    """Steps of each learner that the stop rule stands for when every learner works.

    A round of one of P fragments is H steps, divided by P. None when it is not known: the rule is a
    time or a loss, or tokens that a task of the plan's own counts.
    """
    stop = training.stop
    fragments = training.fragment_count
    expected = [
        steps
        for steps in (
            stop.tokens and training.task is None and stop.tokens / _tokens_per_step(training),
            stop.rounds and stop.rounds * training.sync_every / fragments,
            stop.steps,
        )
        if steps
    ]
    return min(expected, default=None)


def _tokens_per_step(training: Training) -> int:
    """Tokens of all learners together in a step, with a built-in model."""
    return training.learner_count * training.inner.batch * training.inner.sequence


def _inner(training: Training) -> tuple[str, ...]:
    inner = training.inner
    decay_steps = inner.decay_steps or round(expected_steps(training) or _DECAY_STEPS)
    decay_steps = max(decay_steps, inner.warmup_steps + 1)
    return (
        "--batch", str(inner.batch),
        "--sequence", str(inner.sequence),
        "--lr", repr(inner.lr),
        "--warmup-steps", str(inner.warmup_steps),
        "--decay-steps", str(decay_steps),
        "--final-share", repr(inner.final_share),
        "--weight-decay", repr(inner.weight_decay),
    )  # fmt: skip
