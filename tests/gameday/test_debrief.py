"""The debrief of a game-day, and what it leaves to be done."""

import re
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.gameday.debrief import actions_page, debrief_page, write_debrief
from chaoslab.gameday.markdown import safe
from chaoslab.gameday.timeline import timeline
from chaoslab.plan.model import FaultPlan, GameDay
from tests import hostile
from tests.gameday.stories import HALF, Day, begun, judged, plan_of, spec_of
from tests.histories import Story

PLACE = Path("runs/a_story/20261120T050742Z-3f9a1c")


def page_of(story: Story, plan: FaultPlan | None = None) -> str:
    return debrief_page(PLACE, *judged(story), plan or plan_of())


def actions_of(story: Story) -> str:
    return actions_page(*judged(story), plan_of())


def section(page: str, title: str) -> list[str]:
    """The lines below a heading, without empty ones."""
    _, _, rest = page.partition(f"# {title}\n")
    body = re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [line for line in body.splitlines() if line]


def rows(page: str, title: str) -> list[str]:
    """Those of the table below a heading, without its head."""
    return [line for line in section(page, title) if line.startswith("| ")][2:]


def whole() -> Day:
    """All that a game-day can have, and nothing goes wrong."""
    day = begun().predicts("Bo", continues=True, gap_s=0.5, hit=["learner-1"], back_s=1.0)
    day.predicts("Cy", continues=False, back_s=9.0).train(3).killed().train(2)
    return day.notes("Bo", "two are gone", HALF).train(4).heal().over()


def skipped() -> Day:
    return begun().predicts("Bo", continues=True).train(2).left_out("Bo", reason="late").train(9)


# ---------------------------------------------------------------- debrief.md


def test_the_verdict_and_its_two_questions_come_first() -> None:
    assert page_of(whole()).splitlines()[:7] == [
        "# Debrief of a game-day: a story",
        "",
        "PASS, exit code 0; seed 7, fleet none, 49.0 s.",
        "",
        "| question | answer |  |",
        "| --- | --- | --- |",
        "| Did training continue? | yes | longest gap 0.25 s, at 5.00 s |",
    ]


def test_each_fault_has_a_row() -> None:
    assert rows(page_of(whole()), "Faults") == [
        (
            "| half-dies (process.kill on learner-1, learner-3) | Training goes on. | 3.00 s "
            "| Ann: go | 8.00 s | 14.0 s | proved |"
        )
    ]


def test_a_skipped_fault_has_a_row_without_times() -> None:
    page = page_of(skipped().end())
    assert rows(page, "Faults") == [
        "| half-dies (process.kill) | Training goes on. | 2.00 s | Bo: skip (late) | never |  |  |"
    ]
    assert rows(page, "Time to notice") == ["| half-dies | not injected |  |"]
    assert section(page, "Surprises") == ["- half-dies: skipped by Bo (late)"]


def test_a_fault_that_nobody_decided_or_that_does_not_wait_has_a_row() -> None:
    plan = plan_of(spec_of(), spec_of("other"), spec_of("early"))
    charter = GameDay(holds=(HALF, "early"))
    day = Day().baseline().opened(charter).waits().acts("Ann", "go", "early")
    day.kill("learner-0", spec="early").kill("learner-2", spec="other").train(6).heal().heal()
    assert rows(page_of(day.train(20).end(), plan), "Faults") == [
        (
            "| half-dies (process.kill) | not written | 26.0 s, to the end of training | nobody "
            "| never |  |  |"
        ),
        (
            "| other (process.kill on learner-2) | not written | it does not wait | the plan "
            "| 5.00 s | 11.0 s | proved |"
        ),
        (
            "| early (process.kill on learner-0) | not written "
            "| not at all: its trigger had not come | Ann: go | 5.00 s | 11.0 s | proved |"
        ),
    ]


def test_predictions_stand_below_what_happened_by_person_and_of_the_team() -> None:
    assert rows(page_of(whole()), HALF) == [
        "| what happened | yes | 0.25 s | learner-1, learner-3 | 1.00 s |  |",
        "| Bo | yes: right | 0.50 s: right | learner-1: 1 of 2 | 1.00 s: right | 3 of 4 |",
        "| Cy | no: wrong |  |  | 9.00 s: wrong | 0 of 2 |",
        "| team | 1 of 2 | 1 of 1 | 0 of 1 | 1 of 2 | 3 of 6 |",
    ]
    assert rows(page_of(whole()), "Score") == ["| Bo | 3 of 4 |", "| Cy | 0 of 2 |",
                                                 "| team | 3 of 6 |"]  # fmt: skip


