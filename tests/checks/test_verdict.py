"""The verdict: FAIL beats UNKNOWN beats PASS, and nothing passes without proof."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.codes import Code
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import Verdict, judge, schema
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json, Kind, MalformedEvent, encode
from chaoslab.record.journal import History
from chaoslab.report import hints
from chaoslab.report.files import read_verdict, write_reports
from chaoslab.report.page import run_page
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


ELSEWHERE = frozenset({"succession", "join", "checkpoints", "repairs"})
"""Checks of what is not in the story: outages of the syncer, joins, checkpoints, lost slices."""
PASSES, FAILS, DOUBTS = Always(), Always(outcome=Outcome.FAIL), Always(outcome=Outcome.UNKNOWN)


def judged(story: Story, *expect: Check) -> Verdict:
    return judge(story.history(), expect or (PASSES,))


def finding_of(verdict: Verdict, check: str) -> Finding:
    return next(finding for finding in verdict.findings if finding.check == check)


# ---------------------------------------------------------------- the order of outcomes


def test_a_sound_run_passes_every_check_of_the_catalogue() -> None:
    losses = [(1000, 4.0), (9000, 3.0)]
    story = half_killed().end(losses=losses)
    story.control = Story().baseline().train(30).end(losses=losses)
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


def test_a_baseline_that_was_not_steady_caps_at_unknown() -> None:
    verdict = judged(Story().baseline(is_steady=False).train(9).end())
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding_of(verdict, "baseline").codes == (Code.BASELINE_NOT_STEADY,)


def test_a_baseline_that_was_never_measured_caps_at_unknown() -> None:
    assert judged(Story().start().train(9).end()).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("status", ["weak", "failed"])
def test_a_fault_that_is_not_proved_caps_at_unknown_and_is_named(status: str) -> None:
    story = Story().baseline().kill("learner-1", spec="one-dies").train(6).heal(status=status)
    verdict = judged(story.train(9).end())
    assert verdict.outcome is Outcome.UNKNOWN
    finding = finding_of(verdict, "evidence")
    assert Code.NOT_PROVED in finding.codes
    assert all(part in finding.reason for part in ("one-dies", status, "learner-1"))
    assert verdict.injections[0].status == status


def test_a_code_that_another_package_brought_is_read_without_it() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(status="weak").train(9).end()
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"code": "toy.woke_early"})
    assert finding_of(judged(story), "evidence").codes == ("not_proved", "toy.woke_early")


def test_evidence_on_some_targets_only_is_not_enough() -> None:
    story = (
        half_killed()
        .end()
        .without(Kind.EVIDENCE_MEASURED, lambda event: event.payload.target == "learner-3")
    )
    verdict = judged(story)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "learner-3" in finding_of(verdict, "evidence").reason


def test_a_fault_that_could_not_be_carried_out_caps_at_unknown() -> None:
    story = Story().baseline().touch("learner-1").say(
        Kind.FAULT_FAILED, injection="injection-0", fault="compute.steal", spec="touch",
        targets=["learner-1"], reason="the process was gone",
    )  # fmt: skip
    verdict = judged(story.train(9).end())
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding_of(verdict, "evidence").codes == (Code.NOT_INJECTED,)


def test_a_plan_whose_faults_were_never_injected_is_unknown() -> None:
    verdict = judged(Story().baseline().train(9).skip("learner-1").end())
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding_of(verdict, "evidence").codes == (Code.NOT_INJECTED,)


def test_a_failing_check_still_fails_when_the_evidence_is_missing() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(status="failed").train(9).end()
    assert judged(story, FAILS).outcome is Outcome.FAIL


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
    verdict = judged(half_killed().finish(ending, "because"))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, code)
    assert finding_of(verdict, "run").codes == (Code.RUN_CUT_SHORT,)


def test_a_third_partys_kill_fails_whatever_the_plan_expects() -> None:
    verdict = judged(half_killed().strike("learner-2").train(2).end())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.FAIL, ExitCode.FAIL)
    assert finding_of(verdict, "unasked").culprits == ("learner-2",)


def test_training_that_ended_because_somebody_asked_the_syncer_is_unknown() -> None:
    asked: dict[str, Json] = {"was_asked": True, "reason": "the syncer was asked to end"}
    verdict = judged(half_killed().end().altered(Kind.SYNCER_FINAL, lambda _: asked))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.UNKNOWN)
    assert finding_of(verdict, "stop").codes == (Code.STOPPED_BY_REQUEST,)
    assert judged(half_killed().end()).outcome is Outcome.PASS


def test_a_run_that_was_cut_short_asks_its_own_syncer_to_end() -> None:
    story = half_killed().end(outcome="interrupted")
    verdict = judged(story.altered(Kind.SYNCER_FINAL, lambda _: {"was_asked": True}))
    assert [f.check for f in verdict.findings if f.outcome is not Outcome.PASS] == ["run"]


def test_residue_is_listed_and_ends_with_the_code_of_a_broken_harness() -> None:
    left: dict[str, Json] = {"what": "process 4711", "where": "here", "remedy": "chaoslab heal"}
    verdict = judged(half_killed().end().say(Kind.RESIDUE_FOUND, **left))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.BROKEN)
    assert verdict.residue == (left,)


def test_an_undo_that_is_open_when_the_run_is_over_is_residue() -> None:
    left: dict[str, Json] = {"what": "undo 3 (end_process)", "where": "here", "remedy": "heal"}
    events = half_killed().end().events
    over = judge(History(events, left_open=[left]), [PASSES])
    assert (over.outcome, over.exit_code) == (Outcome.UNKNOWN, ExitCode.BROKEN)
    assert over.residue == (left,)
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


def test_a_record_from_before_refused_lines_were_counted_is_judged() -> None:
    story = half_killed().end()
    for event in [event for event in story.events if event.kind is Kind.NODE_EXITED]:
        data = {key: value for key, value in event.data.items() if key != "refused_lines"}
        story.events[event.seq] = replace(event, data=data)
    assert judged(story).outcome is Outcome.PASS


def test_a_record_that_breaks_off_anywhere_is_unknown() -> None:
    story = half_killed().end()
    checks = [check() for check in CHECKS.values()]
    for length in [*range(0, len(story.events), 297), len(story.events) - 1]:
        verdict = judge(story.history(until=length), checks)
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
    ("checks", "rejoined"),
    [
        ((PASSES,), None),
        ((Rejoin(within_s=20.0),), None),
        ((PASSES, Rejoin(within_s=5.0)), False),
        ((Rejoin(within_s=20.0), Rejoin(within_s=5.0)), False),
    ],
)
def test_the_bound_of_the_rejoin_check_says_who_had_its_chance(
    checks: tuple[Check, ...], rejoined: bool | None
) -> None:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(9)
    verdict = judged(story.finish("interrupted"), *checks)
    assert verdict.learners_rejoined["learner-1"].rejoined is rejoined


def test_without_a_rejoin_check_thirty_seconds_are_a_chance() -> None:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(30)
    assert judged(story).learners_rejoined["learner-1"].rejoined is False


# ---------------------------------------------------------------- entries of the plan


def with_entries(story: Story, **injections: int) -> Story:
    listed: list[Json] = [
        {"spec": spec, "fault": "process.kill", "injections": n} for spec, n in injections.items()
    ]
    return story.altered(Kind.RUN_STARTED, lambda _: {"entries": listed})


def test_an_entry_of_which_chance_drew_nothing_caps_at_unknown_and_is_named() -> None:
    verdict = judged(with_entries(half_killed().end(), die=1, crashes=0))
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding_of(verdict, "entries").culprits == ("crashes",)


def test_entries_that_took_place_say_nothing_and_doubts_are_named_once() -> None:
    assert judged(with_entries(half_killed().end(), die=1)).outcome is Outcome.PASS
    skipped = judged(with_entries(half_killed().skip("learner-0").end(), die=1, late=1))
    assert [f.check for f in skipped.findings if f.outcome is Outcome.UNKNOWN] == ["evidence"]


# ---------------------------------------------------------------- blindness


def test_victims_that_never_come_back_fail_the_run_by_name() -> None:
    story = Story().baseline().kill("learner-1", "learner-3", for_s=None).train(40).prove().end()
    verdict = judged(story, Continuity(), Rejoin())
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
    with pytest.raises(MalformedEvent, match="learners_rejoined"):
        Verdict.from_json({"outcome": "PASS"})
    with pytest.raises(MalformedEvent, match="JSON object"):
        Verdict.from_json([])


def test_a_host_whose_disk_was_full_leaves_a_doubt_that_names_it() -> None:
    full = {"host": "10.0.0.3", "file": "spool.jsonl", "reason": "No space left on device"}
    told = (
        half_killed()
        .say(Kind.DISK_BLOCKED, **full)
        .say(Kind.DISK_FREED, host="10.0.0.3", blocked_s=4.0)
    )
    verdict = judged(told.end())
    assert verdict.outcome is Outcome.UNKNOWN
    (finding,) = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
    assert (finding.check, finding.culprits) == ("disks", ("10.0.0.3",))


def test_a_host_that_was_out_of_reach_is_told_and_is_no_fault_of_the_training() -> None:
    away = {"silent_s": 4.0, "since_s": 31.0, "undone": [], "host": "the API server of prod"}
    verdict = judged(half_killed().say(Kind.HARNESS_STALLED, **away).end())
    assert verdict.outcome is Outcome.PASS
    (finding,) = [one for one in verdict.findings if one.check == "contact"]
    assert (finding.outcome, finding.observed, finding.unit) == (Outcome.PASS, 4.0, "s")
    assert "the API server of prod" in finding.reason
    stood_still = {**away, "host": ""}
    verdict = judged(half_killed().say(Kind.HARNESS_STALLED, **stood_still).end())
    assert all(one.check != "contact" for one in verdict.findings)


def test_a_janitor_that_nobody_replaced_leaves_a_doubt_and_one_that_was_replaced_none() -> None:
    died = {"pid": 7, "how": "signal 9", "reason": ""}
    replaced = judged(half_killed().say(Kind.JANITOR_DIED, successor=8, **died).end())
    assert replaced.outcome is Outcome.PASS
    told = half_killed().say(Kind.JANITOR_DIED, successor=None, **{**died, "reason": "no room"})
    verdict = judged(told.end())
    assert verdict.outcome is Outcome.UNKNOWN
    (finding,) = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
    assert (finding.check, finding.outcome) == ("unguarded", Outcome.UNKNOWN)
    assert finding.culprits == ("janitor",)


@pytest.mark.parametrize("reason", ["learner-2 still ran", "the evaluator failed: exit code 3"])
def test_a_completed_run_that_did_not_end_as_it_should_is_unknown(reason: str) -> None:
    verdict = judged(half_killed().end().altered(Kind.RUN_FINISHED, lambda _: {"reason": reason}))
    assert (verdict.outcome, verdict.findings[0].check) == (Outcome.UNKNOWN, "run")
    assert reason in verdict.findings[0].reason


def test_a_syncer_that_never_said_that_training_had_ended_is_unknown() -> None:
    verdict = judged(half_killed().end().without(Kind.SYNCER_STOPPED))
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.findings[0].codes == (Code.STOP_NOT_SAID,)


def test_a_syncer_that_ended_training_by_itself_while_faults_were_to_come_is_unknown() -> None:
    entries: Json = [{"spec": "die", "fault": "process.kill", "injections": 1}]
    story = half_killed().end().altered(Kind.RUN_STARTED, lambda _: {"entries": entries})
    assert judged(story).outcome is Outcome.PASS
    verdict = judged(story.without(Kind.SYNCER_HELD))
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.findings[0].codes == (Code.STOP_NOT_SAID,)


def test_a_fault_that_began_when_training_had_ended_is_a_doubt() -> None:
    story = half_killed().end().kill("learner-2").prove().finish()
    finding = finding_of(judged(story), "evidence")
    assert finding.outcome is Outcome.UNKNOWN
    assert Code.INJECTED_TOO_LATE in finding.codes


@pytest.mark.parametrize("kept", [0, 4])
def test_rounds_to_which_nobody_contributed_do_not_continue_training(kept: int) -> None:
    story = half_killed().end()
    for merged in [event for event in story.events if event.kind is Kind.ROUND_MERGED]:
        if merged.time_s > 20.0:
            idle = [{**dict(one), "c_tokens": 0} for one in merged.data["contributors"][:kept]]
            story.events[merged.seq] = replace(merged, data={**merged.data, "contributors": idle})
    verdict = judged(story)
    assert verdict.training_continued is False
    assert verdict.outcome is Outcome.FAIL
