"""The fault-free twin: the same plan and seed without faults, kept so that it is paid for once.

    plan ─► without_faults ─► RUN/twin/ ─► journal ─► checks compare
              └── key: training, data, code, … ──► <runs root>/.twins/<key>/ (journal, run.json)

Only a whole twin is kept: it ended by its stop rule, was evaluated, and lost no node on the way.
Running it is `experiment`'s work.
"""

import logging
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import chaoslab
from chaoslab.checks.twin import why_not_comparable, why_not_whole
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import EvaluationMeasured, RoundMerged, RunStarted
from chaoslab.core.private_files import NotPrivate, read
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.named_files import Loaded, contents, data_files, fleet_files, installed
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL, RUN_JSON
from chaoslab.record.provenance import host, versions
from chaoslab.record.run_directory import RunDirectory, fingerprint

TWINS = ".twins"
_KEPT = (JOURNAL, RUN_JSON)
_PACKAGE = Path(chaoslab.__file__).parent
_CODE = (".py", ".proto")
_READS_RECORDS = frozenset({"archive", "checks", "cli", "replay", "report"})
"""Packages that only judge and show what was recorded: nothing trains otherwise for them."""
_LONGEST = 4.0
"""Times the committed tokens of the run that a kept twin may have: a longer one was evaluated too
seldom where the run ended."""
CODE = ("code", "versions", "environment", "costs")
"""Parts of the provenance that are code, and what it computes with."""


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
    same on every machine.
    """
    parts: Mapping[str, object] = {
        "seed": plan.seed,
        "training": plan.training,
        "fleet": [replace(plan.fleet, links=None), plan.labels, contents(fleet_files(plan))],
        "links": links,
    }
    if simulated_by is None:
        parts = {**parts, "data": contents(data_files(plan.training.data)), "host": host()}
    return {**_digests(parts), **code(plan, simulated_by=simulated_by)}


def code(plan: FaultPlan, *, simulated_by: object = None) -> Mapping[str, str]:
    """The parts of the provenance in `CODE`: sources, versions and packages that are here now.

    A simulation runs none of the plan's own programs: what it is `simulated_by`, with all costs,
    takes the place of these and of all versions.
    """
    if simulated_by is not None:
        return _digests({"code": _own_code(), "costs": simulated_by})
    own = [_own_code(), contents(Loaded.by(plan).files)]
    return _digests({"code": own, "versions": versions(), "environment": installed(plan)})


def _digests(parts: Mapping[str, object]) -> Mapping[str, str]:
    return {part: fingerprint(value)[:16] for part, value in parts.items()}


def key(plan: FaultPlan, parts: Mapping[str, str]) -> str | None:
    """Name of the plan's twin among those kept, by its provenance: equal for runs that train alike.

    None when that cannot be known, because the source of the task or of a program is nowhere to be
    found, or because a script reads what it likes: such a twin is made each time.
    """
    if plan.training.script is not None:
        return None
    is_known = "costs" in parts or not Loaded.by(plan).lost
    return fingerprint(parts)[:32] if is_known else None


def is_kept(name: str, root: Path) -> bool:
    """Whether there is a twin of this name; it may be too short, or damaged."""
    return all((root / TWINS / name / file).is_file() for file in _KEPT)


def fetch(name: str, root: Path, into: RunDirectory, run: History) -> bool:
    """Copy a kept twin of this run into an empty twin/; False if none is kept.

    One that others could have written is left where it is, and one that is damaged, not whole, of
    another run, shorter than this one or far longer is thrown away: each with a warning, and False.
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


def _trouble(run: History, folder: RunDirectory) -> str:
    try:
        twin = History.read(folder.path)
    except FleetError as error:
        return str(error)
    its, own = reach_tokens(twin), reach_tokens(run)
    if not own <= its <= _LONGEST * own:
        return f"it ends at {its:,.0f} committed tokens, and the run at {own:,.0f}"
    return why_not_comparable(run, twin)


def reach_tokens(history: History) -> float:
    """Committed tokens of the last snapshot that was evaluated, or, of a script, of the last round;
    0 without any.
    """
    started = history.last(RunStarted)
    is_script = started is not None and started.payload.script is not None
    measured = history.of(RoundMerged) if is_script else history.of(EvaluationMeasured)
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
