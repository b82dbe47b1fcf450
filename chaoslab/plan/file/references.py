"""References of a plan that must exist: text, a task or programs of one's own.

    training.data ─► stdlib | a file | a folder | a glob pattern, seen from the current folder
    training.task, fleet.programs ─► package.module, on sys.path or in the current folder;
                                     nothing is imported

The learners inherit the current folder, so what is found here is what they find. A task is handed
`data` as it stands and may read anything into it; then nothing is looked for.
"""

import ast
import glob
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from symtable import symtable

from chaoslab.plan.model import FaultPlan, Training

_CACHES = "__pycache__"
_WINDOWS_PER_BLOCK = 32
_HELD_OUT_EVERY = 20
"""Both as in `diloco.model.data`, which the harness does not import."""


def missing(plan: FaultPlan) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys whose object does not exist, and what to write instead."""
    training = plan.training
    if training.task is not None:
        if trouble := _trouble_with_task(training.task):
            yield ("training", "task"), trouble
    elif training.data != "stdlib" and (
        trouble := _trouble_with_data(training.data) or _want_of_text(training)
    ):
        yield ("training", "data"), trouble
    for role, module in plan.fleet.modules.items():
        if trouble := _trouble_with_module(module):
            yield ("fleet", "programs", role), trouble


def _trouble_with_data(data: str) -> str:
    try:
        if next(_files(data), None) is None:
            return (
                f"no file matches {data!r} in {Path.cwd()}: write stdlib, or a file, "
                "a folder, or a glob pattern such as 'books/**/*.txt'"
            )
        if not any(os.access(file, os.R_OK) and file.stat().st_size for file in _files(data)):
            return f"{data!r} has no readable text: name a file that contains some"
    except (OSError, ValueError) as error:
        return f"{data!r} cannot be read ({error}): write stdlib, or a file, a folder or a pattern"
    return ""


def _files(data: str) -> Iterator[Path]:
    """Files that the learners would read, without hidden ones."""
    root = Path(data)
    if root.is_file():
        yield root
    elif root.is_dir():
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = [name for name in subfolders if name[0] != "." and name != _CACHES]
            yield from (Path(folder, name) for name in names if name[0] != ".")
    else:
        yield from filter(Path.is_file, map(Path, glob.iglob(data, recursive=True)))


def _want_of_text(training: Training) -> str:
    """Whether every learner can fill one batch: as `diloco.model.data` cuts text into blocks of
    windows, holds every twentieth back, and deals out the rest.
    """
    inner, shards = training.inner, len(training.roster)
    files = list(_files(training.data))
    joined = len(files) if len(files) > 1 or not Path(training.data).is_file() else 0
    size_bytes = sum(file.stat().st_size for file in files) + joined
    blocks = size_bytes // (_WINDOWS_PER_BLOCK * inner.sequence + 1)
    training_blocks = blocks - max(1, blocks // _HELD_OUT_EVERY)
    if blocks >= 2 and training_blocks // shards * _WINDOWS_PER_BLOCK >= inner.batch:
        return ""
    return (
        f"{training.data!r} has {size_bytes:,} bytes, too few for {shards} learners with batches "
        f"of {inner.batch} windows of {inner.sequence} bytes: name more text, or write fewer "
        "learners, a smaller training.inner.batch or a shorter training.inner.sequence"
    )


def _trouble_with_task(task: str) -> str:
    """Mistake in a task. Its module is read, never imported: bindings show at the start alone."""
    module, _, name = task.partition(":")
    if trouble := _trouble_with_module(module):
        return trouble
    spec, _ = _spec_of(module)
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None or origin.suffix != ".py" or not origin.is_file():
        return ""  # compiled, frozen, or a folder of modules: its names cannot be read
    try:
        source = origin.read_bytes()
        nodes = ast.walk(ast.parse(source, str(origin)))
        symbols = symtable(source, str(origin), "exec").get_symbols()  # type: ignore[arg-type]
    except (SyntaxError, ValueError, OSError) as error:
        return f"{origin} cannot be read as Python: {error}"
    names = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    imports_all = any(isinstance(node, ast.alias) and node.name == "*" for node in nodes)
    if imports_all or not names.isdisjoint((name, "__getattr__")):
        return ""
    return f"{origin} does not define {name!r}: write def {name}(data), or another name"


def _trouble_with_module(name: str) -> str:
    spec, found = _spec_of(name)
    if spec is not None:
        return ""
    return (
        f"no module {found!r} in {Path.cwd()} or PYTHONPATH: run in the folder that contains "
        f"{name.partition('.')[0]!r}, or add that folder to PYTHONPATH"
    )


def _spec_of(name: str) -> tuple[ModuleSpec | None, str]:
    """Spec of a module, without importing its parents; and how far it was found."""
    first, *others = name.split(".")
    spec = PathFinder.find_spec(first, [os.getcwd(), *sys.path]) or _by_other_finders(first)
    found = first
    for part in others:
        if spec is None:
            break
        # by its last name alone: by the whole one, Python would import the packages around it
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations or ()))
        found = f"{found}.{part}"
    return spec, found


def _by_other_finders(first: str) -> ModuleSpec | None:
    """Frozen and built-in modules, and packages installed in editable form."""
    try:
        return importlib.util.find_spec(first)
    except ValueError:  # such as __main__, which has no spec
        return None
