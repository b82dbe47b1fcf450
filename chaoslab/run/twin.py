"""The fault-free twin: the same plan and seed without faults, kept so that it is paid for once.

    plan ─► without_faults ─► RUN/control/ ─► journal ─► checks compare
              └── key: training, seed, data, code ──► <runs root>/.twins/<key>/ (journal, run.json)

Only a whole twin is kept: it ended by its stop rule, was evaluated, and lost no node on the way.
Running it is `experiment`'s work.
"""

import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import chaoslab
from chaoslab.checks.control_run import why_not_comparable, why_not_whole
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.core.private_files import NotPrivate, read
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.named_files import contents, data_files, foreign_sources
from chaoslab.record.journal import History
from chaoslab.record.journal_file import JOURNAL, RUN_JSON
from chaoslab.record.provenance import host, versions
from chaoslab.record.run_directory import RunDirectory, fingerprint

TWINS = ".twins"
_KEPT = (JOURNAL, RUN_JSON)
_PACKAGE = Path(chaoslab.__file__).parent
_CODE = (".py", ".proto")
_READS_RECORDS = frozenset({"archive", "checks", "cli", "replay", "report"})
"""Packages that only judge and show what was recorded: nothing trains otherwise for them."""


def without_faults(plan: FaultPlan, step_s: float | None) -> FaultPlan:
    """The twin's plan. It keeps seed, training, limits and abort rules, and the step time that the
    run measured, if it has.
    """
    name = f"{plan.name}, fault-free twin"
    step_time = plan.training.step_time if step_s is None else step_s
    training = replace(plan.training, step_time=step_time)
    return replace(plan, name=name, training=training, faults=(), expect=(), gameday=None)


def provenance(
    plan: FaultPlan, *, links: str = "none", simulated_by: object = None
) -> Mapping[str, str]:
    """What decides how a plan trains, by part, each as a digest: equal for a run and its twin.

    `links` is the kind that carries the run, and so its twin. A simulation reads no data and is the
    same on every machine: what it is `simulated_by`, with all costs, takes the place of both.
    """
    foreign = [file for files in foreign_sources(plan) for file in files or ()]
    parts: Mapping[str, object] = {
        "seed": plan.seed,
        "training": plan.training,
        "fleet": [replace(plan.fleet, links=None), plan.labels],
        "links": links,
        "code": [_own_code(), contents(foreign)],
    }
    if simulated_by is not None:
        parts = {**parts, "costs": simulated_by}
    else:
        data = _states(data_files(plan.training.data))
        parts = {**parts, "data": data, "versions": versions(), "host": host()}
    return {part: fingerprint(value)[:16] for part, value in parts.items()}


def key(plan: FaultPlan, *, links: str = "none", simulated_by: object = None) -> str | None:
    """Name of the plan's twin among those kept: equal for runs that train alike.

    None when that cannot be known, because the source of the task or of a program is nowhere to be
    found: such a twin is made each time.
    """
    is_known = None not in foreign_sources(plan)
    parts = provenance(plan, links=links, simulated_by=simulated_by)
    return fingerprint(parts)[:32] if is_known else None


def is_kept(name: str, root: Path) -> bool:
    """Whether there is a twin of this name; it may be too short, or damaged."""
    return all((root / TWINS / name / file).is_file() for file in _KEPT)


def fetch(name: str, root: Path, into: RunDirectory, run: History) -> bool:
    """Copy a kept twin of this run into an empty control/; False if none is kept.

    One that others could have written is left where it is, and one that is damaged, not whole, of
    another run or shorter than this one is thrown away: each with a warning, and False.
    """
    kept = root / TWINS / name
    if not is_kept(name, root):
        return False
    try:
        for file in _KEPT:
            (into.path / file).write_bytes(read(kept, file) or b"")
    except NotPrivate as error:
        logging.getLogger(__name__).warning("the kept twin is not used: %s", error)
        return False
    except OSError as error:
        raise FleetError(f"the kept twin {kept} cannot be copied: {error}") from error
    if trouble := _trouble(run, into):
        logging.getLogger(__name__).warning("the twin kept in %s is made anew: %s", kept, trouble)
        for path in (*(into.path / file for file in _KEPT), *(kept / file for file in _KEPT)):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # another run may have thrown it away, or kept a new one
            kept.rmdir()
        return False
    return True


def _trouble(run: History, control: RunDirectory) -> str:
    try:
        twin = History.read(control.path)
    except FleetError as error:
        return str(error)
    if (its := reach_tokens(twin)) < (own := reach_tokens(run)):
        return f"it ends at {its:,.0f} committed tokens, and the run at {own:,.0f}"
    return why_not_comparable(run, twin)


def reach_tokens(history: History) -> float:
    """Committed tokens of the last snapshot that was evaluated; 0 without any."""
    measured = history.of(EvaluationMeasured)
    return max((event.payload.committed_tokens for event in measured), default=0.0)


def keep(name: str, root: Path, twin: RunDirectory, history: History) -> bool:
    """Keep a whole twin for the next run; False, and nothing is kept, if it is not whole."""
    if why_not_whole(history):
        return False
    place = root / TWINS / name
    partial = place.with_name(f"{name}.partial-{secrets.token_hex(4)}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
        for file in _KEPT:
            shutil.copyfile(twin.path / file, partial / file)
        if not is_kept(name, root):  # what a killed run left of one would be in the way for ever
            shutil.rmtree(place, ignore_errors=True)
        partial.rename(place)
    except OSError as error:
        if not place.is_dir():  # another run may have kept the same twin meanwhile
            raise FleetError(f"the twin cannot be kept in {place}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


# ---------------------------------------------------------------- what a training depends on


def _states(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name, size and time of change: what tells large files apart without reading them."""
    return [(str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


@cache
def _own_code() -> str:
    """Of this package: what runs in nodes, what carries their links, and what paces them.

    Read once: this process goes on with what it has loaded.
    """
    found: list[str] = []
    for folder, below, files in os.walk(_PACKAGE):
        passed_over = _READS_RECORDS if Path(folder) == _PACKAGE else {"__pycache__"}
        below[:] = sorted(set(below) - passed_over)
        found += [os.path.join(folder, file) for file in sorted(files) if file.endswith(_CODE)]
    return contents(found)
