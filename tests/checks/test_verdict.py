"""The verdict: FAIL beats UNKNOWN beats PASS, and nothing passes without proof."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.codes import Code
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import SCHEMA_VERSION, Verdict, judge, schema
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Json, Kind, MalformedEvent, encode
from chaoslab.core.payloads import LearnerStep
from chaoslab.record.history import History
from chaoslab.report import hints
from chaoslab.report.files import read_verdict, write_reports
from chaoslab.report.page import run_page
from tests.checks.cases import rewritten
from tests.histories import Story, half_killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """A check that has made up its mind."""

    name: ClassVar[str] = "always"
    summary: ClassVar[str] = "always the same"
    outcome: Outcome = Outcome.PASS

    def judge(self, history: History) -> Finding:
        return Finding(check=self.name, outcome=self.outcome, reason="so it is", samples=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashing:
    """A check with a bug."""

    name: ClassVar[str] = "crashing"
    summary: ClassVar[str] = "crashes"

    def judge(self, history: History) -> Finding:
        raise ZeroDivisionError("division by zero")


ELSEWHERE = frozenset({"succession", "checkpoints", "repairs", "resume", "divergence"})
"""Checks of what is not in the story: outages of the syncer, joins, lost slices, scripts."""
PASSES, FAILS, DOUBTS = Always(), Always(outcome=Outcome.FAIL), Always(outcome=Outcome.UNKNOWN)


def judged(story: Story, *expect: Check) -> Verdict:
    return judge(story.history(), expect or (PASSES,))


def finding_of(verdict: Verdict, check: str) -> Finding:
    return next(finding for finding in verdict.findings if finding.check == check)


# ---------------------------------------------------------------- the order of outcomes


def test_a_sound_run_passes_every_check_of_the_catalogue() -> None:
    losses = [(1000, 4.0), (9000, 3.0)]
    story = half_killed().end(losses=losses)
    story.twin = Story(is_twin=True).baseline().train(30).end(losses=losses)
    verdict = judged(story, *(check() for name, check in CHECKS.items() if name not in ELSEWHERE))
    assert [f.reason for f in verdict.findings if f.outcome is not Outcome.PASS] == []
    assert (verdict.outcome, verdict.exit_code) == (Outcome.PASS, ExitCode.PASS)
    assert len(verdict.findings) == len(CHECKS) - len(ELSEWHERE)


@pytest.mark.parametrize(
    ("checks", "outcome", "code"),
    [
        ((PASSES, PASSES), Outcome.PASS, ExitCode.PASS),
        ((PASSES, DOUBTS), Outcome.UNKNOWN, ExitCode.UNKNOWN),
        ((DOUBTS, FAILS, PASSES), Outcome.FAIL, ExitCode.FAIL),
    ],
)
def test_fail_beats_unknown_beats_pass(
    checks: tuple[Check, ...], outcome: Outcome, code: ExitCode
) -> None:
    verdict = judged(half_killed().end(), *checks)
    assert (verdict.outcome, verdict.exit_code) == (outcome, code)


def test_a_check_that_crashes_is_unknown_and_hides_no_other() -> None:
    verdict = judged(half_killed().end(), Crashing(), PASSES)
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding_of(verdict, "crashing").codes == (Code.CHECK_CRASHED,)
    assert finding_of(verdict, "always").outcome is Outcome.PASS
    assert judged(half_killed().end(), Crashing(), FAILS).outcome is Outcome.FAIL


def test_a_run_without_any_finding_is_unknown() -> None:
    verdict = judge(half_killed().end().history(), ())
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.findings[0].codes == (Code.NOTHING_TO_JUDGE,)


# ---------------------------------------------------------------- what caps a verdict


def with_entries(story: Story, **injections: int) -> Story:
    listed: list[Json] = [
        {"spec": spec, "fault": "process.kill", "injections": n} for spec, n in injections.items()
    ]
    return story.altered(Kind.RUN_STARTED, lambda _: {"entries": listed})


def unproved(status: str) -> Story:
    story = Story().baseline().kill("learner-1", spec="one-dies").train(6).heal(status=status)
    return story.train(9).end()


def not_carried_out() -> Story:
    story = Story().baseline().touch("learner-1").say(
        Kind.FAULT_FAILED, injection="injection-0", fault="compute.steal", spec="touch",
        targets=["learner-1"], reason="the process was gone",
    )  # fmt: skip
    return story.train(9).end()


def asked_to_end() -> Story:
    asked: dict[str, Json] = {"was_asked": True, "reason": "the syncer was asked to end"}
    return half_killed().end().altered(Kind.SYNCER_FINAL, lambda _: asked)


def janitor_died(successor: int | None) -> Story:
    died: dict[str, Json] = {"pid": 7, "how": "signal 9", "reason": "", "successor": successor}
    return half_killed().say(Kind.JANITOR_DIED, **died).end()


def disk_was_full() -> Story:
    full = {"host": "10.0.0.3", "file": "spool.jsonl", "reason": "No space left on device"}
    story = half_killed().say(Kind.DISK_BLOCKED, **full)
    return story.say(Kind.DISK_FREED, host="10.0.0.3", blocked_s=4.0).end()


CAPS: dict[str, tuple[Callable[[], Story], str, tuple[str, ...]]] = {
    "a baseline that was not steady": (
        lambda: Story().baseline(is_steady=False).train(9).end(),
        "baseline",
        (Code.BASELINE_NOT_STEADY,),
    ),
    "a baseline that was never measured": (
        lambda: Story().start().train(9).end(), "baseline", (Code.NO_BASELINE,),
    ),
    "evidence of another package": (
        lambda: unproved("weak").altered(
            Kind.EVIDENCE_MEASURED, lambda _: {"code": "toy.woke_early"}
        ),
        "evidence",
        (Code.NOT_PROVED, "toy.woke_early"),
    ),
    "evidence that nothing in the time of the fault bears out": (
        lambda: half_killed().end().altered(Kind.EVIDENCE_MEASURED, lambda _: {"proof": [0]}),
        "evidence",
        (Code.NOT_PROVED,),
    ),
    "a fault that could not be carried out": (not_carried_out, "evidence", (Code.NOT_INJECTED,)),
    "a fault that was never injected": (
        lambda: Story().baseline().train(9).skip("learner-1").end(),
        "evidence",
        (Code.NOT_INJECTED,),
    ),
    "a fault that nobody was seen to heal": (
        lambda: half_killed().end().without(Kind.FAULT_HEALED), "heal", (Code.HEAL_FAILED,),
    ),
    "a syncer that somebody asked to end": (asked_to_end, "stop", (Code.STOPPED_BY_REQUEST,)),
    "a syncer that never said that training had ended": (
        lambda: half_killed().end().without(Kind.SYNCER_STOPPED), "stop", (Code.STOP_NOT_SAID,),
    ),
    "a syncer that ended training while faults were to come": (
        lambda: with_entries(half_killed().end(), die=1).without(Kind.SYNCER_STOP_RULE_MET),
        "stop",
        (Code.STOP_NOT_SAID,),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tell", "check", "codes"), CAPS.values(), ids=CAPS)
def test_a_doubt_caps_at_unknown(
    tell: Callable[[], Story], check: str, codes: tuple[str, ...]
) -> None:
    verdict = judged(tell())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.UNKNOWN)
    assert finding_of(verdict, check).codes == codes


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"rounds": 10}, Outcome.PASS),
        ({"rounds": 10_000}, Outcome.FAIL),
        ({"rounds": 10_000, "steps": 50}, Outcome.PASS),
        ({"tokens": 1e12}, Outcome.FAIL),
        ({"steps": 1e6}, Outcome.FAIL),
        ({"time_s": 10.0}, Outcome.PASS),
        ({"time_s": 9_000.0}, Outcome.FAIL),
        ({"loss": -1.0}, Outcome.FAIL),
    ],
)
def test_training_that_ends_before_its_stop_rule_fails(
    rule: dict[str, Json], outcome: Outcome
) -> None:
    story = half_killed().end().altered(Kind.RUN_STARTED, lambda _: {"stop": rule})
    verdict = judged(story)
    assert verdict.outcome is outcome
    assert outcome is Outcome.PASS or finding_of(verdict, "stop").codes == (Code.STOPPED_EARLY,)


@pytest.mark.parametrize(
    ("learners", "outcome"),
    [({"learner-2"}, Outcome.FAIL), ({f"learner-{n}" for n in range(4)}, Outcome.PASS)],
)
def test_a_loss_is_reached_by_all_learners_and_not_by_one_of_them(
    learners: set[str], outcome: Outcome
) -> None:
    story = Story().baseline().train(20).end()
    story.altered(Kind.RUN_STARTED, lambda _: {"stop": {"loss": 0.5}})
    last = {e.payload.learner: e.seq for e in story.history().of(LearnerStep)}
    for name in learners:
        low = story.events[last[name]]
        story.events[low.seq] = replace(low, data={**low.data, "loss": 0.4})
    (found,) = [one for one in judged(story).findings if one.check == "stop"] or [None]
    assert (found.outcome if found else Outcome.PASS) is outcome


def test_how_long_training_lasted_goes_by_the_syncer_where_its_first_words_were_heard_late() -> (
    None
):
    story = half_killed().end()
    lasted_s = story.events[-1].time_s
    story.altered(Kind.RUN_STARTED, lambda _: {"stop": {"time_s": lasted_s}})
    joined = next(event.seq for event in story.events if event.kind is Kind.MEMBER_JOINED)

    def heard(event: Event, *, by_own_clock: bool) -> Event:
        node_s = event.time_s if by_own_clock and event.source == "syncer" else None
        time_s = event.time_s + (lasted_s / 2 if event.seq == joined else 0.0)
        return replace(event, node_s=node_s, time_s=time_s)

    def found(*, by_own_clock: bool) -> set[Code]:
        events = [heard(event, by_own_clock=by_own_clock) for event in story.events]
        return {
            code for finding in judge(History(events), (PASSES,)).findings for code in finding.codes
        }

    assert Code.STOPPED_EARLY in found(by_own_clock=False)
    assert Code.STOPPED_EARLY not in found(by_own_clock=True)


NAMED: dict[str, tuple[Callable[[], Story], str, str]] = {
    "evidence on some targets only": (
        lambda: (
            half_killed()
            .end()
            .without(Kind.EVIDENCE_MEASURED, lambda event: event.payload.target == "learner-3")
        ),
        "evidence",
        "learner-3",
    ),
    "an entry of which chance drew nothing": (
        lambda: with_entries(half_killed().end(), die=1, crashes=0), "entries", "crashes",
    ),
    "a skipped entry is a doubt once": (
        lambda: with_entries(half_killed().skip("learner-0").end(), die=1, late=1),
        "evidence",
        "late",
    ),
    "a disk that was full": (disk_was_full, "disks", "10.0.0.3"),
    "a janitor that nobody replaced": (lambda: janitor_died(None), "unguarded", "janitor"),
    "a completed run that had to end a node": (
        lambda: (
            half_killed()
            .end()
            .altered(Kind.RUN_FINISHED, lambda _: {"reason": "learner-2 still ran"})
        ),
        "run",
        "learner-2",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tell", "check", "name"), NAMED.values(), ids=NAMED)
def test_a_doubt_is_the_only_one_and_names_whom_it_is_about(
    tell: Callable[[], Story], check: str, name: str
) -> None:
    verdict = judged(tell())
    (finding,) = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
    assert (verdict.outcome, finding.check) == (Outcome.UNKNOWN, check)
    assert name in finding.culprits or name in finding.reason


@pytest.mark.parametrize("status", ["weak", "failed"])
def test_a_fault_that_is_not_proved_caps_at_unknown_and_hides_no_failing_check(status: str) -> None:
    verdict = judged(unproved(status))
    assert (verdict.outcome, verdict.injections[0].status) == (Outcome.UNKNOWN, status)
    finding = finding_of(verdict, "evidence")
    assert Code.NOT_PROVED in finding.codes
    assert all(part in finding.reason for part in ("one-dies", "learner-1"))
    assert judged(unproved(status), FAILS).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("aborted", ExitCode.UNKNOWN),
        ("interrupted", ExitCode.INTERRUPTED),
        ("broken", ExitCode.BROKEN),
    ],
)
def test_a_run_that_was_cut_short_is_unknown_with_its_own_exit_code(
    ending: str, code: ExitCode
) -> None:
    story = half_killed().end(outcome=ending)  # and the harness asks the syncer to end
    verdict = judged(story.altered(Kind.SYNCER_FINAL, lambda _: {"was_asked": True}))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, code)
    (finding,) = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
    assert (finding.check, finding.codes) == ("run", (Code.RUN_CUT_SHORT,))


def test_a_third_partys_kill_fails_whatever_the_plan_expects() -> None:
    verdict = judged(half_killed().strike("learner-2").train(2).end())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.FAIL, ExitCode.FAIL)
    assert finding_of(verdict, "unasked").culprits == ("learner-2",)


def test_residue_is_listed_and_ends_with_the_code_of_a_broken_harness() -> None:
    left: dict[str, Json] = {"what": "process 4711", "where": "here", "remedy": "chaoslab heal"}
    events = half_killed().end().events
    for verdict in (
        judged(half_killed().end().say(Kind.RESIDUE_FOUND, **left)),
        judge(History(events, left_open=[left]), [PASSES]),  # an undo that is open
    ):
        assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.BROKEN)
        assert verdict.residue == (left,)
    assert judge(History(events[:-1], left_open=[left]), [PASSES]).residue == ()


def test_lines_that_were_refused_are_found_and_name_their_node() -> None:
    story = half_killed().end()
    ended = next(e for e in story.events if e.data.get("node") == "learner-2"
                 and e.kind is Kind.NODE_EXITED)  # fmt: skip
    story.events[ended.seq] = replace(ended, data={**ended.data, "refused_lines": 312})
    verdict = judged(story)
    found = finding_of(verdict, "refused")
    assert (verdict.outcome, found.outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN)
    assert (found.observed, found.culprits, found.evidence) == (312, ("learner-2",), (ended.seq,))


def not_counted() -> Story:
    story = half_killed().end()
    for event in [event for event in story.events if event.kind is Kind.NODE_EXITED]:
        data = {key: value for key, value in event.data.items() if key != "refused_lines"}
        story.events[event.seq] = replace(event, data=data)
    return story


@pytest.mark.parametrize(
    "tell",
    [
        lambda: with_entries(half_killed().end(), die=1),
        lambda: janitor_died(8),
        not_counted,
    ],
    ids=["entries that took place", "a janitor replaced", "refused lines that nobody counted"],
)
def test_what_leaves_no_doubt_passes(tell: Callable[[], Story]) -> None:
    assert judged(tell()).outcome is Outcome.PASS


@pytest.mark.parametrize("host", ["the API server of prod", ""])
def test_a_host_that_was_out_of_reach_is_told_and_is_no_fault_of_the_training(host: str) -> None:
    away = {"silent_s": 4.0, "since_s": 31.0, "undone": [], "host": host}
    verdict = judged(half_killed().say(Kind.HARNESS_STALLED, **away).end())
    assert verdict.outcome is Outcome.PASS
    said = [(one.observed, one.unit) for one in verdict.findings if one.check == "contact"]
    assert said == ([(4.0, "s")] if host else [])


def test_a_fault_that_began_when_training_had_ended_is_a_doubt() -> None:
    story = half_killed().end().kill("learner-2").prove().finish()
    finding = finding_of(judged(story), "evidence")
    assert finding.outcome is Outcome.UNKNOWN
    assert Code.INJECTED_TOO_LATE in finding.codes


@pytest.mark.parametrize("kept", [0, 4])
def test_rounds_to_which_nobody_contributed_do_not_continue_training(kept: int) -> None:
    def idle(event: Event) -> dict[str, Json]:
        return {
            "contributors": [{**one, "c_tokens": 0} for one in event.data["contributors"][:kept]]
        }

    story = half_killed().end()
    verdict = judged(rewritten(story, Kind.ROUND_MERGED, idle, lambda e: e.time_s > 20.0))
    assert verdict.training_continued is False
    assert verdict.outcome is Outcome.FAIL


def test_a_record_that_breaks_off_anywhere_is_unknown() -> None:
    story = half_killed().end()
    for length in (0, 400, len(story.events) - 1):
        verdict = judge(story.history(until=length), [PASSES])
        assert verdict.outcome is Outcome.UNKNOWN, [f.reason for f in verdict.findings]
        assert verdict.training_continued is None or length == len(story.events) - 1


def test_a_broken_line_is_unknown_and_told_and_hides_no_failing_check() -> None:
    story = half_killed().end().altered(Kind.NODE_EXITED, lambda _: {"node": 7}, which=0)
    verdict = judged(story)
    assert (verdict.outcome, verdict.training_continued) == (Outcome.UNKNOWN, None)
    assert finding_of(verdict, "record").codes == (Code.RECORD_BROKEN,)
    assert judged(story, FAILS).outcome is Outcome.FAIL


@pytest.mark.deep
def test_a_line_that_lacks_what_its_kind_promises_breaks_no_verdict_and_no_report(
    tmp_path: Path,
) -> None:
    story = Story(learners=2).baseline(2).pause("learner-1", for_s=4).train(4).heal().train(2)
    story.kill("learner-0").train(2).heal(status="weak").train(2).strike("learner-1")
    events = story.skip("learner-1").end(losses=[(100, 3.0)], outcome="aborted").events
    lines = {event.kind: event for event in events}  # the last one of each kind
    for event in lines.values():
        for key in event.data:
            less = {k: v for k, v in event.data.items() if k != key}
            for data in (less, {**less, key: None}, {**less, key: [{}]}):
                history = History([replace(e, data=data) if e is event else e for e in events])
                verdict = judge(history, (PASSES, Rejoin()))
                assert verdict.outcome is not Outcome.PASS
                write_reports(tmp_path, verdict, history)
                record = hints.Record(run="latest", plan="a plan", journal="journal.jsonl")
                assert run_page(read_verdict(tmp_path), history, tmp_path, record=record)


# ---------------------------------------------------------------- how long is long enough


@pytest.mark.parametrize(
    ("checks", "trained_s", "rejoined"),
    [
        ((PASSES,), 9, None),
        ((PASSES,), 30, False),
        ((Rejoin(within_s=20.0),), 9, None),
        ((PASSES, Rejoin(within_s=5.0)), 9, False),
        ((Rejoin(within_s=20.0), Rejoin(within_s=5.0)), 9, False),
    ],
)
def test_the_bound_of_the_rejoin_check_or_thirty_seconds_say_who_had_its_chance(
    checks: tuple[Check, ...], trained_s: float, rejoined: bool | None
) -> None:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(trained_s)
    verdict = judged(story.finish("interrupted"), *checks)
    assert verdict.learners_rejoined["learner-1"].rejoined is rejoined


# ---------------------------------------------------------------- blindness


def test_victims_that_never_come_back_fail_the_run_by_name() -> None:
    story = Story().baseline().kill("learner-1", "learner-3").train(6).heal(restarts=False)
    verdict = judged(story.train(40).end(), Continuity(), Rejoin())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.FAIL, ExitCode.FAIL)
    assert finding_of(verdict, "rejoin").culprits == ("learner-1", "learner-3")
    assert not verdict.learners_rejoined["learner-1"].rejoined
    assert verdict.training_continued is True


# ---------------------------------------------------------------- verdict.json


@pytest.mark.parametrize(
    "story",
    [
        half_killed().strike("learner-2").train(2).skip("learner-0").end(),
        half_killed().kill("learner-0").train(6).heal().finish("interrupted"),
    ],
    ids=["whole", "cut short"],
)
def test_the_json_obeys_its_schema_and_survives(story: Story) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    verdict = judged(story, *(check() for name, check in CHECKS.items() if name not in ELSEWHERE))
    written = json.loads(encode(verdict.to_json()))
    jsonschema.validate(written, schema())
    assert Verdict.from_json(written) == verdict


def test_something_else_than_a_verdict_is_refused() -> None:
    with pytest.raises(MalformedEvent, match="exit_code"):
        Verdict.from_json({"outcome": "PASS", "schema_version": SCHEMA_VERSION})
    with pytest.raises(MalformedEvent):
        Verdict.from_json([])
