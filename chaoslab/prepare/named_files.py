"""Files of this machine that a plan names, and digests of what is in them.

    settings of fleet, faults, checks ─ named_files ─► costs, traces, inventories ─┐
    training.task, fleet.programs ─► Loaded: their files, what these import ───────┼─► digest
    training.data ─► files, read by real runs alone ───────────────────────────────┘

Two results of equal plans are comparable only if these are equal, too. What a module imports is
read from its source, and nothing is imported. What is installed counts by version (`installed`).
"""

import ast
import glob
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaoslab.plan.model import FaultPlan
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare.systems import environment
from chaoslab.record.run_directory import fingerprint

_OWN = "chaoslab"
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@runtime_checkable
class NamesFiles(Protocol):
    """Settings of a fleet, of links, of a fault or a check that name files."""

    def named_files(self) -> tuple[str, ...]:
        """Paths, as they stand in the plan; of those that are not given, none."""
        ...


def digest(plan: FaultPlan, *, is_simulated: bool) -> str | None:
    """Digest of all files on which a plan's result depends; None if it names none.

    A simulation runs no task and reads no data. Programs that come with chaoslab count as none.
    """
    parts = {"settings": [Path(file) for file in _of_settings(plan)]}
    if not is_simulated:
        parts["code"] = list(Loaded.by(plan).files)
        parts["data"] = data_files(plan.training.data)
    found = {part: contents(files) for part, files in parts.items() if files}
    return fingerprint(found)[:16] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Modules loaded by the plan's own task and programs, as far as their sources show."""

    files: tuple[Path, ...]
    """Every file of their packages and of those that they import, apart from what is installed or
    comes with Python or chaoslab; files that the words after a program name."""
    lost: tuple[str, ...]
    """Modules that the plan names and that are nowhere to be found."""

    @classmethod
    def by(cls, plan: FaultPlan) -> "Loaded":
        """Follow the imports of all modules that the plan names."""
        lost = [name for name in _modules(plan) if _spec(_top(name)) is None]
        files = [Path(word) for word in _words(plan) if os.path.isfile(word)]
        known, next_ones = set[str](), [_top(name) for name in _modules(plan)]
        while next_ones:
            name = next_ones.pop()
            if name in known or name == _OWN or name in sys.stdlib_module_names:
                continue
            known.add(name)
            own = _files_of(_spec(name))
            files += own
            next_ones += [top for file in own for top in _imports(file)]
        return cls(files=tuple(sorted(set(files))), lost=tuple(lost))


def installed(plan: FaultPlan) -> list[str]:
    """Names and versions of all packages that the plan's own programs, or its system, can import.

    None for the programs of chaoslab: `provenance.versions` has what computes there.
    """
    folders = list[str]()
    if any(_top(name) != _OWN for name in _modules(plan)):
        folders += sys.path
    if plan.training.system in SYSTEMS:
        packages = environment(plan.training.system).glob("lib/python*/site-packages")
        folders += [*sys.path, *map(str, packages)]
    found = (path.stem for folder in folders for path in Path(folder).glob("*.dist-info"))
    return sorted(set(found))


def data_files(data: str) -> list[Path]:
    """The files behind `training.data` that can be read here; none for `stdlib`, which the Python
    version decides.
    """
    if data == "stdlib":
        return []
    found = [Path(data), *map(Path, glob.glob(data, recursive=True))]
    files = {path for start in found for path in (start, *start.rglob("*")) if path.is_file()}
    return sorted(path for path in files if os.access(path, os.R_OK))


def fleet_files(plan: FaultPlan) -> list[Path]:
    """Files that the settings of the fleet and of its links name."""
    settings = (plan.fleet.settings, plan.fleet.links_settings)
    return [
        Path(file) for one in settings if isinstance(one, NamesFiles) for file in one.named_files()
    ]


def contents(files: Iterable[str | Path]) -> str:
    """Digest of files in this order, by their last names and what is in them."""
    found = hashlib.sha256()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            body = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{os.path.basename(path)}:{body}:".encode())
    return found.hexdigest()


def _of_settings(plan: FaultPlan) -> Iterator[str]:
    found: list[object] = [plan.fleet.settings, plan.fleet.links_settings]
    found += [spec.settings for spec in plan.faults]
    found += [spec.settings for spec in plan.expect]
    for one in found:
        if isinstance(one, NamesFiles):
            yield from one.named_files()


def _modules(plan: FaultPlan) -> list[str]:
    task = plan.training.task
    return [*([task.partition(":")[0]] if task else []), *plan.fleet.modules.values()]


def _words(plan: FaultPlan) -> Iterator[str]:
    """Words after the modules of programs, options without their names."""
    for program in plan.fleet.programs.values():
        for word in program.split()[1:]:
            yield word.rpartition("=")[2]


def _top(module: str) -> str:
    return module.partition(".")[0]


def _spec(top: str) -> ModuleSpec | None:
    """Where a package or module is found from here, as by a node; also by the hook of an editable
    installation.
    """
    if found := PathFinder.find_spec(top, [os.getcwd(), *sys.path]):
        return found
    hooked = (finder.find_spec(top, None) for finder in sys.meta_path)
    return next(filter(None, hooked), None)


def _files_of(spec: ModuleSpec | None) -> list[Path]:
    """All files of a package, or the one of a module; none of what is installed or built in."""
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    if spec is not None and not folders and spec.has_location and spec.origin:
        files = [Path(spec.origin)]
    passed_over = _INSTALLED | {"__pycache__"}
    return [path for path in files if not passed_over & set(path.parts)]


def _imports(file: Path) -> Iterator[str]:
    """The packages that a source imports anywhere in it; none of one that is no Python."""
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # its import fails
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_top(one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield _top(node.module)