def test_predictions_of_what_was_not_injected_are_open() -> None:
    page = page_of(skipped().end())
    assert rows(page, HALF)[1:] == [
        "| Bo | yes: open |  |  |  |  |",
        "| team |  |  |  |  |  |",
    ]
    assert rows(page, "Score")[0] == "| Bo | nothing is decided |"


def test_without_predictions_and_notes_the_page_says_so() -> None:
    page = page_of(begun().killed().train(6).heal().over())
    assert section(page, "Predictions") == ["Nobody predicted anything."]
    assert rows(page, "Time to notice") == ["| half-dies | never | nobody |"]


def test_the_time_to_notice_is_that_of_the_first_note() -> None:
    assert rows(page_of(whole()), "Time to notice") == ["| half-dies | 2.00 s | Bo |"]


def test_alarms_notice_too_and_the_rule_says_so() -> None:
    page = page_of(begun().killed().train(3).alarms("Down fires (learner=learner-3)").over())
    assert rows(page, "Time to notice") == ["| half-dies | 3.00 s | alertmanager |"]
    assert "or to the first alarm that began to fire after it" in page
    assert "first alarm" not in page_of(whole())


def test_findings_are_the_checks_that_did_not_pass() -> None:
    assert section(page_of(whole()), "Findings") == ["None: every check passed."]
    day = begun().killed().train(6).heal(restarts=False).train(40).settle().end()
    page = page_of(day)
    names = [line.partition(": ")[0] for line in section(page, "Findings")]
    assert names == ["- FAIL learners_rejoin", "- FAIL rejoin"]


def test_what_most_got_wrong_weak_evidence_and_early_heals_are_surprises() -> None:
    day = begun().predicts("Bo", gap_s=30.0).killed().train(2).acts("Cy", "heal", HALF, "enough")
    assert section(page_of(day.heal(status="weak").over()), "Surprises") == [
        '- half-dies: the only prediction of "longest gap" was wrong; what happened: 0.25 s',
        (
            "- half-dies: evidence weak for 1 of 1: learner-1 was seen to suffer; "
            "learner-3 was seen to suffer"
        ),
        "- half-dies: healed early by Cy after 2.00 s instead of 6 s",
    ]


def test_an_abort_is_a_surprise() -> None:
    day = begun().killed().train(2).acts("Cy", "abort", reason="smoke").heal().cut_short()
    assert section(page_of(day), "Surprises")[-1] == "- aborted by Cy (smoke)"


def test_the_gate_is_a_command_that_repeats_what_was_done() -> None:
    page = page_of(whole())
    gate = f"chaoslab gameday {PLACE} --as-plan gate.yaml\nchaoslab run gate.yaml --fail-on unknown"
    assert f"```sh\n{gate}\n```" in page


# ---------------------------------------------------------------- timeline


def test_the_timeline_tells_what_people_and_faults_did_and_who_came_and_went() -> None:
    lines = [(line.time_s, line.text) for line in timeline(whole().history()).lines]
    assert lines[5:] == [
        (5.0, "half-dies waits for an operator: process.kill (at round 60)"),
        (5.0, ("Bo predicts of half-dies: training goes on; longest gap 0.50 s; hit: learner-1; "
              "back 1.00 s after the heal")),
        (5.0, "Cy predicts of half-dies: training stops; back 9.00 s after the heal"),
        (8.0, "Ann: go half-dies"),
        (8.0, "injection-0 is in: process.kill on learner-1, learner-3"),
        (8.25, "learner-1 (incarnation 1) left (closed), 1 member"),
        (8.25, "learner-3 (incarnation 1) left (closed), 1 member"),
        (10.0, "Bo notes of half-dies: two are gone"),
        (14.0, "injection-0 is healed: process.kill on learner-1, learner-3"),
        (15.0, "learner-1 (incarnation 2) joined, state from learner-0, 1 member"),
        (15.0, "learner-3 (incarnation 2) joined, state from learner-0, 1 member"),
        (49.0, "phase settle"),
        (49.0, "phase stop"),
        (49.0, ("training reached its end (its stop rule is met); it goes on until all are back, "
               "and as many rounds have followed as before the faults")),
        (49.0, "training has ended: 196 rounds"),
        (49.0, "the run is completed"),
    ]  # fmt: skip


def test_stretches_without_a_round_are_told_if_they_are_too_long() -> None:
    day = begun().killed().stall(3).train(3).heal().over()
    silent = [line for line in timeline(day.history()).lines if "no round" in line.text]
    assert [(line.time_s, line.text) for line in silent] == [(5.0, "no round is merged for 3.25 s")]


