"""A plan against a training that runs already: its fleet, its learners, its rules.

    compose:chaoslab-training ─► find ─► the syncer's command line ─► keys of `fleet`, `training`
    pid:4711, pattern:train.py, ─► find ─► its workers, what they print ─► keys of `training.script`
    hosts with a pattern, or `services`, `selector`

What a plan says of `training` is of no use here, but how a training of the user's own is read: the
training is what it is.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.faults.base import Fault
from chaoslab.fleet.attached.found import FindsNodes, Found
from chaoslab.fleet.attached.settings import Compose, Namespace, Processes
from chaoslab.fleet.base import Ability, Role
from chaoslab.fleet.remote.settings import HostTraining
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.plans import Asked, decode
from chaoslab.prepare.script_lines import recognized

_ENDLESS_ROUNDS: Final = 1_000_000_000
"""Stop rule for a training with a rule of its own."""
_BELOW: Final = frozenset({"processes", "hosts"})
"""Fleets where one process may be a launcher whose workers have no ranks."""
_SIGNALS: Final = frozenset({Ability.KILL, Ability.PAUSE})
_AS_THEY_ARE: Final = (
    "fragments", "sync_every", "overlap", "quorum", "contribute", "merge", "blend", "compression",
)  # fmt: skip
"""Rules that a syncer and a plan call alike."""
_DATA_PARALLEL: Final = {"rigid": "data_parallel", "elastic": "elastic_data_parallel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An attached training, as the command line names it."""

    kind: str
    settings: FindsNodes
    words: str
    """What names it on a command line, quoted."""

    @classmethod
    def of(
        cls, target: str, services: tuple[str, ...] = (), selector: str = "", pattern: str = ""
    ) -> "Target":
        """PlanError if it is none: `processes`, `processes:PID`, `pid:PID`, `pattern:REGEX`,
        `compose:PROJECT`, `namespace:NAME`, `namespace:NAME@CONTEXT` or `ssh:HOST,HOST`. With
        `services` of the project, a `selector` of pods or a `pattern` on hosts it is a training of
        the user's own.
        """
        settings, words = _named(target), [target]
        if services:
            if not isinstance(settings, Compose):
                raise PlanError(f"--service is for compose:PROJECT, not for {target}")
            settings = replace(settings, services=services)
            words += [word for service in services for word in ("--service", service)]
        if selector:
            if not isinstance(settings, Namespace):
                raise PlanError(f"--selector is for namespace:NAME, not for {target}")
            settings = replace(settings, selector=selector)
            words += ["--selector", selector]
        if isinstance(settings, HostTraining) != bool(pattern):
            write = (
                "also write --pattern REGEX: what of the hosts is a worker"
                if not pattern
                else ("--pattern is for ssh:HOST,HOST: on this machine write pattern:REGEX")
            )
            raise PlanError(f"{target}: {write}")
        if isinstance(settings, HostTraining):
            settings = replace(settings, pattern=pattern)
            words += ["--pattern", pattern]
        return cls(kind=settings.kind, settings=settings, words=shlex.join(words))

    def reached_by(self, inventory: str | None) -> "Target":
        """The same on hosts that are reached as a file says; as it was without one. PlanError if
        it is on no hosts.
        """
        if inventory is None:
            return self
        if not isinstance(self.settings, HostTraining):
            raise PlanError(f"--inventory is for ssh:HOST,HOST, not for {self.words}")
        words = f"{self.words} {shlex.join(('--inventory', inventory))}"
        return replace(self, settings=replace(self.settings, inventory=inventory), words=words)

    def named(self) -> "Target":
        """The same training, also if the current context changes before the run begins.

        AbilityError if there is no such context, or it looks like production.
        """
        if not isinstance(self.settings, Namespace):
            return self
        return replace(self, settings=self.settings.named())

    def find(self) -> Sequence[Found]:
        """Nodes of the target. AbilityError if it does not run."""
        return self.settings.find()

    @property
    def is_script(self) -> bool:
        """Whether it is a training of the user's own."""
        return self.settings.is_script

    def of_these(self, nodes: Sequence[Found]) -> Mapping[str, Json]:
        """Keys of `fleet:` by which these very nodes are found again."""
        if isinstance(self.settings, Compose):
            return {"project": self.settings.project, "services": list(self.settings.services)}
        if isinstance(self.settings, HostTraining):
            found = self.settings
            named = {"inventory": found.inventory} if found.inventory else {}
            return {"hosts": list(found.hosts), "pattern": found.pattern, **named}
        if isinstance(self.settings, Namespace):
            return asdict(self.settings)
        if isinstance(self.settings, Processes) and self.settings.pattern:
            return {"pattern": self.settings.pattern}
        if self.is_script:
            return {"pid": int(nodes[0].handle)}
        return {"syncer": next(int(one.handle) for one in nodes if one.role is Role.SYNCER)}


