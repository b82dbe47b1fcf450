"""The parts of the documentation that are made from the code, so that they cannot grow old.

    python -m tests.generated_docs        rewrites every block in place (`make docs`)

    docstrings, payloads, FAULTS, CHECKS, fault_plans/ ─► tables
        ─► <!-- generated: NAME --> … <!-- end: NAME -->

`test_docs.py` fails when a block differs from what is made here.
"""

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, cast, get_args

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.codes import Code as FindingCode
from chaoslab.checks.verdict import SCHEMA_VERSION, schema
from chaoslab.cli.commands.catalog import settings_json
from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Payload, payloads
from chaoslab.faults.base import Fault, Layer
from chaoslab.faults.catalogue import FAULTS
from chaoslab.faults.evidence.codes import Code
from chaoslab.plan.file import load
from chaoslab.prepare.kinds import kinds as plan_kinds
from chaoslab.prepare.plans import bundled_plans
from chaoslab.trainers.presets import PRESETS
from tests import generated_experiments as experiments
from tests import generated_reference as reference
from tests.generated_reference import said_below
from tests.generated_reference import table as _table
from tests.test_floors import PACKAGE

ROOT = PACKAGE.parent
_Kind = TypeVar("_Kind", bound=Enum)


@dataclass(frozen=True, slots=True)
class Block:
    """One generated part of a file."""

    file: str
    name: str
    make: Callable[[], str]

    def current(self) -> str:
        """What stands between the markers now; ValueError if they are not there."""
        _, body, _ = self._parts((ROOT / self.file).read_text(encoding="utf-8"))
        return body.strip("\n")

    def rewrite(self) -> bool:
        """Replace what stands between the markers; whether that changed anything."""
        path = ROOT / self.file
        before, _, after = self._parts(old := path.read_text(encoding="utf-8"))
        new = f"{before}\n{self.make()}\n{after}"
        if new != old:
            path.write_text(new, encoding="utf-8")
        return new != old

    def _parts(self, text: str) -> tuple[str, str, str]:
        begin, end = f"<!-- generated: {self.name} -->\n", f"<!-- end: {self.name} -->"
        head, is_there, rest = text.partition(begin)
        body, is_closed, tail = rest.partition(end)
        if not is_there or not is_closed:
            raise ValueError(f"{self.file} needs the lines {begin.strip()} and {end}")
        return head + begin, body, end + tail


# ---------------------------------------------------------------- events


def kinds() -> str:
    """Every kind of event, by who writes it, with the fields of its payload."""
    carried = payloads()
    return "\n\n".join(
        f"**{heading[0].upper()}{heading[1:]}**\n\n"
        + _table(("kind", "data"), [(f"`{kind}`", _carried(carried[kind])) for kind, _ in members])
        for heading, members in _groups(Kind)
    )


