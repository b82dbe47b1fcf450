"""The fault-free twin: the same plan and seed without faults, kept so that it is paid for once.

    plan ─► without_faults ─► RUN/control/ ─► journal ─► checks compare
              └── key: training, seed, data, code ──► <runs root>/.twins/<key>/ (journal, run.json)

Only a whole twin is kept: it ended by its stop rule, was evaluated, and lost no node on the way.
Running it is `conduct`'s work.
"""

import glob
import hashlib
import logging
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

from chaoslab.errors import FleetError
from chaoslab.events import Kind
from chaoslab.journal import History
from chaoslab.journal_file import JOURNAL, RUN_JSON
from chaoslab.plan import FaultPlan
from chaoslab.private import NotPrivate, read
from chaoslab.record import RunDirectory, fingerprint
from chaoslab.surroundings import versions

TWINS = ".twins"
_KEPT = (JOURNAL, RUN_JSON)
_PACKAGE = Path(__file__).parent
_CODE = ("launch.py", "events.py", "fleet/*.py", "diloco/*.py", "diloco/*.proto")
"""What decides how learners train: the fleet, too, because it decides how they share the cores."""


def without_faults(plan: FaultPlan) -> FaultPlan:
    """The twin's plan. It keeps seed, training, limits and abort rules."""
    return replace(plan, name=f"{plan.name}, fault-free twin", faults=(), expect=())


def key(plan: FaultPlan, *, links: str = "none") -> str | None:
    """Name of the plan's twin among those kept: equal for runs that train alike.

    `links` is the kind that carries the run, and so its twin.

    None when that cannot be known, because the source of the task or of a program is nowhere to be
    found: such a twin is made each time.
    """
    task, programs = plan.training.task, plan.fleet.programs
    modules = [task.partition(":")[0]] if task else []
    sources = [_sources(module) for module in (*modules, *programs.values())]
    if None in sources:
        return None
    code = [path for pattern in _CODE for path in sorted(_PACKAGE.glob(pattern))]
    return fingerprint(
        {
            "training": plan.training,
            "fleet": plan.fleet.kind,
            "links": links,
            "profiles": [plan.fleet.profiles, plan.labels] if plan.fleet.profiles else [],
            "seed": plan.seed,
            "data": _states(_data_files(plan.training.data)),
            "programs": programs,
            "code": _contents([*code, *(file for files in sources for file in files or ())]),
            "versions": versions(),
        }
    )[:32]


def fetch(name: str, root: Path, into: RunDirectory) -> bool:
    """Copy a kept twin into an empty control/; False if none is kept, or if others could have
    written it, which is a warning.
    """
    kept = root / TWINS / name
    if not all((kept / file).is_file() for file in _KEPT):
        return False
    try:
        for file in _KEPT:
            (into.path / file).write_bytes(read(kept, file) or b"")
    except NotPrivate as error:
        logging.getLogger(__name__).warning("the kept twin is not used: %s", error)
        return False
    except OSError as error:
        raise FleetError(f"the kept twin {kept} cannot be copied: {error}") from error
    return True


def keep(name: str, root: Path, twin: RunDirectory) -> bool:
    """Keep a whole twin for the next run; False, and nothing is kept, if it is not whole."""
    if not is_whole(History.read(twin.path)):
        return False
    place = root / TWINS / name
    partial = place.with_name(f"{name}.partial-{secrets.token_hex(4)}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
        for file in _KEPT:
            shutil.copyfile(twin.path / file, partial / file)
        partial.rename(place)
    except OSError as error:
        if not place.is_dir():  # another run may have kept the same twin meanwhile
            raise FleetError(f"the twin cannot be kept in {place}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


def is_whole(history: History) -> bool:
    """Whether a twin ended by its stop rule, was evaluated and lost no node on the way."""
    finished = history.last(Kind.RUN_FINISHED)
    return (
        finished is not None
        and finished.text("outcome") == "completed"
        and not finished.text("reason")
        and history.last(Kind.SYNCER_FINAL) is not None
        and bool(history.of(Kind.EVALUATION_MEASURED))
        and all(event.data.get("exit_code") == 0 for event in history.of(Kind.NODE_EXITED))
    )


# ---------------------------------------------------------------- what a training depends on


def _data_files(data: str) -> list[Path]:
    """The files behind `training.data`; none for `stdlib`, which the Python version decides."""
    if data == "stdlib":
        return []
    found = [Path(data), *map(Path, glob.glob(data, recursive=True))]
    files = {path for start in found for path in (start, *start.rglob("*")) if path.is_file()}
    return sorted(files)


def _states(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name, size and time of change: what tells large files apart without reading them."""
    return [(str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


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


def _contents(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for name, body in _named(files):
        digest.update(f"{name}:{len(body)}:".encode() + body)
    return digest.hexdigest()


def _named(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield path.name, path.read_bytes()
