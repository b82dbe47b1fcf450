"""What a plan cannot ask of a script: what needs chaoslab's own learners and syncer."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from chaoslab.faults.base import Fault, ShapesLinks
from chaoslab.faults.process import ProcessCrashLoop
from chaoslab.fleet.base import Ability
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import FaultPlan, FaultSpec, Script
from chaoslab.plan.model.script import FOLDER

_SSH: Final = "ssh"
_ATTACHED: Final = MappingProxyType(
    {"processes": "pid", "compose": "services", "namespace": "selector", "hosts": "pattern"}
)
"""Fleets of trainings that run already, with the key that names one of the user's own."""
FLEETS: Final = ("local", _SSH, *_ATTACHED)
_KEEPING: Final = ("compose", "namespace")
"""Those of them in whose containers the folder of checkpoints is."""
_ON_FILES: Final = frozenset({Ability.STORAGE, Ability.VOLUME})
_ABLE: Final = frozenset(
    {
        Ability.KILL, Ability.PAUSE, Ability.SLOW, Ability.QUOTA, Ability.DUTY_CYCLE, Ability.CROWD,
        Ability.MEMORY_LIMIT, Ability.STORAGE, Ability.VOLUME, Ability.LINK, Ability.POD,
    }
)  # fmt: skip
"""Abilities for any process, whatever it runs, for the ports that its plan names, and for its pod.
"""
_DISCONNECTED: Final = MappingProxyType(
    {
        "local": "use network.partition",
        "processes": "it acts on containers: use process.pause",
        _SSH: "it acts on containers: use process.pause",
        "namespace": "no call of a cluster takes a pod off its network, and a NetworkPolicy is "
        "carried out by some network plugins alone, which leave open connections as they are: use "
        "process.pause or pod.delete",
    }
)
"""Why no script can be taken off its network, or what to use instead, by fleet."""
_DISCONNECT: Final = "network.disconnect"
_LIMIT_DATA: Final = "network.limit_data"
"""Proved by what each stream of a learner carried: of a script's connections that is not known."""
_NO_CLOCK: Final = "the clock of a program without a hook for it cannot be set from outside"
_INSTEAD: Final = {
    _LIMIT_DATA: "use network.reset or network.flap",
    "process.hang": "use process.pause",
    "process.preempt": "use process.kill with `signal: SIGTERM`",
    "clock.step": _NO_CLOCK,
    "clock.drift": _NO_CLOCK,
}
"""Alternatives to faults that are not for scripts, or why there is none."""
_OF_SCRIPTS: Final = frozenset({"resume", "divergence"})
_OF_PROTOCOL: Final = frozenset(
    {
        "agreement", "bandwidth", "checkpoints", "contribution_share", "detection", "handover",
        "ledger", "loss_parity", "quorum_progress", "repairs", "retries", "staleness", "succession",
        "versions",
    }
)  # fmt: skip
"""Checks of what chaoslab's own learners and syncer say, and no script does."""


def impossible_of_script(plan: FaultPlan) -> Iterator[Mistake]:
    """Parts of the plan that no script can answer; for other trainings, checks of scripts."""
    script = plan.training.script
    wrong, why = (_OF_SCRIPTS, "judges a training of your own (`training.script`)")
    if script is not None:
        wrong, why = (_OF_PROTOCOL, "judges what chaoslab's own learners and syncer report")
        yield from _not_done(plan, script)
    for number, spec in enumerate(plan.expect):
        if spec.check in wrong:
            yield ("expect", number, "check"), f"{spec.check} {why}: take it out"


def _not_done(plan: FaultPlan, script: Script) -> Iterator[Mistake]:
    if plan.fleet.kind not in FLEETS:
        text = f"runs on the fleet {', '.join(FLEETS)}, not on {plan.fleet.kind}"
        yield ("training", "script"), text
    yield from _not_started(plan, script)
    for key in ("programs", "profiles"):
        if getattr(plan.fleet, key):
            text = "is for chaoslab's own learners and syncer: take it out beside `training.script`"
            yield ("fleet", key), text
    for number, fault in enumerate(plan.faults):
        if fault.at is not None and fault.at.phase:
            text = "a script announces no protocol points: use step, round, time or loss"
            yield ("faults", number, "at", "phase"), text
        settings = fault.settings
        if script.is_launched and isinstance(settings, ProcessCrashLoop):
            text = "starts a worker several times itself, and its launcher does that: kill it"
            yield ("faults", number, "fault"), f"{fault.fault} {text}"
        is_elsewhere = plan.fleet.kind in _KEEPING and not script.folder
        why = _not_able(fault, plan.fleet.kind) or _not_on_links(fault, script, plan.fleet.kind)
        if why := why or (_not_on_files(fault) if is_elsewhere else ""):
            yield ("faults", number, "fault"), why


