"""A verdict as a page shows it."""

import json
from typing import Any

from chaoslab.checks.verdict import judge
from chaoslab.core.events import encode
from chaoslab.report.web.verdict import verdict_data
from tests.histories import Story, half_killed
from tests.report.web.stories import judged, whole_story


def shown(story: Story) -> Any:
    history = story.history()
    return json.loads(encode(verdict_data(judged(history), history)))


def test_a_fail_is_explained_by_the_finding_that_decided_it_and_its_journal_lines() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False)
    data = shown(story.train(40).settle().end())
    first = data["findings"][0]
    assert data["outcome"] == first["outcome"] == "FAIL"
    assert data["sentence"].startswith(f"{first['check']}: ")
    rejoin = next(one for one in data["findings"] if one["check"] == "rejoin")
    event = story.events[rejoin["evidence"][0]]
    *about, text = data["lines"][str(event.seq)]
    assert (about, json.loads(text)) == ([event.time_s, event.kind, event.source], event.data)
    (row,) = data["clocks"]
    assert (row["down_s"], row["first_contribution_s"]) == (6, None)
    (row,) = shown(Story().baseline().kill("learner-1", for_s=None).train(6).end())["clocks"]
    assert row["joined_s"] is None


def test_each_fault_has_its_evidence_with_what_was_asked_and_measured() -> None:
    kill, cut = shown(whole_story())["injections"]
    assert kill["status"] == "proved"
    assert kill["requested"]["learner-1"] == {"for_s": 6.0}
    assert kill["measured"]["learner-1"] == {"for_s": 6.01}
    assert kill["trigger"].startswith("at ")
    assert cut["targets"] == ["learner-1"]
    assert cut["healing_s"] - cut["from_s"] == 5


def test_the_clocks_of_a_return_follow_each_other() -> None:
    rows = shown(half_killed().end())["clocks"]
    assert [row["node"] for row in rows] == ["learner-1", "learner-3"]
    for row in rows:
        assert row["down_s"] == 6
        clocks = [row[f"{name}_s"] for name in ("up", "joined", "first_step", "first_contribution")]
        assert all(one is not None for one in clocks)
        assert row["up_s"] <= row["joined_s"] <= row["first_contribution_s"]


def test_a_syncer_that_was_away_has_a_row_for_itself_and_for_each_learner_that_lost_it() -> None:
    story = Story().baseline().lose_syncer().stall(6).regain_syncer(starts_s=1).train(10)
    rows = shown(story.settle().end())["clocks"]
    assert (rows[0]["node"], rows[0]["up_s"]) == ("syncer", 1)
    assert {row["node"] for row in rows[1:]} == {f"learner-{n}" for n in range(4)}
    assert all(row["first_contribution_s"] >= row["joined_s"] >= 1 for row in rows[1:])


def test_the_ledger_adds_up_also_if_the_plan_does_not_expect_it() -> None:
    history = half_killed().end().history()
    for verdict in (judged(history), judge(history, [])):
        ledger: Any = verdict_data(verdict, history)["ledger"]
        parts = ("committed", "discarded", "in_flight", "lost")
        assert sum(ledger[f"{part}_tokens"] for part in parts) == ledger["raw_tokens"] > 0


def test_a_finding_that_names_thousands_of_lines_shows_some_and_counts_all() -> None:
    data = shown(whole_story())
    assert len(data["lines"]) <= 100
    assert all(len(one["evidence"]) <= 8 for one in data["findings"])
    assert all(one["evidence_count"] >= len(one["evidence"]) for one in data["findings"])
