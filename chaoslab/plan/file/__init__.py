"""A plan file: YAML and the kinds it is handed → `FaultPlan`.

    file ─► document ─► overrides ─► variables ─► shape (pydantic) ─► FaultPlan
            (places)    (--set)      (${…})       keys, units, names
                 └──────── every mistake: file:line:column, key, what to write ────────┘

    plan, document = load(path, kinds(), overrides=["training.learners=8"])

All mistakes of a file are reported in one PlanError, a line for each. The module is the one door
to YAML; it knows no fault and no check by name and starts nothing.

For authors of faults and checks: the fields of the frozen dataclass are the keys in the plan.

    field                             in the plan                 rule
    within_s: float = 30.0            within: 30s                 suffix _s: duration, cut off
    limit_bytes: int                  limit: 64MiB                suffix _bytes: size, cut off
    limit_bytes_per_s: float          limit: 2MB/s                suffix _bytes_per_s, cut off
    min_share: float = 0.7            min_share: 70%              suffix _share: percentage
    max_delta: units.Share = 0.05     max_delta: 5%               by type: percentage
    max_slowdown: units.Factor        max_slowdown: 1.25x         by type, or suffix _factor
    max_gap: units.Bound              max_gap: 3x baseline | 2s   by type
    tokens: units.Count               tokens: 2M                  by type; bare numbers too
    times: int, ratio: float          times: 3, ratio: 0.5        plain numbers
    signal: Literal["SIGKILL", …]     signal: SIGTERM             closed list; also a StrEnum
    offsets_s: tuple[float, ...]      offsets: [1s, 2s]           a list of the above
    limit: Settings (a dataclass)     limit: {…}                  nested
    racks: Mapping[str, str]          racks: {learner-0: a1}      names to one of the above
    nodes: int | tuple[Group, ...]    nodes: 4, or [{…}, {…}]     a count, or a list in its place
    until_s: float | None = None      until: 30s, or left out     None is never written

A field without a default must be given. What an error says to write is `metadata["example"]` of
the field, where its type does not tell. Docstrings below fields become the editor's help. A check
across fields belongs in `__post_init__` and raises PlanError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from ruamel.yaml import YAML

from chaoslab.core.errors import PlanError
from chaoslab.core.secrets import Secrets
from chaoslab.plan.file.document import (
    Branch,
    Document,
    Mistake,
    Override,
    Tree,
    override,
    read,
)
from chaoslab.plan.file.references import missing
from chaoslab.plan.file.shape import UNKNOWN_KEY, record
from chaoslab.plan.file.variables import interpolate
from chaoslab.plan.file.whole import Kinds, plan_shape
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
    found = _decoded(document, kinds.adapter)
    for key in ("faults", "expect"):
        specs = enumerate(found.get(key, ()))
        found[key] = tuple(replace(spec, where=document.where((key, n))) for n, spec in specs)
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
    adapter = TypeAdapter(record(kind))
    try:
        found = adapter.validate_python(document.tree)
    except ValidationError as error:
        _blame(document, error)
        document.refuse(())
        raise
    document.refuse(())
    settings: SettingsT = found
    return settings


def resolved_yaml(plan: FaultPlan, *, secrets: Secrets | None = None) -> str:
    """The whole plan with its defaults; loading it gives an equal plan.

    `secrets` (of its document) are written as the `${env:NAME}` they came from.
    """
    text = StringIO()
    yaml = YAML()
    yaml.dump((secrets or Secrets()).hide(dict(written(plan))), text)
    return text.getvalue()


def json_schema(kinds: Kinds) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of plan files, one variant for each fault and check."""
    whole = TypeAdapter(plan_shape(kinds, is_whole=True))
    schema = whole.json_schema(schema_generator=_Untitled)
    dialect = GenerateJsonSchema.schema_dialect
    return {"$schema": dialect, **schema, "title": "chaoslab fault plan"}


class _Untitled(GenerateJsonSchema):
    """The generator of pydantic without a title for each key: an editor shows the key anyway."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's hook
        return False


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
        document.blame(("fleet", *error.key.split(".")), error.message)
        raise document.error() from error


def _decoded(document: Document, adapter: TypeAdapter[dict[str, Any]]) -> dict[str, Any]:
    """What an adapter makes of a document; if that has mistakes, of the parts that have none and
    that can be judged without the others.
    """
    try:
        found: dict[str, Any] = adapter.validate_python(document.tree)
    except ValidationError as error:
        _blame(document, error)
    if not document.problems:
        return found
    broken = {str(branch[0]) for branch in document.broken if branch}
    left_out = broken.union(*(_JUDGED_WITH.get(part, ()) for part in broken))
    sound = {key: value for key, value in document.tree.items() if key not in left_out}
    try:
        return adapter.validate_python({"version": 1, "name": "unknown", **sound})
    except ValidationError as error:
        raise document.error() from error  # a mistake of another kind than those that are known


_JUDGED_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "faults": ("gameday",),
    "limits": ("faults", "gameday"),
    "training": ("faults", "fleet", "abort", "gameday"),
}
"""Parts of a plan of which nothing more can be said if another part is mistaken."""


def _blame(document: Document, error: ValidationError) -> None:
    for mistake in error.errors(include_url=False):
        branch = _branch(document.tree, mistake["loc"])
        if branch not in document.broken:
            document.blame(branch, mistake["msg"], is_key=mistake["type"] == UNKNOWN_KEY)


def _branch(tree: Tree, way: tuple[str | int, ...]) -> Branch:
    """Where a mistake is: the way of pydantic without the names of variants, as in the file."""
    branch: Branch = ()
    for part in way:
        if isinstance(tree, list):
            if not isinstance(part, int):
                continue
            tree = tree[part]
        elif isinstance(tree, dict):
            if part not in tree and part in tree.values():
                continue
            tree = tree.get(str(part))
        elif tree is not None:
            continue
        branch = (*branch, part)
    return branch
