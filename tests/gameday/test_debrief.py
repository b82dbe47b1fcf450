"""The debrief of a game-day, and what it leaves to be done."""

import re
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.gameday.debrief import actions_page, debrief_page, write_debrief
from chaoslab.gameday.markdown import as_html, safe
from chaoslab.gameday.timeline import timeline
from chaoslab.plan.model import FaultPlan, GameDay
from chaoslab.report.web.page import article
from tests import hostile
from tests.chromium import Browser
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


def test_the_verdict_and_the_gate_stand_on_the_page() -> None:
    page = page_of(whole())
    assert "\nPASS, exit code 0; seed 7," in page
    assert "| yes | longest gap 0.25 s, at 5.00 s |" in page
    assert f"\nchaoslab gameday {PLACE} --as-plan gate.yaml\nchaoslab run gate.yaml " in page


@pytest.mark.deep
def test_in_a_browser_it_is_dark_where_the_system_is_and_fits_a_phone(tmp_path: Path) -> None:
    file = tmp_path / "debrief.html"
    file.write_text(article("Debrief", as_html(page_of(whole()))))
    papers = set()
    with Browser() as browser:
        for is_dark in (True, False):
            page = browser.open(file, width=360, is_dark=is_dark)
            assert page.js("document.documentElement.scrollWidth") <= 360
            papers.add(page.js("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


def test_each_fault_has_a_row_whether_it_was_injected_skipped_or_never_waited() -> None:
    (row,) = rows(page_of(whole()), "Faults")
    assert row == (
        "| half-dies (process.kill on learner-1, learner-3) | Training goes on. | 3.00 s "
        "| Ann: go | 8.00 s | 14.0 s | proved |"
    )
    page = page_of(skipped().end())
    (row,) = rows(page, "Faults")
    assert row.endswith("| 2.00 s | Bo: skip (late) | never |  |  |")
    assert rows(page, "Time to notice") == ["| half-dies | not injected |  |"]
    assert rows(page_of(whole()), "Time to notice") == ["| half-dies | 2.00 s | Bo |"]
    plan = plan_of(spec_of(), spec_of("other"), spec_of("early"))
    charter = GameDay(holds=(HALF, "early"))
    day = Day().baseline().opened(charter).waits().acts("Ann", "go", "early")
    day.kill("learner-0", spec="early").kill("learner-2", spec="other").train(6).heal().heal()
    half, other, early = rows(page_of(day.train(20).end(), plan), "Faults")
    assert half.endswith("| 26.0 s, to the end of training | no operator | never |  |  |")
    assert other.endswith("| the plan | 5.00 s | 11.0 s | proved |")
    assert early.endswith("| Ann: go | 5.00 s | 11.0 s | proved |")


def test_predictions_stand_below_what_happened_by_person_and_of_the_team() -> None:
    assert rows(page_of(whole()), HALF) == [
        "| what happened | yes | 0.25 s | learner-1, learner-3 | 1.00 s |  |",
        "| Bo | yes: right | 0.50 s: right | learner-1: 1 of 2 | 1.00 s: right | 3 of 4 |",
        "| Cy | no: wrong |  |  | 9.00 s: wrong | 0 of 2 |",
        "| team | 1 of 2 | 1 of 1 | 0 of 1 | 1 of 2 | 3 of 6 |",
    ]
    assert rows(page_of(whole()), "Score") == ["| Bo | 3 of 4 |", "| Cy | 0 of 2 |",
                                                 "| team | 3 of 6 |"]  # fmt: skip


def test_findings_and_surprises_are_told_and_are_to_be_followed_up() -> None:
    assert "| 1 |" not in actions_of(begun().killed().train(6).heal().over())
    day = begun().predicts("Bo", gap_s=30.0).killed().train(2).acts("Cy", "heal", HALF, "enough")
    day.heal(restarts=False, status="weak").train(40).settle().end()
    names = [line.partition(": ")[0] for line in section(page_of(day), "Findings")]
    assert {"- FAIL learners_rejoin", "- FAIL rejoin"} <= set(names)
    surprises = section(page_of(day), "Surprises")
    for said, part in zip(surprises, ("longest gap", "learner-3", "by Cy after"), strict=True):
        assert part in said
    lines = re.findall(r"^\| \d.* \|  \| Infra \|  \|$", actions_of(day), re.MULTILINE)
    assert len(lines) == len(names) + 3


@pytest.mark.parametrize(
    ("day", "said"),
    [
        (skipped().end(), "skipped by Bo (late)"),
        (begun().killed().train(2).acts("Cy", "abort", reason="smoke").heal().cut_short(),
         "aborted by Cy (smoke)"),
    ],
)  # fmt: skip
def test_a_skip_and_an_abort_are_surprises(day: Day, said: str) -> None:
    assert section(page_of(day), "Surprises")[-1].endswith(said)


# ---------------------------------------------------------------- timeline


def test_the_timeline_tells_what_people_and_faults_did_and_who_came_and_went() -> None:
    told = timeline(begun().killed().stall(3).train(3).heal().over().history()).lines
    told += timeline(whole().history()).lines
    for time_s, parts in (
        (5.0, ("no round", "3.25 s")),
        (5.0, ("half-dies", "round 60")),
        (5.0, ("Bo", "half-dies", "0.50 s", "learner-1", "1.00 s")),
        (5.0, ("Cy", "stops", "9.00 s")),
        (8.0, ("Ann: go half-dies",)),
        (8.0, ("injection-0", "process.kill", "learner-1, learner-3")),
        (8.25, ("learner-1 (incarnation 1) left",)),
        (10.0, ("Bo", "two are gone")),
        (14.0, ("injection-0 is healed",)),
        (15.0, ("learner-3 (incarnation 2) joined", "from learner-0")),
        (49.0, ("196 rounds",)),
    ):
        now = [line.text for line in told if line.time_s == time_s]
        assert any(all(part in text for part in parts) for text in now), parts


def test_a_long_timeline_loses_its_members_first_and_then_its_middle() -> None:
    history = whole().history()
    few = timeline(history, most=18)
    assert (len(few.lines), few.left_out) == (18, ("4 lines of members that join or leave",))
    least = timeline(history, most=4)
    assert (len(least.lines), least.lines[-1].time_s) == (4, history.end_s)
    assert least.left_out[1].startswith("14 lines ")
    day = begun()
    for number in range(100):
        day.notes("Bo", f"note {number}")
    assert len(rows(page_of(day.train(9).end()), "Timeline")) == 80


def test_the_timeline_tells_who_contributes_again_and_after_how_long() -> None:
    told = [line for line in timeline(whole().history()).lines if "contributes again" in line.text]
    assert [line.time_s for line in told] == [15.0]
    assert "learner-1 after 1.00 s, learner-3 after 1.00 s" in told[0].text


# ---------------------------------------------------------------- in a browser


def test_the_debrief_for_a_browser_has_the_same_tables_and_loads_nothing(tmp_path: Path) -> None:
    story = whole()
    paths = write_debrief(tmp_path, *judged(story), plan_of())
    assert [path.name for path in paths] == ["debrief.md", "debrief.html", "actions.md"]
    text = (tmp_path / "debrief.html").read_text()
    lines = [line for line in paths[0].read_text().splitlines() if line.startswith("| ")]
    assert text.count("<tr>") == sum(not line.startswith("| ---") for line in lines)
    assert "<h2>Timeline</h2>" in text
    assert "default-src 'none'" in text
    assert not re.search("<(script|img|a) |https?:", text)


# ---------------------------------------------------------------- files, broken records, hostility


def test_a_run_that_never_opened_its_charter_takes_that_of_the_plan() -> None:
    day = Day().baseline().killed().train(6).heal().over()
    assert " | Training goes on. | " in rows(page_of(day), "Faults")[0]
    assert "| Infra |" in actions_of(Day().baseline().acts("Bo", "abort").cut_short())


@pytest.mark.parametrize("kind", [Kind.OPERATOR_ACTED, Kind.GAMEDAY_OPENED, Kind.MEMBER_LEFT])
def test_a_broken_line_leaves_what_the_verdict_says(kind: Kind) -> None:
    day = whole()
    day.events[day.last(kind).seq].data.clear()  # type: ignore[attr-defined]
    page = page_of(day)
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
        assert not re.search("<(img|a|script)", as_html(pages[0]))
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
