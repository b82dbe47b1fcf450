"""Index of the runs below a folder: what is known of each without reading its journal.

    runs/PLAN/ID/run.json          ─► index ─► PastRun: plan, time, verdict, seed, commit, machine
                 verdict.json      ─► its findings                            when asked for
                 journal.jsonl:1   ─► its provenance                          when asked for

Rebuilt from the folders at each call; a thousand runs take a fraction of a second.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, FleetError, PlanError
from chaoslab.core.events import Event, Json, MalformedEvent
from chaoslab.core.payloads import RunStarted
from chaoslab.core.regular_files import read_regular
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RESOLVED_PLAN, SOURCE_PLAN, RunDirectory, list_runs
from chaoslab.report.files import read_verdict

_SEED_LINE = b"seed: "


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One run on record."""

    directory: RunDirectory
    facts: Mapping[str, Json]
    """Content of its run.json; {} if the harness died before it wrote one, or it is damaged."""
    damage: str = ""
    """Why run.json cannot be read; empty if it can."""

    @classmethod
    def of(cls, directory: RunDirectory) -> "PastRun":
        """FleetError if its run.json is damaged."""
        return cls(directory=directory, facts=directory.facts)

    @classmethod
    def listed(cls, directory: RunDirectory) -> "PastRun":
        """The run in a list: a damaged run.json is shown by `damage`, and hides no other run."""
        try:
            return cls.of(directory)
        except FleetError as error:
            return cls(directory=directory, facts={}, damage=str(error))

    @property
    def plan(self) -> str:
        """Name of its plan."""
        return self.directory.plan_name

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of its verdict; None while it was never judged."""
        said = self.facts.get("verdict")
        return Outcome(said) if isinstance(said, str) and said in tuple(Outcome) else None

    @property
    def is_pass(self) -> bool:
        """Whether it was PASS and ended in order, with nothing left behind."""
        return self.outcome is Outcome.PASS and self.facts.get("exit_code") == ExitCode.PASS

    @property
    def started(self) -> datetime | None:
        """Time of its start, in UTC; None if it did not live to write it."""
        try:
            found = datetime.fromisoformat(str(self.facts.get("started")))
        except ValueError:
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def age_s(self, now: datetime) -> float | None:
        """Seconds since it began."""
        return None if self.started is None else (now - self.started).total_seconds()

    @property
    def commit(self) -> str | None:
        """Commit of the work tree in which it was made; `+` after it: with changes."""
        git = self.facts.get("git")
        if not isinstance(git, Mapping):
            return None
        return f"{git.get('commit')}{'+' if git.get('has_changes') else ''}"

    @property
    def machine(self) -> Mapping[str, Json]:
        """Facts that decide how fast a run is there."""
        host = self.facts.get("host")
        return host if isinstance(host, Mapping) else {}

    def verdict(self) -> Verdict | None:
        """Its verdict.json; None if it was never judged, FleetError if it cannot be read."""
        return read_verdict(self.directory.path)

    @property
    def fleet(self) -> str:
        """Kind of its fleet, of the journal if run.json does not say; empty if neither does."""
        said = self.facts.get("fleet")
        if isinstance(said, str):
            return said
        begun = self._begun()
        return "" if begun is None else begun.fleet

    def provenance(self) -> Mapping[str, Json]:
        """Digest of each thing besides the plan that affected it; {} if the record does not say."""
        begun = self._begun()
        return {} if begun is None else begun.provenance

    def _begun(self) -> RunStarted | None:
        """The journal's first line; None if it breaks off at once, or cannot be read."""
        path = self.directory.path / JOURNAL
        if not path.is_file():  # a pipe would keep a reader waiting
            return None
        try:
            with path.open(encoding="utf-8") as journal:
                said = Event.from_line(journal.readline()).payload
        except (OSError, MalformedEvent, UnicodeDecodeError):
            return None
        return said if isinstance(said, RunStarted) else None

    def source(self) -> bytes:
        """The plan file that was asked for; empty if the record has none, or repeats a record."""
        try:
            given = read_regular(self.directory.path / SOURCE_PLAN)
            return b"" if given == read_regular(self.directory.path / RESOLVED_PLAN) else given
        except OSError:
            return b""

    def plan_version(self) -> str:
        """Digest of the resolved plan without its seed: equal for runs that can be compared."""
        try:
            lines = read_regular(self.directory.path / RESOLVED_PLAN).splitlines()
        except OSError:
            return ""
        kept = (line for line in lines if not line.startswith(_SEED_LINE))
        return hashlib.sha256(b"\n".join(kept)).hexdigest()


def index(root: Path, plan: str | None = None) -> tuple[PastRun, ...]:
    """The runs below `root`, the newest first; those of one plan if it is named."""
    runs = (run for run in list_runs(root) if plan in (None, run.plan_name))
    return tuple(map(PastRun.listed, runs))


def judged(run: PastRun) -> Verdict:
    """Its verdict; PlanError says what to do without one."""
    verdict = run.verdict()
    if verdict is None:
        path = run.directory.path
        raise PlanError(
            f"{path} was never judged: call `chaoslab show {quote(str(path))} --judge` first"
        )
    return verdict


def plans(runs: Sequence[PastRun]) -> Mapping[str, Sequence[PastRun]]:
    """The runs of each plan, in the order they come; plans by name."""
    found: dict[str, list[PastRun]] = {}
    for run in runs:
        found.setdefault(run.plan, []).append(run)
    return dict(sorted(found.items()))