def _not_able(fault: FaultSpec, fleet: str) -> str:
    settings = fault.settings
    if fault.fault == _DISCONNECT:
        why = _DISCONNECTED.get(fleet, "")
        return f"{fault.fault} cannot act on these workers: {why}" if why else ""
    is_possible = not isinstance(settings, Fault) or settings.needs <= _ABLE
    if is_possible and fault.fault != _LIMIT_DATA:
        return ""
    usual = (
        "a script can be killed, paused, slowed, crowded and run out of memory, its links be "
        "broken, and its checkpoints be damaged and refused"
    )
    return f"{fault.fault} needs chaoslab's own learners: {_INSTEAD.get(fault.fault, usual)}"


def _not_on_links(fault: FaultSpec, script: Script, fleet: str) -> str:
    if not isinstance(fault.settings, ShapesLinks):
        return ""
    if fleet in _ATTACHED:
        instead = "network.disconnect" if fleet == "compose" else "process.pause"
        return (
            f"{fault.fault} acts on a link that stands in the way of connections and measures "
            f"them, and what runs already keeps those that it has: use {instead}"
        )
    if fleet == _SSH:
        return (
            f"{fault.fault} acts on a link to a port, and workers on hosts have none: use "
            "process.pause, or run the plan with --fleet local"
        )
    if not script.ports:
        return (
            f"{fault.fault} acts on a link to a port, and `training.script` names none: write what "
            "the workers connect to, as in ports: {store: 127.0.0.1:9000}, and {port:store} in "
            "`command`"
        )
    if script.is_launched and not fault.target.launcher:
        return (
            f"{fault.fault} cannot act on single workers of a launcher, which share its link: "
            "write `target: {launcher: all}`"
        )
    return ""


def _not_on_files(fault: FaultSpec) -> str:
    if not isinstance(fault.settings, Fault) or not fault.settings.needs & _ON_FILES:
        return ""
    return (
        f"{fault.fault} acts on checkpoints, and where they are is not known: write the folder, as "
        "the containers see it, as in training: {script: {folder: /checkpoints}}"
    )


def _not_started(plan: FaultPlan, script: Script) -> Iterator[Mistake]:
    """Mistakes in its source: a command, or what runs already."""
    key = _ATTACHED.get(plan.fleet.kind)
    is_attached = key is not None
    if key is not None and not getattr(plan.fleet.settings, "is_script", False):
        yield ("fleet", key), "is missing: it names what of the training is a worker"
    if plan.fleet.kind in ("compose", "namespace") and script.reads_files:
        text = "is a place on this machine, and these workers are elsewhere: read their output"
        yield ("training", "script", "from"), text
    if plan.fleet.kind not in _KEEPING and script.folder:
        text = "is in containers or pods of what runs already: write {folder} in `command`"
        yield ("training", "script", "folder"), text
    if not is_attached and not script.command:
        yield ("training", "script", "command"), "is empty: write what starts a worker"
    if is_attached and script.ports:
        text = "are of workers that chaoslab starts: what runs already keeps its connections"
        yield ("training", "script", "ports"), text
    if plan.fleet.kind == _SSH and script.ports:
        text = "lead from workers of this machine, and these are on hosts: write the services' own"
        yield ("training", "script", "ports"), text
    if not is_attached and script.restarts == "supervisor":
        text = "supervisor is for a training that runs already: use chaoslab or itself"
        yield ("training", "script", "restarts"), text


def doubtful_of_script(plan: FaultPlan) -> Iterator[str]:
    """Likely mistakes about a script."""
    script = plan.training.script
    if script is None or plan.fleet.kind in _ATTACHED:
        return
    if FOLDER not in script.command:
        yield (
            f"training.script.command: it names no {FOLDER} (nor need it, if it reads "
            "$CHAOSLAB_FOLDER): a run, or its twin, goes on from the checkpoints of an earlier one"
        )
    if not plan.twin:
        yield (
            "twin: without its fault-free twin nothing tells a resume with fresh moments, other "
            "data or another learning rate: write `twin: true`"
        )
