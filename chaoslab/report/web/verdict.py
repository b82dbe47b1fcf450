"""A verdict as a page shows it: findings, injections with their evidence, clocks, accounts.

    Verdict ── findings, injections ──┐
    History ── absences, outages ─────┼─► JSON; nothing is judged here, and nothing counted twice
            └─ the journal lines that findings and evidence name

The lines come once each, by `seq`. Of very many, those of findings that are not PASS come first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.outages import Outage, outages
from chaoslab.checks.timeline import after, of_learner
from chaoslab.checks.token_accounts import Accounts, totals
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import Event, Json, MalformedEvent, encode
from chaoslab.core.payloads import LearnerJoined
from chaoslab.record.history import FaultStory, History
from chaoslab.report.samples import digits
from chaoslab.report.wording import answers, counted, is_known_script, margin, value, worst_first

_LINES_MOST, _LINE_MOST = 100, 320
"""Journal lines on a page, and characters of the data of each."""
_LINES_OF_ONE = 8
_DETAILED_MOST = 100
"""Injections with settings and measurements; of more there is one line each."""


def verdict_data(verdict: Verdict, history: History) -> Mapping[str, Json]:
    """Everything that the page shows of a verdict. `history` is as it lies on disk."""
    timed = as_it_happened(history)
    lines = _Lines(history)
    findings = worst_first(verdict)
    for finding in findings:
        lines.name(finding.evidence)
    return {
        "outcome": verdict.outcome.value,
        "exit_code": int(verdict.exit_code),
        "sentence": sentence(verdict),
        "answers": [
            {"question": one.question, "word": one.word, "text": one.text, "tone": one.tone.value}
            for one in answers(verdict, history)
        ],
        "findings": [_finding(one) for one in findings],
        "not_judged": [[one.name, one.reason] for one in verdict.not_judged],
        "injections": list(_injections(verdict, history, lines)),
        "injections_counted": counted(verdict) if verdict.injections else "",
        "clocks": list(_clocks(timed)),
        "ledger": _ledger(verdict, timed),
        "residue": [dict(one) for one in verdict.residue],
        "journal": verdict.journal.to_json() if verdict.journal else None,
        "lines": lines.said,
    }


def sentence(verdict: Verdict) -> str:
    """Reason for the outcome, in one sentence."""
    if verdict.outcome is Outcome.PASS:
        proved = verdict.injection_counts["proved"]
        faults = f"{proved} fault{'s'[: proved != 1]} took effect" if proved else "no fault was due"
        return f"{faults}, every check holds, and everything was undone"
    decisive = [one for one in verdict.findings if one.outcome is verdict.outcome]
    others = len(decisive) - 1
    more = f" (and {others} more finding{'s'[: others != 1]})" if others else ""
    return f"{decisive[0].check}: {decisive[0].reason}{more}"


class _Lines:
    """The journal lines that a page shows, by `seq`."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.said: dict[str, Json] = {}

    def name(self, seqs: Sequence[int]) -> None:
        """Add the first of these, while there is room; the page names the others by number."""
        for seq in seqs[:_LINES_OF_ONE]:
            if len(self.said) < _LINES_MOST and 0 <= seq < len(self._history.events):
                event = self._history.events[seq]
                data = encode(event.data)
                cut = data if len(data) <= _LINE_MOST else f"{data[:_LINE_MOST]}…"
                self.said[str(seq)] = [digits(event.time_s, 6), event.kind.value, event.source, cut]


def _finding(one: Finding) -> Mapping[str, Json]:
    return {
        "check": one.check,
        "outcome": one.outcome.value,
        "reason": one.reason,
        "codes": list(one.codes),
        "observed": value(one.observed, one.unit),
        "bound": value(one.bound, one.unit),
        "margin": one.margin,
        "margin_text": margin(one),
        "samples": one.samples,
        "culprits": list(one.culprits),
        "evidence": list(one.evidence[:_LINES_OF_ONE]),
        "evidence_count": len(one.evidence),
        "numbers": dict(one.numbers),
    }


def _injections(verdict: Verdict, history: History, lines: _Lines) -> Iterator[Mapping[str, Json]]:
    stories = {story.injection: story for story in _stories(history)}
    for number, one in enumerate(verdict.injections):
        story = stories.get(one.id)
        shown: dict[str, Json] = {
            "id": one.id,
            "fault": one.fault,
            "targets": list(one.targets),
            "status": one.status,
            "reason": one.reason,
        }
        if number < _DETAILED_MOST:
            shown |= {"requested": dict(one.requested), "measured": dict(one.measured)}
            if story is not None:
                with suppress(MalformedEvent):  # counted as unreadable by the run's picture
                    shown |= _told(story, lines)
        yield shown