def _groups(kind: type[_Kind]) -> Sequence[tuple[str, list[tuple[_Kind, str]]]]:
    """The members of an enum with what its source says of each, below each heading in that."""
    (found,) = ast.parse(source := inspect.getsource(kind)).body
    body = cast("ast.ClassDef", found).body
    groups: list[tuple[str, list[tuple[_Kind, str]]]] = []
    for before, node, after in zip(body[:-1], body[1:], [*body[2:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lines = source.splitlines()[before.end_lineno : node.lineno - 1]
            heading = " ".join(line.strip()[5:] for line in lines if "# -- " in line)
            if heading or not groups:
                groups.append((heading, []))
            groups[-1][1].append((kind[node.targets[0].id], said_below(after)))
    return groups


def _members(kind: type[_Kind]) -> Iterator[tuple[_Kind, str]]:
    for _, members in _groups(kind):
        yield from members


def _carried(payload: type[Payload]) -> str:
    """What a payload says: its docstring, then its fields with what is said of them."""
    (whole,) = ast.parse(inspect.getsource(payload)).body
    told = ast.get_docstring(whole) or ""  # type: ignore[arg-type]  # it is a class
    described: dict[str, str] = {}
    for kind in reversed(payload.__mro__[:-2]):
        (node,) = ast.parse(inspect.getsource(kind)).body
        for field, after in pairwise([*node.body, None]):  # type: ignore[attr-defined]  # a class
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                described[field.target.id] = said_below(after)
    shown = []
    for one in fields(payload):  # type: ignore[arg-type]  # it is one
        said = "; ".join(filter(None, (described[one.name].rstrip("."), _values(one.type))))
        shown.append(f"`{one.name}`{f' ({said})' if said else ''}")
    return f"{' '.join(told.split())} {', '.join(shown)}".strip()


def _values(hint: object) -> str:
    """The codes of an enum, or the keys of each item of a list."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return ", ".join(one.value for one in kind)
        if isinstance(kind, type) and issubclass(kind, Payload):
            return "each with " + ", ".join(f"`{one.name}`" for one in fields(kind))  # type: ignore[arg-type]  # it is one
    return ""


# ---------------------------------------------------------------- catalogues and plans


def faults() -> str:
    """Every fault: what it does, its settings, what proves it."""
    rows = [
        (f"`{name}`", fault.summary, _settings(fault), fault.proof)
        for name, fault in sorted(FAULTS.items())
    ]
    return _table(("fault", "what it does", "settings", "what proves it"), rows)


def evidence_codes() -> str:
    """Every reason code of evidence with its status."""
    rows = [(f"`{code.value}`", code.status.value, said) for code, said in _members(Code)]
    return _table(("code", "status", "meaning"), rows)


def finding_codes() -> str:
    """Every code of findings, by what it is about."""
    rows = [
        (heading, ", ".join(f"`{code}`{f' ({said.rstrip(chr(46))})' if said else ''}"
                            for code, said in members))
        for heading, members in _groups(FindingCode)
    ]  # fmt: skip
    return _table(("about", "codes"), rows)


def layers() -> str:
    """Every fault: where it acts, and which failure it stands for."""
    rows = [
        (f"`{name}`", fault.layer.value, fault.imitates) for name, fault in sorted(FAULTS.items())
    ]
    return _table(("fault", "acts on", "stands for"), rows)


def acting_layers() -> str:
    """Every layer on which faults act."""
    rows = [(layer.value, said) for layer, said in _members(Layer)]
    return _table(("acts on", "which is"), rows)


def checks() -> str:
    """Every check: what it states, and its settings with their defaults."""
    rows = [(f"`{name}`", check.summary, _settings(check)) for name, check in CHECKS.items()]
    return _table(("check", "what it states", "settings"), rows)


def plans() -> str:
    """Every plan that comes with chaoslab, and what it is about."""
    rows = [
        (f"[`{name}`](../fault_plans/{path.name})",
         load(path, plan_kinds())[0].description)
        for name, path in bundled_plans().items()
    ]  # fmt: skip
    return _table(("plan", "what happens"), rows)


def _settings(kind: type[Fault] | type[Check]) -> str:
    """Each with its default; of `how` all choices, the default first."""
    found = {str(one["key"]): _yaml(one["default"]) for one in settings_json(kind)}
    for one in fields(kind):  # type: ignore[arg-type]  # all are dataclasses
        if one.name == "how":
            found["how"] = " / ".join(type(one.default))
    return ", ".join(f"`{key}: {default}`" for key, default in found.items())


def _yaml(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def presets() -> str:
    """Every preset: its trainer, what its lines say and lack, and where their formats stand."""
    rows = []
    for one in PRESETS:
        groups = one.patterns().progress.groupindex
        told = {
            "step": groups.keys() & {"step", "steps_per_epoch"},
            "loss": groups.keys() & {"loss", "second_loss"},
            "saved": one.saved, "resumed": one.resumed,
        }  # fmt: skip
        says = ", ".join(what for what, is_told in told.items() if is_told)
        rows.append((f"`{one.name}`", one.trainer, says, one.lacks, one.checked, one.recorded))
    return _table(("preset", "trainer", "says", "lacks", "checked against", "recorded"), rows)


BLOCKS = (
    Block("docs/plans.md", "plans", plans),
    Block("docs/faults.md", "faults", faults),
    Block("docs/faults.md", "evidence-codes", evidence_codes),
    Block("docs/faults.md", "layers", acting_layers),
    Block("docs/faults.md", "stands-for", layers),
    Block("docs/verdict.md", "checks", checks),
    Block("docs/verdict.md", "codes", finding_codes),
    Block("docs/record.md", "kinds", kinds),
    Block("docs/record.md", "verdict", reference.verdict_fields),
    Block("docs/cli.md", "commands", reference.commands),
    Block("docs/plans.md", "plan-keys", reference.plan_keys),
    Block("docs/python.md", "python-api", reference.python_api),
    Block("docs/simulation.md", "experiment-keys", experiments.experiment_keys),
    Block("docs/simulation.md", "scenario-keys", experiments.scenario_keys),
    Block("docs/simulation.md", "timeline-keys", experiments.timeline_keys),
    Block("docs/simulation.md", "window-keys", experiments.window_keys),
    Block("docs/simulation.md", "fleets", experiments.fleets),
    Block("docs/trainers.md", "presets", presets),
)

SCHEMAS = ROOT / "docs" / "schemas"


def verdict_schema() -> Path:
    """The published schema of this version of verdict.json; once written, it never changes."""
    path = SCHEMAS / f"verdict-{SCHEMA_VERSION}.json"
    if not path.exists():
        path.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{verdict_schema().relative_to(ROOT)}: there\n")
    for block in BLOCKS:
        changed = "rewritten" if block.rewrite() else "as it should be"
        sys.stdout.write(f"{block.file}, {block.name}: {changed}\n")
