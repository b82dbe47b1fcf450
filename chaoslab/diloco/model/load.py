"""Loading of a task by its name: a preset, or a function of the user's.

    "nano" ───────────────┐
                          ├─► load ─► Task
    "my_package.my:make" ─┘

A user's function may take parameters named `data`, `batch` and `sequence`, with the values of the
plan or the command line.
"""

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping

from chaoslab.diloco.model.gpt import PRESETS, text_task
from chaoslab.diloco.model.task import Task, TaskError, check

_SECRET = re.compile(r"\$\{env:([^}]*)\}")


def load(
    spec: str, *, data: str = "stdlib", batch: int | None = None, sequence: int | None = None
) -> Task:
    """Task of a preset (`nano`) or of a user's function (`package.module:make`).

    `batch` (sequences per step) and `sequence` (tokens) replace a preset's own. `${env:NAME}` in
    `data` is read from the environment, so that a secret need not be on a command line. Raises
    TaskError for an unusable model and `data.DataError` for unusable data.
    """
    data = _SECRET.sub(lambda found: os.environ.get(found[1], found[0]), data)
    if ":" in spec:
        return _made(spec, {"data": data, "batch": batch, "sequence": sequence})
    if spec not in PRESETS:
        raise TaskError(
            f"model: must be one of {', '.join(PRESETS)}, or your own as package.module:make, "
            f"got {spec!r}"
        )
    return text_task(spec, data, batch=batch, sequence=sequence)


def _made(spec: str, offered: Mapping[str, str | int | None]) -> Task:
    """Call the user's function with the parameters of `offered` that it takes; check the result."""
    make = _found(spec)
    parameters = inspect.signature(make).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    taken = (
        offered if takes_all else {p.name: offered[p.name] for p in parameters if p.name in offered}
    )
    given = {name: value for name, value in taken.items() if value is not None}
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        raise TaskError(
            f"{spec}: {error}; the function may take {', '.join(offered)}, and every other "
            "parameter needs a default"
        ) from error
    task: Task = make(**given)
    check(task, spec)
    return task


def _found(spec: str) -> Callable[..., Task]:
    module_name, _, attribute = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:  # ValueError: an empty name
        raise TaskError(
            f"{spec}: cannot import {module_name!r} ({error}); start in the folder that holds it, "
            "or name that folder in PYTHONPATH"
        ) from error
    make: object = getattr(module, attribute, None)
    if not callable(make):
        what = "has nothing" if make is None else f"has a {type(make).__name__}, not a function,"
        raise TaskError(f"{spec}: {module_name} {what} called {attribute!r}; write def make(data)")
    return make
