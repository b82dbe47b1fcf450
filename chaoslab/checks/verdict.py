"""The answer: one outcome from all findings, the first answers, and verdict.json.

    History ─┬─► rules that always hold ─┐
             ├─► each expected check ────┤
             ├─► an answer that is NO ───┼─► findings ─► FAIL beats UNKNOWN beats PASS ─► Verdict
             └─► training continued? who rejoined? ─────────────────────────────────────► Verdict

A pure function of the record: `judge` on an old run directory gives the same verdict, or a better
one with newer checks. A check that crashes is UNKNOWN, and so is a run without any finding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from chaoslab.checks.answered import rejoin_within_s, unanswered
from chaoslab.checks.answers import (
    Injected,
    Return,
    injections,
    longest_gap_s,
    returns,
    training_continued,
)
from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.rules import always_judged, residue
from chaoslab.checks.verdict_schema import VERDICT_SCHEMA
from chaoslab.checks.violations import unknown
from chaoslab.errors import ExitCode
from chaoslab.events import Event, Json, Kind, MalformedEvent
from chaoslab.journal import History, Seal

_EXIT_CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.UNKNOWN: ExitCode.UNKNOWN,
}
_BROKEN_RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verdict.json holds."""

    outcome: Outcome
    exit_code: ExitCode
    training_continued: bool | None
    longest_gap_s: float | None
    learners_rejoined: Mapping[str, Return]
    findings: tuple[Finding, ...]
    injections: tuple[Injected, ...]
    residue: tuple[Mapping[str, Json], ...]
    journal: Seal | None = None
    """Of the journal that was judged; None for one that was written without chains."""

    def to_json(self) -> Mapping[str, Json]:
        """The object of verdict.json, as `schema` describes it."""
        return {
            "outcome": self.outcome.value,
            "exit_code": int(self.exit_code),
            "training_continued": self.training_continued,
            "longest_gap_s": self.longest_gap_s,
            "learners_rejoined": {
                who: asdict(back) for who, back in self.learners_rejoined.items()
            },
            "findings": [finding_json(finding) for finding in self.findings],
            "injections": [_listed(asdict(injected)) for injected in self.injections],
            "residue": list(self.residue),
            "journal": None if self.journal is None else self.journal.to_json(),
        }

    @property
    def is_of_broken_record(self) -> bool:
        """Whether a broken line of the record left the first answers open."""
        return any(finding.check == _BROKEN_RECORD for finding in self.findings)

    def explain(self) -> str:
        """The outcome, and a line for each finding that is not PASS: for an assertion's message."""
        doubts = [finding for finding in self.findings if finding.outcome is not Outcome.PASS]
        lines = [f"{finding.outcome} {finding.check}: {finding.reason}" for finding in doubts]
        return "\n".join([f"the verdict is {self.outcome}", *lines])

    @classmethod
    def from_json(cls, data: Json) -> "Verdict":
        """Read `to_json` back; MalformedEvent says what is missing or wrong."""
        whole = _reader(data)
        returned = whole.mapping("learners_rejoined")
        return cls(
            outcome=Outcome(whole.text("outcome")),
            exit_code=ExitCode(whole.integer("exit_code")),
            training_continued=_flag(whole, "training_continued"),
            longest_gap_s=_number(whole, "longest_gap_s"),
            learners_rejoined={who: _return(back) for who, back in returned.items()},
            findings=tuple(map(_finding, whole.items("findings"))),
            injections=tuple(map(_injected, whole.items("injections"))),
            residue=tuple(_reader(item).data for item in whole.items("residue")),
            journal=_seal(whole.data.get("journal")),
        )


def judge(history: History, expect: Sequence[Check]) -> Verdict:
    """Judge a run by its record: the rules that always hold, then what its plan expects.

    A line that lacks what its kind promises makes the verdict UNKNOWN at best, and says which.
    """
    findings = [_judged(check, history) for check in expect]
    rejoin_s = rejoin_within_s(expect)
    try:
        findings = [*always_judged(history), *findings]
        findings = [*unanswered(history, expect, findings), *findings]
        return _verdict(history, findings, rejoin_s)
    except MalformedEvent as error:
        broken = unknown(_BROKEN_RECORD, f"a line of the record is broken: {error}")
        return _verdict(History(()), [broken, *findings], rejoin_s)


