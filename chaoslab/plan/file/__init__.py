"""A plan file: YAML and the kinds it is handed → `FaultPlan`.

    file ─► document ─► overrides ─► variables ─► decoding (pydantic) ─► FaultPlan
            (places)    (--set)      (${…})       keys, units, names
                 └──────── every mistake: file:line:column, key, what to write ────────┘

    plan, document = load(path, kinds(), overrides=["training.learners=8"])

All mistakes of a file are reported in one PlanError, a line for each. The module is the one door
to YAML; it knows no fault and no check by name and starts nothing.

For authors of faults and checks: the fields of the frozen dataclass are the keys in the plan.

    field                             in the plan                 rule
    within_s: Duration = 30.0         within: 30s                 suffix _s is cut off
    limit_bytes: Bytes                limit: 64MiB                suffix _bytes, too
    limit_bytes_per_s: BytesPerSecond limit: 2MB/s                suffix _bytes_per_s, too
    min_share: Share = 0.7            min_share: 70%              percentage
    max_slowdown: Factor              max_slowdown: 1.25x
    max_gap: Bound                    max_gap: 3x baseline | 2s
    tokens: Count                     tokens: 2M                  bare numbers too
    times: int, ratio: float          times: 3, ratio: 0.5        plain numbers
    signal: Literal["SIGKILL", …]     signal: SIGTERM             closed list; also a StrEnum
    offsets_s: tuple[Duration, ...]   offsets: [1s, 2s]           a list of the above
    limit: Settings (a dataclass)     limit: {…}                  nested
    racks: Mapping[str, str]          racks: {learner-0: a1}      names to one of the above
    nodes: int | tuple[Group, ...]    nodes: 4, or [{…}, {…}]     a count, or a list in its place
    until_s: Duration | None = None   until: 30s, or left out     None is never written

The types of quantities are those of `core.units`. A field without a default must be given. What an
error says to write is `metadata["example"]` of the field, where its type does not tell. Docstrings
below fields become the editor's help. A check across fields belongs in `__post_init__` and raises
PlanError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any, Final, TypeVar

from ruamel.yaml import YAML

from chaoslab.core.errors import PlanError
from chaoslab.core.secrets import Secrets
from chaoslab.plan.file.decoding import decoded
from chaoslab.plan.file.document import Document, Mistake, Override, override, read
from chaoslab.plan.file.entries import Kinds, check_of, entries_in, fault_of, frame
from chaoslab.plan.file.fleet_entry import fleet_in
from chaoslab.plan.file.references import missing
from chaoslab.plan.file.schema import json_schema
from chaoslab.plan.file.variables import interpolate
from chaoslab.plan.file.writing import written
from chaoslab.plan.model import FaultPlan, FleetSpec, Training, with_known_labels

__all__ = [
    "Document",
    "Kinds",
    "Mistake",
    "Override",
    "json_schema",
    "load",
    "load_settings",
    "missing",
    "resolved_yaml",
]
SettingsT = TypeVar("SettingsT")


def load(
    path: Path,
    kinds: Kinds,
    *,
    overrides: Sequence[str | Override] = (),
    seed: int | None = None,
    fleet: str | None = None,
    is_record: bool = False,
) -> tuple[FaultPlan, Document]:
    """The plan in a file, with the overrides of the command line applied before it is judged.

    An override that is a text was typed as `--set`.

    The document says where each part was written: `refuse` places further mistakes there.

    In a record, secrets are names of what was there when it was written, and stay names.

    PlanError names every mistake that could be found.
    """
    document = read(path, is_record=is_record)
    given = [
        one if isinstance(one, Override) else Override(setting=one, label=f"--set {one}")
        for one in overrides
    ]
    if seed is not None:
        given.append(Override(setting=f"seed={seed}", label=f"--seed {seed}"))
    if fleet is not None:
        given.append(Override(setting=f"fleet.kind={fleet}", label=f"--fleet {fleet}"))
    for one in given:
        override(document, one)
    if is_record:
        document.environment = None
    interpolate(document)
    _name_faults(document)
    found = _decoded(document, kinds)
    if not is_record and "fleet" in found and not document.problems:
        found["fleet"] = _labelled(
            found["fleet"], found.get("training", Training()), kinds, document
        )
    plan = None
    try:
        plan = FaultPlan(**found)
        _refuse_secret_names(plan, document.secrets)
    except PlanError as error:
        document.note(error)
    if plan is None or document.problems:
        raise document.error()
    return plan, document


def load_settings(path: Path, kind: type[SettingsT], *, noun: str, begins: str) -> SettingsT:
    """A file of its own that is read as strictly as a plan, as a frozen dataclass of settings.

    PlanError names every mistake that could be found. `noun` and `begins` are for its words.
    """
    document = read(path, noun=noun, begins=begins)
    settings: SettingsT = decoded(document, (), kind, document.tree)
    document.refuse(())
    return settings


def resolved_yaml(plan: FaultPlan, *, secrets: Secrets | None = None) -> str:
    """The whole plan with its defaults; loading it gives an equal plan.

    `secrets` (of its document) are written as the `${env:NAME}` they came from.
    """
    text = StringIO()
    yaml = YAML()
    yaml.dump((secrets or Secrets()).hide(dict(written(plan))), text)
    return text.getvalue()


def _refuse_secret_names(plan: FaultPlan, secrets: Secrets) -> None:
    """Names stand in folders, files and command lines, where nothing can be hidden."""
    training, programs = plan.training, plan.fleet.programs
    named = [("name", plan.name), ("training.model", training.model)]
    named += [("training.task", training.task or "")]
    named += [(f"fleet.programs.{role}", module) for role, module in programs.items()]
    named += [("training.learners", learner) for learner in training.roster]
    named += [(f"faults[{number}].id", fault.id) for number, fault in enumerate(plan.faults)]
    for key, name in named:
        if secrets.text(name) != name:
            raise PlanError(
                "cannot be a secret, because folder names and command lines show it: write "
                "${env.public:NAME} if it may be public",
                key=key if "[" not in key else "",
            )


def _name_faults(document: Document) -> None:
    """Give each fault without an `id` one from its name and position: kill-0."""
    faults = document.tree.get("faults")
    for number, fault in enumerate(faults if isinstance(faults, list) else ()):
        if isinstance(fault, dict) and "id" not in fault:
            short = str(fault.get("fault", "fault")).rpartition(".")[2]
            fault["id"] = f"{short.replace('_', '-')}-{number}"


def _labelled(fleet: FleetSpec, training: Training, kinds: Kinds, document: Document) -> FleetSpec:
    """The fleet with the labels that it knows of learners; PlanError as of its inventory."""
    settings = fleet.settings or kinds.fleets[fleet.kind]()
    try:
        return with_known_labels(fleet, settings, training)
    except PlanError as error:
        if not error.key or error.where:
            raise  # it names places in a file of its own
        document.add_problem(("fleet", *error.key.split(".")), error.message)
        raise document.error() from error


def _decoded(document: Document, kinds: Kinds) -> dict[str, Any]:
    """The arguments of a plan; if it has mistakes, those that have none and that can be judged
    without the others.
    """
    tree, parts = document.tree, dict[str, Any]()
    parts["faults"] = entries_in(document, ("faults", "fault"), kinds.faults, fault_of)
    parts["expect"] = entries_in(document, ("expect", "check"), kinds.checks, check_of)
    if "fleet" in tree:
        parts["fleet"] = fleet_in(document, kinds)
    found = decoded(document, (), _FRAME, tree)
    left_out = {str(way[0]) for way in document.broken if way}
    left_out.update(*(_JUDGED_WITH.get(part, ()) for part in left_out))
    if found is None:
        sound = {key: value for key, value in tree.items() if key not in left_out}
        found = decoded(document, (), _FRAME, {"version": 1, "name": "unknown", **sound})
    if found is None:
        raise document.error()
    given = {one.name: getattr(found, one.name) for one in fields(FaultPlan)}
    given = {key: value for key, value in given.items() if key != "fleet"} | parts
    return {key: value for key, value in given.items() if key not in left_out - {"name"}}


_FRAME: Final = frame(fleet=Any, faults=tuple[Any, ...], expect=tuple[Any, ...])
_JUDGED_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "faults": ("gameday",),
    "limits": ("faults", "gameday"),
    "training": ("faults", "fleet", "abort", "gameday"),
}
"""Parts of a plan that cannot be judged if another part is mistaken."""
