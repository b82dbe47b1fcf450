"""What a plan names outside itself, and whether it is there: text, a task or programs of one's own.

    training.data ─► stdlib | a file | a folder | a glob pattern, seen from the current folder
    training.task, fleet.programs ─► package.module, on sys.path or in the current folder;
                                     nothing is imported

The learners inherit the current folder, so what is found here is what they find. A task is handed
`data` as it stands and may read anything into it; then nothing is looked for.
"""

import glob
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from chaoslab.plan import FaultPlan, Training

_CACHES = "__pycache__"


def missing(plan: FaultPlan) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each key whose object is not there, and what to write instead."""
    for key, text in _missing_to_train(plan.training):
        yield ("training", key), text
    for role, module in plan.fleet.programs.items():
        if trouble := _trouble_with_module(module):
            yield ("fleet", "programs", role), trouble


def _missing_to_train(training: Training) -> Iterator[tuple[str, str]]:
    if training.task is not None:
        if trouble := _trouble_with_module(training.task.partition(":")[0]):
            yield "task", trouble
    elif training.data != "stdlib" and (trouble := _trouble_with_data(training.data)):
        yield "data", trouble


def _trouble_with_data(data: str) -> str:
    try:
        if next(_files(data), None) is None:
            return (
                f"no file matches {data!r} (seen from {Path.cwd()}): write stdlib, or a file, "
                "a folder, or a glob pattern such as 'books/**/*.txt'"
            )
        if not any(os.access(file, os.R_OK) and file.stat().st_size for file in _files(data)):
            return f"{data!r} holds nothing that can be read: name a file with text in it"
    except (OSError, ValueError) as error:
        return f"{data!r} cannot be read ({error}): write stdlib, or a file, a folder or a pattern"
    return ""


def _files(data: str) -> Iterator[Path]:
    """What the learners would read, hidden files left out."""
    root = Path(data)
    if root.is_file():
        yield root
    elif root.is_dir():
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = [name for name in subfolders if name[0] != "." and name != _CACHES]
            yield from (Path(folder, name) for name in names if name[0] != ".")
    else:
        yield from filter(Path.is_file, map(Path, glob.iglob(data, recursive=True)))


def _trouble_with_module(name: str) -> str:
    first, *others = name.split(".")
    spec = PathFinder.find_spec(first, [os.getcwd(), *sys.path]) or _by_other_finders(first)
    found = first
    for part in others:
        if spec is None:
            break
        # by its last name alone: by the whole one, Python would import the packages around it
        spec = PathFinder.find_spec(part, _folders(spec))
        found = f"{found}.{part}"
    if spec is not None:
        return ""
    return (
        f"there is no module {found!r} (seen from {Path.cwd()} and PYTHONPATH): start in the "
        f"folder that holds {first!r}, or name that folder in PYTHONPATH"
    )


def _folders(spec: ModuleSpec) -> Sequence[str]:
    """Where the modules of a package are; nowhere, if it is none."""
    return list(spec.submodule_search_locations or ())


def _by_other_finders(first: str) -> ModuleSpec | None:
    """Frozen and built-in modules, and packages installed in editable form."""
    try:
        return importlib.util.find_spec(first)
    except ValueError:  # such as __main__, which has no spec
        return None