def _verdict(history: History, findings: Sequence[Finding], rejoin_s: float) -> Verdict:
    judged = findings or [unknown("nothing", "the plan expects nothing, so nothing was judged")]
    outcome = _worst(judged)
    return Verdict(
        outcome=outcome,
        exit_code=_exit_code(history, outcome),
        training_continued=training_continued(history),
        longest_gap_s=longest_gap_s(history),
        learners_rejoined=returns(history, within_s=rejoin_s),
        findings=tuple(judged),
        injections=tuple(injections(history)),
        residue=tuple(residue(history)),
        journal=history.seal,
    )


def schema() -> Mapping[str, Json]:
    """The JSON Schema of verdict.json."""
    return VERDICT_SCHEMA


def _judged(check: Check, history: History) -> Finding:
    try:
        return check.judge(history)
    except Exception as error:  # noqa: BLE001  # a check that crashes must not hide the others
        return unknown(check.name, f"the check crashed: {type(error).__name__}: {error}")


def _worst(findings: Sequence[Finding]) -> Outcome:
    outcomes = {finding.outcome for finding in findings}
    order = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)
    return next(outcome for outcome in order if outcome in outcomes)


def _exit_code(history: History, outcome: Outcome) -> ExitCode:
    """How the run ended comes before what was found: interrupted, broken or unclean."""
    finished = history.last(Kind.RUN_FINISHED)
    ending = finished.text("outcome") if finished else ""
    if ending == "interrupted":
        return ExitCode.INTERRUPTED
    if ending == "broken" or residue(history):
        return ExitCode.BROKEN
    return _EXIT_CODES[outcome]


# ---------------------------------------------------------------- to and from verdict.json


def finding_json(finding: Finding) -> Mapping[str, Json]:
    """One finding as verdict.json carries it."""
    return _listed({**asdict(finding), "outcome": finding.outcome.value})


def _listed(fields: Mapping[str, Json]) -> Mapping[str, Json]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in fields.items()}


def _reader(data: Json) -> Event:
    """A JSON object with the typed access and the errors of an event's data."""
    if not isinstance(data, Mapping):
        raise MalformedEvent(f"a verdict is made of JSON objects, not {data!r}")
    return Event(seq=0, time_s=0.0, source="verdict.json", kind=Kind.VERDICT_REACHED, data=data)


def _number(fields: Event, key: str) -> float | None:
    return None if fields.data.get(key) is None else fields.number(key)


def _flag(fields: Event, key: str) -> bool | None:
    return None if fields.data.get(key) is None else fields.flag(key)


def _return(data: Json) -> Return:
    fields = _reader(data)
    return Return(
        rejoined=_flag(fields, "rejoined"),
        after_s=_number(fields, "after_s"),
        was_asked=fields.data.get("was_asked") is not False,
    )


def _seal(data: Json) -> Seal | None:
    if data is None:
        return None
    fields = _reader(data)
    return Seal(lines=fields.integer("lines"), digest=fields.text("digest"))


def _finding(data: Json) -> Finding:
    fields = _reader(data)
    return Finding(
        check=fields.text("check"),
        outcome=Outcome(fields.text("outcome")),
        reason=fields.text("reason"),
        observed=fields.data.get("observed"),
        bound=fields.data.get("bound"),
        margin=_number(fields, "margin"),
        samples=fields.integer("samples"),
        culprits=fields.names("culprits"),
        evidence=tuple(seq for seq in fields.items("evidence") if isinstance(seq, int)),
        numbers=fields.mapping("numbers"),
    )


def _injected(data: Json) -> Injected:
    fields = _reader(data)
    return Injected(
        id=fields.text("id"),
        fault=fields.text("fault"),
        targets=fields.names("targets"),
        status=fields.text("status"),
        reason=fields.text("reason"),
        requested=fields.mapping("requested"),
        measured=fields.mapping("measured"),
    )
