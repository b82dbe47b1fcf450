"""Files of this machine that a plan names, and digests of what is in them.

    settings of fleet, faults, checks ─ named_files ─► costs, traces, inventories ─┐
    training.task, fleet.programs ─► sources of their packages ────────────────────┼─► digest
    training.data ─► files, read by real runs alone ───────────────────────────────┘

Two results of equal plans are comparable only if these are equal, too.
"""

import glob
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaoslab.plan.model import FaultPlan
from chaoslab.record.run_directory import fingerprint

_RUN_UNDER_TEST = ("chaoslab.diloco.", "chaoslab.systems.")


@runtime_checkable
class NamesFiles(Protocol):
    """What settings of a fleet, of links, of a fault or check say in addition if they name any."""

    def named_files(self) -> tuple[str, ...]:
        """Paths, as they stand in the plan; of those that are not given, none."""
        ...


def digest(plan: FaultPlan, *, is_simulated: bool) -> str | None:
    """Of the contents of all files that decide what a plan gives; None if it names none.

    A simulation runs no task and reads no data. Programs that come with chaoslab count as none.
    """
    parts = {"settings": [Path(file) for file in _of_settings(plan)]}
    if not is_simulated:
        sources = _sources_of(one for one in _modules(plan) if not one.startswith(_RUN_UNDER_TEST))
        parts["code"] = [file for files in sources for file in files or ()]
        parts["data"] = [
            file for file in data_files(plan.training.data) if os.access(file, os.R_OK)
        ]
    found = {part: contents(files) for part, files in parts.items() if files}
    return fingerprint(found)[:16] if found else None


def data_files(data: str) -> list[Path]:
    """The files behind `training.data`; none for `stdlib`, which the Python version decides."""
    if data == "stdlib":
        return []
    found = [Path(data), *map(Path, glob.glob(data, recursive=True))]
    files = {path for start in found for path in (start, *start.rglob("*")) if path.is_file()}
    return sorted(files)


def foreign_sources(plan: FaultPlan) -> list[list[Path] | None]:
    """The sources of the plan's task and programs, each None if it is not found."""
    return _sources_of(_modules(plan))


def contents(files: Iterable[str | Path]) -> str:
    """Digest of files in this order, by their last names and what is in them."""
    found = hashlib.sha256()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            body = file.read()
        found.update(f"{os.path.basename(path)}:{len(body)}:".encode() + body)
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


def _sources_of(modules: Iterable[str]) -> list[list[Path] | None]:
    return [_sources(module) for module in modules]


def _sources(module: str) -> list[Path] | None:
    """The sources of the package that a module is in; None if it is not found. Imports nothing."""
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path])
    if spec is None:
        return None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if folders:
        return sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [Path(spec.origin)] if spec.origin else None