def test_a_long_timeline_loses_its_members_first_and_then_its_middle() -> None:
    history = whole().history()
    few = timeline(history, most=17)
    assert (len(few.lines), few.left_out) == (17, ("4 lines of members that join or leave",))
    least = timeline(history, most=4)
    assert [line.text for line in least.lines][1:3] == [
        "phase start",
        "training has ended: 196 rounds",
    ]
    assert least.left_out[1] == "13 lines between less than 0.01 s and 49.0 s"
    day = begun()
    for number in range(100):
        day.notes("Bo", f"note {number}")
    page = page_of(day.train(9).end())
    assert len(rows(page, "Timeline")) == 80
    assert "Left out: 30 lines between 5.00 s and 5.00 s." in section(page, "Timeline")


# ---------------------------------------------------------------- actions.md


def test_actions_are_to_be_filled_in_for_each_finding_and_surprise() -> None:
    day = begun().predicts("Bo", gap_s=30.0).killed().train(6).heal(restarts=False)
    lines = actions_of(day.train(40).settle().end()).splitlines()
    assert lines[4:6] == [
        "| number | finding or surprise | action | owner | due |",
        "| --- | --- | --- | --- | --- |",
    ]
    assert lines[7].startswith("| 2 | finding: FAIL rejoin: ")
    assert lines[7].endswith(" |  | Infra |  |")
    assert lines[-1] == (
        '| 3 | surprise: half-dies: the only prediction of "longest gap" was wrong; '
        "what happened: 0.25 s |  | Infra |  |"
    )


def test_without_findings_and_surprises_there_is_nothing_to_do() -> None:
    assert actions_of(begun().killed().train(6).heal().over()).splitlines()[2:] == [
        "Nothing to follow up: no finding, and nothing surprised the room."
    ]


# ---------------------------------------------------------------- files, broken records, hostility


def test_both_are_written_into_the_directory_of_the_run(tmp_path: Path) -> None:
    history, verdict = judged(whole())
    debrief, actions = write_debrief(tmp_path, history, verdict, plan_of())
    assert (debrief, actions) == (tmp_path / "debrief.md", tmp_path / "actions.md")
    assert debrief.read_text() == debrief_page(tmp_path, history, verdict, plan_of())
    assert actions.read_text() == actions_page(history, verdict, plan_of())
    with pytest.raises(FleetError, match="cannot be written"):
        write_debrief(tmp_path / "gone", history, verdict, plan_of())


def test_a_run_that_never_opened_its_charter_takes_that_of_the_plan() -> None:
    day = Day().baseline().killed().train(6).heal().over()
    assert " | Training goes on. | " in rows(page_of(day), "Faults")[0]
    assert "| Infra |" in actions_of(Day().baseline().acts("Bo", "abort").cut_short())


@pytest.mark.parametrize("kind", [Kind.OPERATOR_ACTED, Kind.GAMEDAY_OPENED, Kind.MEMBER_LEFT])
def test_a_broken_line_leaves_what_the_verdict_says(kind: Kind) -> None:
    day = whole()
    day.events[day.last(kind).seq].data.clear()  # type: ignore[attr-defined]
    page = page_of(day)
    assert "A line of the record is broken, so nothing more can be told" in page
    assert "## Findings" in page
    assert actions_of(day)


def test_what_people_type_stays_words(tmp_path: Path) -> None:
    for word in hostile.words(tmp_path / "canary"):
        text = (
            f"{word} | <img src=x onerror=y> | [a](javascript:b) ![c](d) `e` \x1b[2J\n\n# f\n| g |"
        )
        day = begun().predicts(text, continues=False).acts(text, "go", HALF, text)
        day.killed().train(2).notes(text, f"{HALF} {text}").train(4).heal().over()
        pages = (page_of(day), actions_of(day))
        for page in pages:
            assert not re.search(r"<(?!br)|(?<!\\)[\[\]]|\x1b|^# f|^\| g", page, re.MULTILINE)
        cells = {len(re.split(r"(?<!\\)\|", line)) for line in rows(pages[0], HALF)}
        assert cells == {8}, "six columns, and what is outside"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b\n\tc", "a\\|b c"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("[a](b) `c` *d* ~e~ \\", "\\[a\\](b) \\`c\\` \\*d\\* \\~e\\~ \\\\"),
        ("half_dies _so_ __init__", "half_dies \\_so\\_ \\_\\_init\\_\\_"),
        ("# heading", "\\# heading"),
        ("- item", "\\- item"),
        ("1. first", "1\\. first"),
        ("1.5 s - 2 + 3 = #4", "1.5 s - 2 + 3 = #4"),
        ("\x1b[31mred\u202e", "\N{REPLACEMENT CHARACTER}\\[31mred\N{REPLACEMENT CHARACTER}"),
        ("", ""),
    ],
)
def test_text_is_shown_as_it_is_and_never_read_as_markup(text: str, shown: str) -> None:
    assert safe(text) == shown