def _named(text: str) -> Processes | Compose | Namespace | HostTraining:
    kind, _, which = text.partition(":")
    if kind == "pid" and which.isdecimal():
        return Processes(pid=int(which))
    if kind == "pattern" and which:
        return Processes(pattern=_regex(which))
    if kind == "processes" and (not which or which.isdecimal()):
        return Processes(syncer=int(which) if which else None)
    if kind == "compose":
        return Compose(project=which) if which else Compose()
    if kind == "namespace":
        name, is_named, cluster = which.partition("@")
        if name and (cluster or not is_named):  # a script's variable may be empty
            return Namespace(namespace=name, context=cluster)
    if kind == "ssh" and which:
        return HostTraining(hosts=tuple(which.split(",")))
    raise PlanError(
        f"{text!r} names no training: write `processes`, `processes:PID` with the syncer's "
        "pid, `compose:PROJECT`, `namespace:NAME` or `namespace:NAME@CONTEXT`, or, for a "
        "training of your own, `pid:PID`, `pattern:REGEX`, `compose:PROJECT --service NAME`, "
        "`namespace:NAME --selector app=NAME` or `ssh:HOST,HOST --pattern REGEX`"
    )


def attached(asked: Asked, target: Target, nodes: Sequence[Found]) -> Asked:
    """The same plan on these nodes, with the rules of their training in the place of its own.

    PlanError for a setting of what is as it is, or for a plan for other trainings.
    """
    for setting in asked.settings:
        is_script = target.is_script and re.match(r"training\.script\b", setting)
        if re.match(r"(training|twin)\b", setting) and not is_script:
            raise PlanError(f"--set {setting}: the training runs already, and has no twin")
    if target.is_script:
        training = _script_rules(asked, target, nodes)
    else:
        rules = {**_rules(nodes), "stop": {"rounds": _ENDLESS_ROUNDS}, "step_time": "off"}
        training = {"training": rules}
    settings = (
        *(f"{key}={json.dumps(value)}" for key, value in training.items()),
        *(f"fleet.{key}={json.dumps(value)}" for key, value in target.of_these(nodes).items()),
        "twin=false",
    )
    return replace(asked, settings=(*asked.settings, *settings), fleet=target.kind)


def _script_rules(asked: Asked, target: Target, nodes: Sequence[Found]) -> Mapping[str, Json]:
    """Settings: how many workers there are, what they print if the plan does not say so, and no
    stop rule.
    """
    plan, _ = decode(asked)
    script = plan.training.script
    if script is None:
        raise PlanError(
            f"{asked.plan} is for learners of chaoslab, and this training is your own: "
            "`chaoslab attach TARGET --write gate.yaml` writes a plan for it"
        )
    _refuse_signals(plan, nodes)
    workers = sum(node.role is Role.LEARNER for node in nodes)
    is_known = len(nodes) > 1 or target.kind not in _BELOW
    found: dict[str, Json] = {"workers": workers} if is_known else {}
    if target.kind == "namespace":
        found["restarts"] = "supervisor"
    if not (script.progress or script.preset or script.reads_files):
        printed = target.settings.printed(nodes)
        found |= recognized(printed, workers if is_known else script.workers).keys
    return {"training.stop": {}} | {f"training.script.{key}": one for key, one in found.items()}


def _refuse_signals(plan: FaultPlan, nodes: Sequence[Found]) -> None:
    """PlanError for a fault that would signal the first process of a container from inside."""
    for node in [one for one in nodes if one.is_first][:1]:
        for spec in plan.faults:
            needs = spec.settings.needs if isinstance(spec.settings, Fault) else frozenset()
            if Ability.POD in needs or not needs & _SIGNALS:
                continue
            raise PlanError(
                f"{spec.id}: {spec.fault} cannot act on {node.name}, the first process of its "
                f"container ({node.where}), which the kernel keeps from being "
                "killed or stopped from inside: use pod.delete, or let a pod start it below an "
                "init such as tini, or have `shareProcessNamespace: true`"
            )


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise PlanError(f"pattern:{text} is no regular expression: {error}") from error
    return text


def _rules(nodes: Sequence[Found]) -> Mapping[str, Json]:
    """Keys of a plan for such a training, as far as the syncer was told."""
    learners = sum(node.role is Role.LEARNER for node in nodes)
    told = next((node.command.settings for node in nodes if node.role is Role.SYNCER), {})
    rules = {key: told[key] for key in _AS_THEY_ARE if key in told}
    rules["algorithm"] = _algorithm(told)
    if rules["algorithm"] != "decoupled":
        rules = {"algorithm": rules["algorithm"]}
    flags = next(one.command.flags for one in nodes if one.role is Role.LEARNER)
    if "--model" in flags:
        rules["model"] = flags["--model"]
    if "--task" in flags:  # of which a plan does not know into how many fragments it can be cut
        rules.pop("fragments", None)
    for key in ("suspect_after_s", "drop_after_s"):
        if key in told:
            rules[key.removesuffix("_s")] = f"{told[key]}s"
    return {**rules, "learners": learners}


def _algorithm(told: Mapping[str, Json]) -> str:
    if (mode := str(told.get("data_parallel", "off"))) in _DATA_PARALLEL:
        return _DATA_PARALLEL[mode]
    if not told.get("blocking"):
        return "decoupled"
    return "diloco" if told.get("fragments") == 1 else "streaming"
