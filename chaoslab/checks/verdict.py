"""The answer: one outcome from all findings, the first answers, and verdict.json.

    History ─┬─► rules of every run ────┐
             ├─► each expected check ────┤
             ├─► an answer that is NO ───┼─► findings ─► FAIL beats UNKNOWN beats PASS ─► Verdict
             └─► training continued? all rejoined? ─────────────────────────────────────► Verdict

A pure function of the record: `judge` on an old run directory gives the same verdict, or a better
one with newer checks. A check that crashes is UNKNOWN, and so is a run without any finding.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from traceback import extract_tb

from chaoslab.checks.answer_checks import (
    LearnersRejoin,
    TrainingContinues,
    against_pass,
    rejoin_within_s,
    unnamed,
)
from chaoslab.checks.answers import (
    STATUSES,
    Injected,
    LaterWork,
    Return,
    afterwards,
    injections,
    longest_gap_s,
    returns,
    training_continued,
)
from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.disturbances import Disturbance, disturbances, weighed, without
from chaoslab.checks.left_out import NotJudged, judgeable
from chaoslab.checks.mixed_lines import as_known, mixed
from chaoslab.checks.node_clocks import by_node_clocks
from chaoslab.checks.rules import always_judged, residue
from chaoslab.checks.violations import unknown
from chaoslab.checks.work_lost import WorkLost, work_lost
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json, MalformedEvent
from chaoslab.core.events import read as read_json
from chaoslab.core.payloads import RunFinished, RunOutcome
from chaoslab.record.history import History
from chaoslab.record.journal_file import Seal
from chaoslab.record.typed_json import schema_of

_EXIT_CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.UNKNOWN: ExitCode.UNKNOWN,
}
SCHEMA_VERSION = "2.0"
"""Version of verdict.json: the second number rises with added keys, the first otherwise."""
_BROKEN_RECORD = "record"
_ANSWERS = (TrainingContinues, LearnersRejoin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run as it is judged: its events when they happened, and what disturbed it."""

    history: History
    disturbed: tuple[Disturbance, ...] = ()
    undisturbed: History | None = None
    """The run as if the disturbed time had not passed; None if nothing disturbed it."""

    @classmethod
    def of(cls, history: History) -> "Record":
        """MalformedEvent if a line lacks what this takes."""
        timed = history.once(by_node_clocks)
        disturbed = disturbances(timed)
        return cls(
            history=timed,
            disturbed=disturbed,
            undisturbed=without(timed, disturbed) if disturbed else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Content of verdict.json."""

    outcome: Outcome
    """FAIL if any finding is, else UNKNOWN if any is, else PASS."""
    exit_code: ExitCode
    """Exit code of the command that ran or judged it."""
    training_continued: bool | None
    """Whether rounds went on being merged to the end; None: unknown."""
    longest_gap_s: float | None
    """Longest time without a merged round since the baseline; None: unknown."""
    learners_rejoined: Mapping[str, Return]
    """Every learner that a fault took away."""
    worked_since: Mapping[str, LaterWork] = field(default_factory=dict)
    """Work of each learner that is back, from then on."""
    work_lost: WorkLost | None = None
    """What faults destroyed of the learners' work; None: the baseline measured no step times, or
    nothing tells the lines of a script's workers apart."""
    findings: tuple[Finding, ...]
    """Findings of each check of the plan, and of each violated rule of every run."""
    injections: tuple[Injected, ...]
    """Every injection in the order of the schedule, with its evidence."""
    residue: tuple[Mapping[str, Json], ...] = field(
        metadata={"items": {"type": "object", "required": ["what", "where", "remedy"]}}
    )
    """Effects that could not be undone: `what`, `where`, `remedy`; empty in a clean run."""
    journal: Seal | None = None
    """Digest of the judged journal; None if it was not read from a file."""
    not_judged: tuple[NotJudged, ...] = ()
    """Checks of the plan, and settings of them, that the run was never to answer."""

    def to_json(self) -> Mapping[str, Json]:
        """The object of verdict.json, as `schema` describes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "outcome": self.outcome.value,
            "exit_code": int(self.exit_code),
            "training_continued": self.training_continued,
            "longest_gap_s": self.longest_gap_s,
            "learners_rejoined": {
                learner: asdict(back) for learner, back in self.learners_rejoined.items()
            },
            "worked_since": {
                learner: asdict(since) for learner, since in self.worked_since.items()
            },
            "work_lost": None if self.work_lost is None else asdict(self.work_lost),
            "findings": [finding_json(finding) for finding in self.findings],
            "not_judged": [asdict(one) for one in self.not_judged],
            "injections": [_listed(asdict(injected)) for injected in self.injections],
            "residue": list(self.residue),
            "journal": None if self.journal is None else self.journal.to_json(),
            "injection_counts": self.injection_counts,
        }

    @property
    def injection_counts(self) -> Mapping[str, int]:
        """Number of injections by status."""
        found = Counter(one.status for one in self.injections)
        return {status: found[status] for status in STATUSES}

    @property
    def by_name(self) -> Mapping[str, Finding]:
        """Each finding by its check; the second one of a check is `join (2)`."""
        found, seen = dict[str, Finding](), Counter[str]()
        for finding in self.findings:
            seen[finding.check] += 1
            again = seen[finding.check]
            found[finding.check if again == 1 else f"{finding.check} ({again})"] = finding
        return found

    @property
    def tightest(self) -> Finding | None:
        """The finding with the smallest margin; None if none has one."""
        known = [(one.margin, at) for at, one in enumerate(self.findings) if one.margin is not None]
        return self.findings[min(known)[1]] if known else None

    @property
    def is_of_broken_record(self) -> bool:
        """Whether a broken line of the record left the first answers open."""
        return any(finding.check == _BROKEN_RECORD for finding in self.findings)

    def explain(self) -> str:
        """The outcome, and a line for each finding that is not PASS: for an assertion's message."""
        lines = [str(finding) for finding in self.findings if finding.outcome is not Outcome.PASS]
        return "\n".join([f"the verdict is {self.outcome}", *lines])

    @classmethod
    def from_json(cls, data: Json) -> "Verdict":
        """Read `to_json` back; keys that later versions added are ignored.

        MalformedEvent says what is missing or wrong, or that it must be written anew.
        """
        if isinstance(data, Mapping):
            _refuse_other_version(str(data.get("schema_version", "none")))
        return read_json(cls, data, "verdict.json")


def judge(history: History, expect: Sequence[Check]) -> Verdict:
    """Judge a run by its record: the rules of every run, then what its plan expects.

    A line that lacks what its kind promises makes the verdict UNKNOWN at best, and says which.
    What the run was never to answer is left out.
    """
    broken = []
    not_judged: tuple[NotJudged, ...] = ()
    try:
        record = Record.of(history)
        expect, not_judged = judgeable(record.history, expect)
    except MalformedEvent as error:
        record, broken = Record(history=history), [_broken(error)]
    findings = [_weighed(check, record) for check in expect]
    rejoin_s = rejoin_within_s(expect)
    try:
        findings = [*broken, *always_judged(record.history), *findings]
        answers = [_weighed(check, record) for check in unnamed(record.history, expect)]
        findings = [*against_pass(answers, findings), *findings]
        return _verdict(record, findings, rejoin_s, not_judged)
    except MalformedEvent as error:
        findings = [_broken(error), *findings]
        return _verdict(Record(history=History(())), findings, rejoin_s, not_judged)


def _broken(error: MalformedEvent) -> Finding:
    return unknown(_BROKEN_RECORD, Code.RECORD_BROKEN, f"a line of the record is broken: {error}")


def _verdict(
    record: Record,
    findings: Sequence[Finding],
    rejoin_s: float,
    not_judged: tuple[NotJudged, ...],
) -> Verdict:
    history = record.history
    judged = findings or [
        unknown("nothing", Code.NOTHING_TO_JUDGE, "the plan expects nothing that could be judged")
    ]
    outcome = _worst(judged)
    returned = _returns(record, rejoin_s)
    return Verdict(
        outcome=outcome,
        exit_code=_exit_code(history, outcome),
        training_continued=_sure(training_continued, record),
        longest_gap_s=longest_gap_s(history),
        learners_rejoined=returned,
        worked_since=afterwards(history, returned),
        work_lost=None if mixed(history) else work_lost(history),
        findings=tuple(judged),
        injections=tuple(injections(history)),
        residue=tuple(residue(history)),
        journal=history.seal,
        not_judged=not_judged,
    )


def schema() -> Mapping[str, Json]:
    """The JSON Schema of verdict.json; docs/schemas has that of each version."""
    counts = schema_of(Mapping[str, int]) | {
        "required": STATUSES,
        "description": "How many injections are proved, weak, failed and moot.",
    }
    version = {
        "const": SCHEMA_VERSION,
        "description": "The second number rises with added keys, the first with any other change.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:chaoslab:verdict:{SCHEMA_VERSION}",
        "title": "chaoslab verdict",
        **schema_of(Verdict, schema_version=version, injection_counts=counts),
    }


def _weighed(check: Check, record: Record) -> Finding:
    """Finding of a check. A FAIL, or one of the first two answers, is judged a second time without
    what disturbed the run.
    """
    finding, crash = _tried(check, record.history)
    if crash is not None:
        last = extract_tb(crash.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        text = f"the check crashed in {where}: {type(crash).__name__}: {crash}"
        return unknown(check.name, Code.CHECK_CRASHED, text)
    again = None
    is_asked = finding.outcome is Outcome.FAIL or isinstance(check, _ANSWERS)
    if is_asked and record.undisturbed is not None:
        second, crash = _tried(check, record.undisturbed)
        again = None if crash else second.outcome
    return as_known(weighed(finding, again, record.history, record.disturbed), record.history)


def _tried(check: Check, history: History) -> tuple[Finding, Exception | None]:
    try:
        return check.judge(history), None
    except Exception as error:  # noqa: BLE001  # a check that crashes must not hide the others
        return unknown(check.name, Code.CHECK_CRASHED, ""), error


def _sure(answer: Callable[[History], bool | None], record: Record) -> bool | None:
    """The answer; None for a `no` that does not stand without what disturbed the run."""
    said = answer(record.history)
    if said is not False or record.undisturbed is None:
        return said
    return False if answer(record.undisturbed) is False else None


def _returns(record: Record, within_s: float) -> Mapping[str, Return]:
    """Learners that are back; one that is missing has had its chance without what disturbed the
    run, too.

    Without that time its fault may fall upon the end of training, and takes no learner away any
    more.
    """
    found = returns(record.history, within_s=within_s)
    if mixed(record.history):
        return {learner: _if_known(back) for learner, back in found.items()}
    if record.undisturbed is None:
        return found
    missing = {
        learner
        for learner, back in returns(record.undisturbed, within_s=within_s).items()
        if back.rejoined is False
    }
    return {
        learner: replace(back, rejoined=None)
        if back.rejoined is False and back.was_asked and learner not in missing
        else back
        for learner, back in found.items()
    }


def _if_known(back: Return) -> Return:
    """Without a contribution that may be another worker's."""
    return replace(back, rejoined=None, after_s=None) if back.rejoined else back


def _worst(findings: Sequence[Finding]) -> Outcome:
    outcomes = {finding.outcome for finding in findings}
    order = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)
    return next(outcome for outcome in order if outcome in outcomes)


def _exit_code(history: History, outcome: Outcome) -> ExitCode:
    """Exit code; the way in which the run ended precedes findings: interrupted, broken, unclean."""
    finished = history.last(RunFinished)
    ending = finished.payload.outcome if finished else None
    if ending is RunOutcome.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if ending is RunOutcome.BROKEN or residue(history):
        return ExitCode.BROKEN
    return _EXIT_CODES[outcome]


# ---------------------------------------------------------------- to and from verdict.json


def _refuse_other_version(version: str) -> None:
    """MalformedEvent unless the major version is this one's."""
    major = SCHEMA_VERSION.partition(".")[0]
    if version.partition(".")[0] != major:
        raise MalformedEvent(
            f"verdict.json has schema version {version}, and this chaoslab reads {major}.*: "
            "`chaoslab show RUN --judge` writes it anew"
        )


def finding_json(finding: Finding) -> Mapping[str, Json]:
    """One finding as in verdict.json."""
    return _listed({**asdict(finding), "outcome": finding.outcome.value})


def _listed(fields: Mapping[str, Json]) -> Mapping[str, Json]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in fields.items()}
