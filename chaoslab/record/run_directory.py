"""The run directory: where everything that one run leaves behind lies, and how it is found again.

    runs/
      .gitignore (of all records)
      latest -> kill_half/20261120T050742Z-3f9a1c        kill_half/latest -> 20261120T050742Z-3f9a1c
      kill_half/20261120T050742Z-3f9a1c/
        run.json  plan.source.yaml  plan.resolved.yaml  schedule.jsonl  journal.jsonl
        nodes/  evidence/  snapshots/  script/  twin/ (the fault-free twin)

It makes, finds and fills the directory. The journal is written by `journal`, the files of a node
by its fleet, verdict and reports by `report`.
"""

import difflib
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from shlex import quote
from typing import Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError, PlanError
from chaoslab.core.events import Json, decode, encode
from chaoslab.core.private_files import NotPrivate, make_folder, replace_file
from chaoslab.core.regular_files import read_regular
from chaoslab.core.terminal import read_end
from chaoslab.record.journal_file import JOURNAL, RUN_JSON

LATEST = "latest"
SOURCE_PLAN = "plan.source.yaml"
RESOLVED_PLAN = "plan.resolved.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """One run on disk. `path` is absolute and real, never a `latest` link."""

    path: Path

    # ---------------------------------------------------------------- making and finding

    @classmethod
    def create(cls, root: Path, plan_name: str, clock: Clock) -> Self:
        """A new directory under `root`, and both `latest` links on it; PlanError if refused."""
        name = f"{_stamp(clock.wall())}-{secrets.token_hex(3)}"
        path = root.absolute() / _checked(plan_name) / name
        try:
            path = root.resolve() / plan_name / name
            is_first = not root.exists()
            made = cls._filled(path)
            if is_first:  # records are no part of the project that the folder lies in
                replace_file(root.resolve() / ".gitignore", "*\n")
            _link(path.parent / LATEST, Path(name))
            _link(root.resolve() / LATEST, Path(plan_name) / name)
        except (OSError, NotPrivate) as error:
            raise PlanError(
                f"the run directory {path} cannot be made ({error}): name a folder that can be "
                "written to, with --out"
            ) from error
        return made

    @classmethod
    def open(cls, given: str | Path, *, root: Path) -> Self:
        """The run that a path, `latest`, a plan's name or the beginning of an id names.

        PlanError when nothing or more than one run matches; the message says what there is.
        """
        for path in (Path(given), Path(given) / LATEST, root / given, root / given / LATEST):
            if str(given) and _is_run(path):
                return cls(path=path.resolve())
        runs = list_runs(root)
        link = root / LATEST if str(given) == LATEST else root / given / LATEST
        named = [run for run in runs if str(given) in (LATEST, run.plan_name)]
        if named and not link.is_symlink():  # a copy, such as a CI artefact, has no links
            return cls(path=named[0].path)
        found = [run for run in runs if _begins(run, str(given))]
        if len(found) == 1:
            return cls(path=found[0].path)
        raise _not_one(str(given), root, runs, found)

    def make_twin(self) -> "RunDirectory":
        """An empty twin/ for the fault-free twin; FleetError if it is there already."""
        try:
            return RunDirectory._filled(self.twin)
        except OSError as error:
            raise FleetError(f"the twin's directory cannot be made: {error}") from error

    @classmethod
    def _filled(cls, path: Path) -> Self:
        make_folder(path)
        run = cls(path=path)
        for folder in (run.nodes, run.evidence, run.snapshots):
            folder.mkdir()
        return run

    # ---------------------------------------------------------------- what is where

    @property
    def id(self) -> str:
        """20261120T050742Z-3f9a1c."""
        return self.path.name

    @property
    def short_id(self) -> str:
        """3f9a1c: what people type; every command takes it, or the beginning of it."""
        return self.id.rpartition("-")[2]

    @property
    def plan_name(self) -> str:
        """The folder it lies in."""
        return self.path.parent.name

    @property
    def nodes(self) -> Path:
        """One folder for each node; the fleet fills it."""
        return self.path / "nodes"

    def logs(self) -> Iterator[Path]:
        """Folder of the nodes' output, with what agents of hosts have kept of it."""
        yield from self.nodes.glob("*/*/*.log")
        yield from self.path.glob("hosts/*/*")

    @property
    def evidence(self) -> Path:
        """One file for each injection."""
        return self.path / "evidence"

    @property
    def snapshots(self) -> Path:
        """The syncer's global parameters at some counts of tokens, for evaluation."""
        return self.path / "snapshots"

    @property
    def script(self) -> Path:
        """Folder of the workers of a script, for files such as checkpoints."""
        return self.path / "script"

    @property
    def tokens(self) -> Path:
        """Folder of the learners' tokens; worthless once the syncer has ended."""
        return self.path / "tokens"

    @property
    def twin(self) -> Path:
        """The twin's run directory, if there is one."""
        return self.path / "twin"

    def last_log(self, node: str) -> Path | None:
        """Standard error of the latest incarnation of a node; its standard output, if it printed
        both there. None if it printed nothing.
        """
        lives = sorted((self.nodes / node).glob("*/"), key=lambda one: (len(one.name), one.name))
        logs = (lives[-1] / name for name in ("stderr.log", "stdout.log") if lives)
        return next((log for log in logs if log.is_file() and log.stat().st_size), None)

    def stderr_tail(self, node: str, *, lines: int = 15) -> str:
        """The last lines of `last_log`; empty without one."""
        log = self.last_log(node)
        return "" if log is None else "\n".join(read_end(log).splitlines()[-lines:])

    def residue(self, what: str) -> Mapping[str, Json]:
        """Something that this run left: what, where, and the command that removes it."""
        remedy = f"chaoslab heal {quote(str(self.path))}"
        return {"what": what, "where": str(self.path), "remedy": remedy}

    # ---------------------------------------------------------------- what is written

    def write_plan(self, *, source: str, resolved: str) -> None:
        """Write the requested and the resolved plan, both as YAML text."""
        replace_file(self.path / SOURCE_PLAN, source)
        replace_file(self.path / RESOLVED_PLAN, resolved)

    def plan_digest(self) -> str | None:
        """SHA-256 of plan.resolved.yaml in hex; None without that file, FleetError if it cannot be
        read.
        """
        try:
            return hashlib.sha256(read_regular(self.path / RESOLVED_PLAN)).hexdigest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(RESOLVED_PLAN, error.strerror or str(error)) from error

    def write_schedule(self, lines: Iterable[str]) -> None:
        """schedule.jsonl, from lines without newlines."""
        replace_file(self.path / "schedule.jsonl", "".join(f"{line}\n" for line in lines))

    def write_evidence(self, injection: str, evidence: Mapping[str, Json]) -> None:
        """evidence/<injection>.json."""
        replace_file(self.evidence / f"{injection}.json", _pretty(evidence))

    @property
    def facts(self) -> Mapping[str, Json]:
        """Content of run.json; {} before it was first written. FleetError if it is damaged."""
        try:
            found = decode(read_regular(self.path / RUN_JSON).decode())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._damaged(RUN_JSON, str(error)) from error
        if not isinstance(found, dict):
            raise self._damaged(RUN_JSON, "it holds no JSON object")
        return found

    @property
    def lasted_s(self) -> float | None:
        """How long the run took; None while it goes on, or if its times say no length: the clock
        of a machine may be set while a run goes on. FleetError if run.json is damaged.
        """
        started, ended = self.facts.get("started"), self.facts.get("ended")
        try:
            begun, over = (datetime.fromisoformat(str(stamp)) for stamp in (started, ended))
            length_s = (over - begun).total_seconds()
        except (ValueError, TypeError):  # none, no times, or one with and one without a zone
            return None
        return length_s if length_s >= 0 else None

    def _damaged(self, file: str, why: str) -> FleetError:
        return FleetError(
            f"{self.path / file} cannot be read: {why}; put back a copy of the file, or move "
            "the folder of this run away"
        )

    def note(self, **facts: Json) -> None:
        """Add or replace keys of run.json; the file is replaced whole."""
        replace_file(self.path / RUN_JSON, _pretty({**self.facts, **facts}))


