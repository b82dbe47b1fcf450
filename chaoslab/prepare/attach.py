"""A plan against a training that runs already: its fleet, its learners, its rules.

    compose:chaoslab-training ─► find ─► the syncer's command line ─► keys of `fleet`, `training`

What a plan says of `training` is of no use here: the training is what it is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.fleet.attached.found import FindsNodes, Found
from chaoslab.fleet.attached.settings import Compose, Namespace, Processes
from chaoslab.fleet.base import Role
from chaoslab.prepare.plans import Asked

_ENDLESS_ROUNDS: Final = 1_000_000_000
"""The stop rule of a training whose own rule is its own."""
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

    @classmethod
    def of(cls, text: str) -> "Target":
        """PlanError if it is none: `processes`, `processes:PID`, `compose:PROJECT`,
        `namespace:NAME` or `namespace:NAME@CONTEXT`.
        """
        kind, _, which = text.partition(":")
        if kind == "processes" and (not which or which.isdecimal()):
            return cls(kind=kind, settings=Processes(syncer=int(which) if which else None))
        if kind == "compose":
            return cls(kind=kind, settings=Compose(project=which) if which else Compose())
        if kind == "namespace":
            name, is_named, cluster = which.partition("@")
            if name and (cluster or not is_named):  # a script's variable may be empty
                return cls(kind=kind, settings=Namespace(namespace=name, context=cluster))
        raise PlanError(
            f"{text!r} names no training: write `processes`, `processes:PID` with the syncer's "
            "pid, `compose:PROJECT`, `namespace:NAME` or `namespace:NAME@CONTEXT`"
        )

    def named(self) -> "Target":
        """The same training, also if the current context changes before the run begins.

        AbilityError if there is no such context, or it looks like production.
        """
        if not isinstance(self.settings, Namespace):
            return self
        return replace(self, settings=self.settings.named())

    def find(self) -> Sequence[Found]:
        """Its nodes. AbilityError if it does not run."""
        return self.settings.find()

    def of_these(self, nodes: Sequence[Found]) -> Mapping[str, Json]:
        """Keys of `fleet:` by which these very nodes are found again."""
        if isinstance(self.settings, Compose):
            return {"project": self.settings.project}
        if isinstance(self.settings, Namespace):
            return {"namespace": self.settings.namespace, "context": self.settings.context}
        return {"syncer": next(int(one.handle) for one in nodes if one.role is Role.SYNCER)}


def attached(asked: Asked, target: Target, nodes: Sequence[Found]) -> Asked:
    """The same plan on these nodes, with the rules of their training in the place of its own.

    PlanError for a setting of what is as it is.
    """
    for setting in asked.settings:
        if re.match(r"(training|twin)\b", setting):
            raise PlanError(f"--set {setting}: the training runs already, and has no twin")
    training = {**_rules(nodes), "stop": {"rounds": _ENDLESS_ROUNDS}, "step_time": "off"}
    settings = (
        f"training={json.dumps(training)}",
        *(f"fleet.{key}={json.dumps(value)}" for key, value in target.of_these(nodes).items()),
        "twin=false",
    )
    return replace(asked, settings=(*asked.settings, *settings), fleet=target.kind)


def _rules(nodes: Sequence[Found]) -> Mapping[str, Json]:
    """What a plan says of such a training, as far as the syncer was told."""
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