def _stories(history: History) -> Sequence[FaultStory]:
    try:
        return history.faults
    except MalformedEvent:  # the verdict has a finding that says so
        return ()


def _told(story: FaultStory, lines: _Lines) -> Mapping[str, Json]:
    said = story.injecting.payload
    proof = [seq for event in story.evidence for seq in (event.seq, *event.payload.proof)]
    proof = list(dict.fromkeys(proof))
    lines.name(proof)
    return {
        "spec": story.spec,
        "settings": dict(said.settings),
        "trigger": said.trigger,
        "for_s": said.for_s,
        "from_s": digits(story.injecting.time_s, 6),
        "healing_s": _at(story.healing),
        "healed_s": _at(story.healed),
        "evidence": proof[:_LINES_OF_ONE],
        "evidence_count": len(proof),
    }


def _at(event: Event | None) -> Json:
    return digits(event.time_s, 6) if event else None


# ---------------------------------------------------------------- the way back


def _clocks(history: History) -> Iterator[Mapping[str, Json]]:
    """A row for each absence of a learner, and for each end of the syncer with the learners that
    came back.
    """
    try:
        found = [_absence(one, history) for one in absences(history)]
        for outage in outages(history):
            found += _outage(outage, history)
    except MalformedEvent:  # the verdict has a finding that says so
        return
    yield from found


def _absence(one: Absence, history: History) -> Mapping[str, Json]:
    joined = _joined(history, one.learner, one.since, one.until_s)
    since_s = one.since.time_s if one.since else None
    return {
        "node": one.learner,
        "faults": list(dict.fromkeys(story.spec for story in one.stories)),
        "gone_s": digits(one.gone_s, 6),
        "down_s": round((one.until_s if since_s is None else since_s) - one.gone_s, 3),
        "up_s": _rounded(one.clock_s(one.up)),
        "joined_s": _rounded(one.clock_s(joined)),
        "first_step_s": _rounded(one.clock_s(one.stepped)),
        "first_contribution_s": _rounded(one.clock_s(one.accepted)),
        "was_asked": one.was_to_be_healed,
    }


def _joined(
    history: History, learner: str, since: Event | None, until_s: float
) -> Event[LearnerJoined] | None:
    """Event by which it was complete again."""
    if since is None:
        return None
    later = after(since, of_learner(history, LearnerJoined, learner))
    return next((event for event in later if event.time_s <= until_s), None)


def _outage(one: Outage, history: History) -> list[Mapping[str, Json]]:
    """The syncer itself, then each learner that it lost."""
    down = {
        "faults": [one.story.spec],
        "gone_s": digits(one.gone_s, 6),
        "down_s": round(one.healed_s - one.gone_s, 3),
        "was_asked": one.was_to_be_healed,
    }
    no_clocks = dict.fromkeys(("up_s", "joined_s", "first_step_s", "first_contribution_s"))
    ready_s = one.ready.time_s - one.healed_s if one.ready else None
    cut_off: list[Mapping[str, Json]] = []
    for learner in one.returns:
        joined = _joined(history, learner, one.since, one.until_s)
        joined_s = joined.time_s - one.healed_s if joined else None
        clocks = {
            "joined_s": _rounded(joined_s),
            "first_contribution_s": _rounded(one.after_s(learner)),
        }
        cut_off.append({"node": learner, "is_cut_off": True, **down, **no_clocks, **clocks})
    return [{"node": "syncer", **down, **no_clocks, "up_s": _rounded(ready_s)}, *cut_off]


def _rounded(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s, 3)


# ---------------------------------------------------------------- accounts of tokens


def _ledger(verdict: Verdict, history: History) -> Mapping[str, Json]:
    """The totals of the check, which a plan need not expect; empty if nothing adds up to them, or
    if there are no tokens, as in a script.
    """
    if is_known_script(verdict, history):
        return {}
    for one in verdict.findings:
        if one.check == Ledger.name and one.numbers:
            return dict(one.numbers)
    try:
        return totals(Accounts(history))
    except (MalformedEvent, OverflowError, ValueError):  # broken, or no amount of tokens
        return {}