def list_runs(root: Path) -> tuple[RunDirectory, ...]:
    """Every run under `root`, the newest first; an absent root has none.

    What is called `latest` is none, even where a copy has made a folder of the link.
    """
    found = [
        path
        for path in root.glob("[!.]*/[!.]*")
        if LATEST not in (path.name, path.parent.name)
        and not (path.is_symlink() or path.parent.is_symlink())
        and _is_run(path)
    ]
    newest_first = sorted(found, key=lambda path: path.name, reverse=True)
    return tuple(RunDirectory(path=path.resolve()) for path in newest_first)


def shown_ids(ids: Iterable[str]) -> Mapping[str, str]:
    """Id of each run in a table: the short one, or the whole where two would look the same."""
    short = {one: one.rpartition("-")[2] for one in ids}
    times = Counter(short.values())
    return {one: name if times[name] == 1 else one for one, name in short.items()}


# ---------------------------------------------------------------- values


def plain(value: object) -> Json:
    """Frozen dataclasses, enums, tuples and paths as JSON; TypeError for anything else."""
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(plain(item)) for item in value)
    raise TypeError(f"{value!r} has no plain form")


def fingerprint(value: object) -> str:
    """SHA-256 of the value's plain form, as 64 hex digits; equal values have equal ones."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------- helpers


def _stamp(wall: str) -> str:
    """2026-11-20T05:07:42.123Z -> 20261120T050742Z."""
    return wall.split(".", maxsplit=1)[0].replace("-", "").replace(":", "") + "Z"


def _checked(plan_name: str) -> str:
    is_folder_name = bool(plan_name) and Path(plan_name).name == plan_name
    if not is_folder_name or plan_name == LATEST or plan_name.startswith("."):
        raise PlanError(
            f"a plan cannot be called {plan_name!r}, because its runs lie in a folder of that "
            "name: use letters, digits, - and _"
        )
    return plan_name


def _is_run(path: Path) -> bool:
    return (path / RUN_JSON).is_file() or (path / JOURNAL).is_file()


def _begins(run: RunDirectory, given: str) -> bool:
    """Whether `given` begins the run's id, the short one, or either one after `PLAN/`."""
    plan, _, begin = given.rpartition("/")
    return (
        bool(begin)
        and plan in {"", run.plan_name}
        and (run.id.startswith(begin) or run.short_id.startswith(begin))
    )


def _not_one(
    given: str, root: Path, runs: tuple[RunDirectory, ...], found: list[RunDirectory]
) -> PlanError:
    if found:
        several = ", ".join(f"{run.plan_name}/{run.id}" for run in found[:5])
        return PlanError(f"{given!r} names {len(found)} runs ({several}): write more of the id")
    if given and Path(given).exists():
        return PlanError(f"{given!r} is no run: it has neither {RUN_JSON} nor {JOURNAL}")
    if not runs:
        return PlanError(f"there is no run under {root} yet: make one with `chaoslab run PLAN`")
    names = sorted({run.plan_name for run in runs})
    ids = [name for run in runs for name in (run.short_id, run.id)]
    near = difflib.get_close_matches(given, [*names, LATEST, *ids], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"plans with runs are {', '.join(names)}."
    return PlanError(
        f"no run is called {given!r}: {hint} A run is named by its path, `latest`, its plan's "
        "name or the beginning of its id; `chaoslab list` shows all"
    )


def _link(link: Path, target: Path) -> None:
    new = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    new.symlink_to(target)
    new.replace(link)


def _pretty(value: Mapping[str, Json]) -> str:
    return json.dumps(json.loads(encode(value)), indent=2, ensure_ascii=False) + "\n"
