"""What a page draws, folded from events alone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from chaoslab.core.events import Event, Kind, encode
from chaoslab.report.story import RunStory
from chaoslab.report.web.picture import live_data, losses_data, run_data
from tests.histories import Story, half_killed
from tests.report.web.stories import whole_story


def drawn(events: Sequence[Event]) -> Any:
    """As the page gets it."""
    return json.loads(encode(run_data(RunStory.of(events))))


def lane(data: Any, node: str) -> Any:
    return next(one for one in data["lanes"] if one["node"] == node)


def lost_syncer() -> Story:
    return Story().baseline().lose_syncer().stall(6).regain_syncer().train(10).settle().end()


def blocked(*, is_snapshot: bool) -> Story:
    """A disk refuses the state of the syncer for two seconds."""
    story, how = Story().baseline(), {"waiting": 0, "is_snapshot": is_snapshot}
    story.say(Kind.SYNCER_BLOCKED, reason="no space", **how).train(2)
    return story.say(Kind.SYNCER_FREED, blocked_s=2.0, **how).train(2).end()


@pytest.mark.parametrize(
    ("story", "node", "shown"),
    [
        (half_killed().end(), "learner-1", "stepping, dead, rejoining, stepping, ended"),
        (half_killed().end(), "learner-0", "starting, compiling, stepping, ended"),
        (lost_syncer(), "syncer", "starting, serving, dead, starting, serving, ended"),
        (blocked(is_snapshot=False), "syncer", "starting, serving, blocked, serving, ended"),
        (blocked(is_snapshot=True), "syncer", "starting, serving, ended"),
    ],
)
def test_a_lane_shows_what_a_node_did_and_the_syncer_has_the_first(
    story: Story, node: str, shown: str
) -> None:
    data = drawn(story.history().events)
    assert data["lanes"][0]["node"] == "syncer"
    assert ", ".join(state for _, state, _ in lane(data, node)["spans"]).endswith(shown)


def test_of_learners_that_were_dead_lives_buckets_tokens_and_losses_are_told() -> None:
    data = drawn(half_killed().end().history().events)
    assert [life for _, _, life in lane(data, "learner-1")["spans"]][-3:] == [2, 2, 2]
    assert data["victims"] == ["learner-1", "learner-3"]
    assert all(data["losses"][whose]["mean"] for whose in ("victims", "survivors"))
    width_s, fault = data["marks_width_s"], data["faults"][0]
    flat = lane(data, "learner-1")["contributed"]
    worked = {at for first, length in zip(flat[::2], flat[1::2], strict=True)
              for at in range(first, first + length)}  # fmt: skip
    dead = range(int(fault["from_s"] / width_s) + 1, int(fault["healing_s"] / width_s))
    assert not worked & set(dead)
    assert len(worked) > len(dead) > 0
    tokens = data["tokens"]
    middle = int((fault["from_s"] + fault["healing_s"]) / 2 / tokens["width_s"])
    assert 0.4 < tokens["committed"][middle] / data["baseline"]["tokens_per_s"] < 0.6
    assert tokens["raw"][middle] >= tokens["committed"][middle] * 0.9


def test_the_longest_gap_is_in_the_curve_of_gaps_and_the_last_one_is_open() -> None:
    story = Story().baseline().train(5).stall(4).train(5).stall(3).end()
    rounds = drawn(story.history().events)["rounds"]
    assert max(gap for gap in rounds["gap_s"] if gap) == 4.25
    assert rounds["open_s"] == 3.0


def test_what_a_fault_asked_of_a_link_has_a_beginning_and_an_end() -> None:
    data = drawn(whole_story().history().events)
    (row,) = data["links"]["rows"]
    assert row["link"] == "learner-1"
    assert [cut for *_, cut in row["asked"]] == [True, False]
    assert data["links"]["others"]["number"] == 3


def test_the_asked_rate_is_the_tightest_and_delays_add_up() -> None:
    story = Story().baseline().touch("learner-0", fault="network.shape")
    for effect, direction, settings in (
        ("bandwidth", "both", {"rate_bytes_per_s": 80_000.0}),
        ("bandwidth", "up", {"rate_bytes_per_s": 20_000.0}),
        ("latency", "both", {"mean_s": 0.12}),
        ("latency", "down", {"mean_s": 0.01}),
    ):
        story.say(Kind.LINK_SHAPED, link="learner-0", injection="injection-0", effect=effect,
                  direction=direction, settings=settings)  # fmt: skip
    story.train(2).say(Kind.LINK_CLEARED, link="learner-0", injection="injection-0")
    (row,) = drawn(story.events)["links"]["rows"]
    assert row["asked"][-2][1:] == [20, 80, 250, False]
    assert row["asked"][-1][1:] == [None, None, 0, False]


def test_the_network_of_the_plan_itself_is_no_fault_of_a_link() -> None:
    story = Story().start()
    story.say(Kind.LINK_SHAPED, link="learner-0", injection="initial", effect="latency",
              direction="both", settings={"mean_s": 0.02})  # fmt: skip
    assert drawn(story.train(3).events)["links"]["rows"] == []


def test_the_four_counts_are_kept_apart() -> None:
    rows = drawn(whole_story().history().events)["counts"]["rows"]
    assert list(rows) == ["members", "alive", "stepping", "contributing"]
    assert min(value for value in rows["alive"] if value is not None) == 2


def test_a_line_that_lacks_what_its_kind_promises_is_counted_and_passed_over() -> None:
    story = half_killed().without(Kind.PACE_SET)
    story.altered(Kind.ROUND_MERGED, lambda _: {"contributors": "nobody"})
    assert drawn(story.end().history().events)["unreadable"] >= 1


def test_the_losses_of_a_twin_are_those_of_its_whole_picture() -> None:
    twin = whole_story().history().twin
    losses = json.loads(encode(losses_data(RunStory.of(twin.events), ())))
    assert losses["survivors"]["mean"]
    assert losses["evaluated"]
    assert losses == drawn(twin.events)["losses"]


def test_a_part_of_a_run_can_be_drawn() -> None:
    events = whole_story().history().events
    for end in range(0, len(events), 100):
        assert drawn(events[:end])["end_s"] >= 0
    assert not drawn(events[: len(events) // 2])["has_ended"]
    assert drawn(events)["has_ended"]


def test_a_storm_of_restarts_leaves_lanes_of_bounded_length() -> None:
    story = Story().baseline()
    for _ in range(150):
        story.kill("learner-1").train(0.25).heal().train(0.5)
    spans = lane(drawn(story.end().history().events), "learner-1")["spans"]
    assert 10 < len(spans) <= 240
    assert spans[-1][1] == "ended"


def test_a_report_without_steps_has_no_step_time() -> None:
    events = half_killed().end().history().events
    at, step = next((n, one) for n, one in enumerate(events) if one.kind is Kind.LEARNER_STEP)
    empty = Event(
        seq=step.seq, time_s=step.time_s, source=step.source, kind=step.kind,
        data={**step.data, "steps": 0, "step_s": 0.0},
    )  # fmt: skip
    data = drawn([*events[: at + 1], empty, *events[at + 1 :]])
    assert data["step_times"] == drawn(events)["step_times"]


# ---------------------------------------------------------------- while the run goes on


def live(story: Story, over_s: float) -> Any:
    told = RunStory(samples_s=over_s)
    for event in story.events:
        told.see(event)
    return json.loads(encode(live_data(told, over_s)))


def test_of_a_run_that_goes_on_the_last_seconds_are_as_the_page_has_them_later() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(20)
    data, whole = live(story, 10.0), drawn(story.events)
    first = data["first"]
    assert data["from_s"] == first * 0.5 == pytest.approx(story.now_s - 10.0, abs=0.5)
    assert lane(data, "learner-1")["spans"] == lane(whole, "learner-1")["spans"][-1:]
    assert [one["node"] for one in data["lanes"]] == [one["node"] for one in whole["lanes"]]
    assert data["faults"] == [], "it was over before"
    assert len(data["losses"]["survivors"]["mean"]) in {20, 21}
    assert whole["marks_width_s"] == 0.25
    of_both = whole["losses"]["survivors"]["low"][2 * (first + 10) :][:2]
    assert data["losses"]["survivors"]["low"][10] == min(filter(None, of_both))
    assert data["tokens"]["committed"][5] == pytest.approx(
        whole["tokens"]["committed"][2 * (first + 5)], rel=0.1
    )


def test_a_fault_and_the_way_back_are_in_the_curves_while_they_last() -> None:
    data = live(Story().baseline().kill("learner-1").train(3), 4.0)
    assert [one["healed_s"] for one in data["faults"]] == [None]
    assert [state for _, state, _ in lane(data, "learner-1")["spans"]] == ["stepping", "dead"]


def test_samples_of_a_run_that_goes_on_do_not_pile_up() -> None:
    told = RunStory(samples_s=5.0)
    for event in Story().baseline().train(120).events:
        told.see(event)
    assert told.samples.trained[0][0] >= told.now_s - 11.0
    assert len(told.samples.committed_in_all) == len(told.samples.committed)
    assert json.loads(encode(live_data(told, 5.0)))["tokens"]["committed"]
