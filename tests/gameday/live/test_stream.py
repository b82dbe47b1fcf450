"""What browsers are told, in which order, and what they are not told yet."""

import asyncio
from typing import Any

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action
from chaoslab.gameday.live import stream as stream_module
from chaoslab.gameday.live.access import Denied, Role, Visit
from chaoslab.gameday.live.picture import Picture
from chaoslab.gameday.live.stream import Stream
from tests.gameday.live.visitors import BEGUN, HELD, INJECTION, opened
from tests.gameday_room import GAMEDAY, plan_of
from tests.histories import Story

PREDICTION = {"by": "Bo", "spec": "half-dies", "gap_s": 3.0, "hit": ["learner-2"]}


def card(message: Any, spec: str = "half-dies") -> Any:
    (found,) = (one for one in message["faults"] if one["spec"] == spec)
    return found


def test_a_visitor_is_told_who_it_is_and_all_that_is_known() -> None:
    story = Story().baseline().kill("learner-1", spec="half-dies").train(2.0)
    with opened() as stand:
        for event in story.events:
            stand.page.see(event)
        with stand.operator().stream() as stream:
            you, picture = stream.next(), stream.until("picture")
            while picture["rounds"] == 0 or not card(picture)["bars"]:
                picture = stream.until("picture")
    assert (you["type"], you["role"], you["name"]) == ("you", "operator", "Ann")
    assert (picture["plan"], picture["seed"], picture["moment"]) == ("a story", 7, "fault active")
    assert picture["charter"]["owner"] == GAMEDAY.owner
    states = {lane["name"]: lane["state"] for lane in picture["lanes"]}
    assert (states["learner-0"], states["learner-1"]) == ("stepping", "dead")
    shown = card(picture)
    assert (shown["stage"], shown["hypothesis"]) == ("active", "training goes on")
    assert shown["bars"][0]["targets"] == ["learner-1"]


def test_sentences_come_in_order_and_each_once() -> None:
    with opened() as stand, stand.viewer().stream() as stream:
        stream.until("picture")
        texts = []
        for number in range(150):
            stand.tell(Kind.OPERATOR_NOTED, by="Ann", text=f"note {number}")
            texts.append(stream.until("sentence"))
        assert [one["n"] for one in texts] == list(range(1, 151))
        assert texts[-1]["text"] == "Ann notes: note 149"
        with stand.viewer().stream() as later:
            known = [later.until("sentence")["n"] for _ in range(100)]
    assert known == list(range(51, 151)), "the last hundred"


def test_a_picture_waits_for_its_turn_and_a_sentence_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "_PICTURE_EVERY_S", 0.05)
    with opened() as stand, stand.viewer().stream() as stream:
        stream.until("picture")
        monkeypatch.setattr(stream_module, "_PICTURE_EVERY_S", 3600.0)
        for number in range(1, 51):
            stand.tell(Kind.OPERATOR_NOTED, by="Ann", text=str(number))
            stream.until("sentence", n=number)
    pictures = sum(message["type"] == "picture" for message in stream.seen)
    assert pictures <= 3, "those that were due before"


def test_curves_come_with_the_first_picture_and_with_later_ones_in_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "_CURVES_EVERY_S", 3600.0)
    monkeypatch.setattr(stream_module, "_PICTURE_EVERY_S", 0.01)
    story = Story().baseline().kill("learner-1", spec="half-dies").train(2.0)
    with opened() as stand:
        for event in story.events:
            stand.page.see(event)
        stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="so far")
        with stand.viewer().stream() as stream:
            curves = stream.until("curves")
            stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="more")
            stream.until("sentence", text="Ann notes: more")
            stream.until("picture")
    assert sum(one["type"] == "curves" for one in stream.seen) <= 2
    assert [one["node"] for one in curves["lanes"]][:2] == ["syncer", "learner-0"]
    assert curves["tokens"]["committed"]
    assert curves["losses"]["survivors"]["mean"]


def test_curves_of_the_last_change_come_though_nothing_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "_CURVES_EVERY_S", 0.3)
    monkeypatch.setattr(stream_module, "_PICTURE_EVERY_S", 0.01)
    with opened() as stand, stand.viewer().stream() as stream:
        curves = stream.until("curves")
        story = Story().baseline()
        for event in story.events:
            stand.page.see(event)
        while curves["end_s"] < story.events[-1].time_s:
            curves = stream.until("curves")
    assert curves["tokens"]["committed"]


def test_nothing_comes_but_heartbeats_while_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "_BEAT_S", 0.01)

    async def listen() -> bytes:
        messages = Stream(Picture(plan_of(), is_kept=False)).messages(Visit(role=Role.VIEWER))
        await anext(messages)
        await anext(messages)
        return await anext(messages)

    assert asyncio.run(listen()) == b": still here\n\n"


# ---------------------------------------------------------------- what is hidden


def test_predictions_of_others_are_shown_once_the_fault_is_injected() -> None:
    with opened() as stand, stand.operator().stream() as stream:
        stand.tell(Kind.FAULT_HELD, **HELD)
        stand.tell(Kind.OPERATOR_PREDICTED, **PREDICTION)
        assert "3.0" not in stream.until("sentence", n=2)["text"]
        stand.tell(Kind.OPERATOR_PREDICTED, **{**PREDICTION, "gap_s": 4.0})
        before = stream.until("sentence", n=3)
        while before["type"] != "picture" or card(before)["predictions"] == 0:
            before = stream.next()
        assert card(before)["predicted"] == []
        assert "learner-2" not in str(
            [card(one) for one in stream.seen if one["type"] == "picture"]
        )
        stand.tell(Kind.FAULT_INJECTING, **BEGUN)
        after = stream.until("picture")
        while not card(after)["bars"]:
            after = stream.until("picture")
    assert card(after)["predicted"] == [{"by": "Bo", "gap_s": 4.0, "hit": ["learner-2"]}]


def test_viewers_do_not_hear_whom_a_fault_will_hit() -> None:
    """They are asked to predict it."""
    milder = {"by": "Ann", "spec": "half-dies", "action": "milder", "reason": "learner-3 for 5 s"}
    with opened() as stand:
        with stand.operator().stream() as told, stand.viewer("Cy").stream() as asked:
            for stream in (told, asked):
                stream.until("picture")
            stand.tell(Kind.FAULT_HELD, **HELD)
            stand.tell(Kind.OPERATOR_ACTED, **milder)
            for stream in (told, asked):
                stream.until("sentence", n=2)
                stream.until("picture")
        with stand.viewer().stream() as late:
            late.until("picture")
    assert "['learner-1', 'learner-3']" in str(told.seen)
    assert "learner-3 for 5 s" in str(told.seen)
    for stream in (asked, late):
        shown = str([{**one, "nodes": [], "lanes": []} for one in stream.seen])
        assert "learner-" not in shown
        assert "Ann: milder half-dies" in shown


def test_a_visitor_finds_the_own_predictions_again() -> None:
    with opened() as stand:
        cy = stand.viewer("Cy")
        cy.post("/predict", {"fault": "other", "continues": True})
        with cy.stream() as own, stand.viewer("Dee").stream() as other:
            assert own.next()["predicted"]["other"]["continues"] is True
            assert other.next()["predicted"] == {}


# ---------------------------------------------------------------- where a fault stands


def seen(*events: tuple[Kind, dict[str, Any]], keep: bool = True) -> Any:
    picture = Picture(plan_of(), is_kept=keep)
    for seq, (kind, data) in enumerate(events):
        picture.see(Event(seq=seq, time_s=1.0, source="harness", kind=kind, data=data))
    return picture.to_json(Role.OPERATOR)


def acted(action: Action, spec: str = "half-dies", **more: str) -> tuple[Kind, dict[str, Any]]:
    return Kind.OPERATOR_ACTED, {"by": "Ann", "spec": spec, "action": action.value, **more}


HELD_NOW = (Kind.FAULT_HELD, dict(HELD))
INJECTING = (Kind.FAULT_INJECTING, dict(BEGUN))
INJECTED = (Kind.FAULT_INJECTED, dict(INJECTION))
HEALED = (Kind.FAULT_HEALED, dict(INJECTION))
SKIPPED = (
    Kind.FAULT_SKIPPED,
    {**INJECTION, "obstacle": "operator", "reason": "Ann left 1 injection out"},
)


@pytest.mark.parametrize(
    ("events", "stage"),
    [
        ((), "to come"),
        ((HELD_NOW,), "waits"),
        ((HELD_NOW, acted(Action.GO)), "to come"),
        ((HELD_NOW, acted(Action.GO), INJECTING), "active"),
        ((INJECTING, INJECTED, HEALED), "over"),
        ((INJECTING, INJECTED, HEALED, acted(Action.REPEAT), INJECTING), "active"),
        ((HELD_NOW, acted(Action.SKIP), SKIPPED), "skipped"),
    ],
)
def test_a_fault_stands_where_the_record_says(events: Any, stage: str) -> None:
    assert card(seen(*events))["stage"] == stage


def told_by(story: Story) -> tuple[Picture, list[Any]]:
    """A picture that has seen it, and the messages that it was worth."""
    picture = Picture(plan_of(), is_kept=True)
    return picture, [one.viewers for event in story.events for one in picture.see(event)]


def test_a_card_says_when_a_fault_heals_and_who_was_back_after_how_long() -> None:
    story = Story().baseline().kill("learner-1", "learner-3", for_s=6.0, spec="half-dies").train(2)
    picture, _ = told_by(story)
    shown = picture.to_json(Role.VIEWER)
    assert shown["moment"] == "fault active"
    (bar,) = card(shown)["bars"]
    assert bar["heals_s"] - shown["time_s"] == pytest.approx(4.0, abs=0.3)
    picture, _ = told_by(story.train(4).heal().train(6))
    shown = picture.to_json(Role.VIEWER)
    assert shown["moment"] == "no fault active"
    (bar,) = card(shown)["bars"]
    assert (bar["heals_s"], bar["takes_away"]) == (None, True)
    assert sorted(bar["back_after_s"]) == ["learner-1", "learner-3"]


def test_lines_of_the_start_are_marked_and_what_is_wrong_in_it_is_not() -> None:
    story = Story().start().say(Kind.OPERATOR_NOTED, by="Bo", text="one died")
    story.strike("learner-2").enter("baseline")
    _, told = told_by(story)
    marked = {one["text"]: one["is_of_start"] for one in told if one["type"] == "sentence"}
    assert [text for text, is_of_start in marked.items() if not is_of_start] == [
        text
        for text in marked
        if "SIGKILL" in text or "one died" in text or text == "phase baseline"
    ]
    assert sum(marked.values()) > 4


def test_the_end_can_be_asked_for_when_nothing_is_left_to_decide() -> None:
    assert not seen()["can_end"]
    other = acted(Action.SKIP, "other")
    assert seen(acted(Action.GO), INJECTING, other)["can_end"]
    assert not seen(acted(Action.GO), INJECTING, other, keep=False)["can_end"]
    assert not seen(acted(Action.GO), INJECTING, other, acted(Action.END, ""))["can_end"]


def test_what_became_of_an_order_is_told() -> None:
    with opened() as stand, stand.viewer().stream() as stream:
        stand.tell(Kind.OPERATOR_REFUSED, by="Ann", spec="", asked="end", reason="half-dies waits")
        answer = stream.until("answer")
        assert (answer["is_done"], answer["asked"], answer["reason"]) == (
            False, "end", "half-dies waits",
        )  # fmt: skip
        stand.tell(*acted(Action.GO)[:1], **acted(Action.GO)[1])
        answer = stream.until("answer")
        assert (answer["is_done"], answer["asked"], answer["by"]) == (True, "go half-dies", "Ann")


def test_when_the_run_is_over_nothing_can_be_asked() -> None:
    with opened() as stand:
        ann = stand.operator()
        with ann.stream() as stream:
            stand.tell(Kind.RUN_FINISHED, outcome="aborted", reason="Ann aborted it")
            assert stream.until_over()["outcome"] == "aborted: Ann aborted it"
        answer = ann.post("/act", {"action": "abort"})
    assert answer.status == 409


def test_what_the_run_does_not_take_any_more_is_refused_before_the_page_knows() -> None:
    with opened() as stand:
        ann = stand.operator()
        stand.inbox.close()
        answer = ann.post("/note", {"text": "gone"})
    assert answer.status == 409


# ---------------------------------------------------------------- bounds


def test_a_line_that_breaks_its_contract_harms_nobody() -> None:
    with opened() as stand, stand.viewer().stream() as stream:
        stand.tell(Kind.FAULT_HELD, spec="half-dies")
        stand.tell(Kind.FAULT_HELD)
        stand.tell(Kind.OPERATOR_NOTED, by="Ann", text="still here")
        assert stream.until("sentence")["text"] == "Ann notes: still here"


def test_a_slow_viewer_gets_the_last_messages_and_the_latest_picture() -> None:
    async def listen() -> bytes:
        stream = Stream(Picture(plan_of(), is_kept=False))
        messages = stream.messages(Visit(role=Role.VIEWER))
        await anext(messages)
        await anext(messages)
        for seq in range(500):
            noted = {"by": "Ann", "text": f"note {seq}"}
            stream.see(Event(seq=seq, time_s=1.0, source="x", kind=Kind.OPERATOR_NOTED, data=noted))
        await stream._fold()
        return await anext(messages)

    said = asyncio.run(listen()).decode()
    assert said.count("note ") == 100
    assert "note 399" not in said
    assert said.index("note 400") < said.index("note 499")


def test_events_that_nobody_folds_give_way_and_are_counted() -> None:
    stream = Stream(Picture(plan_of(), is_kept=False), most_events=10)
    for seq in range(25):
        stream.see(Event(seq=seq, time_s=1.0, source="harness", kind=Kind.OPERATOR_NOTED, data={}))
    assert stream.missed == 15
    unshown = Event(seq=25, time_s=1.0, source="harness", kind=Kind.PUSH_ACCEPTED, data={})
    stream.see(unshown)
    assert stream.missed == 15


def test_one_browser_opens_eight_pages_at_most() -> None:
    async def open_many() -> None:
        stream = Stream(Picture(plan_of(), is_kept=False))
        visit = Visit(role=Role.VIEWER)
        pages = [stream.messages(visit) for _ in range(8)]
        for page in pages:
            stream.require_room(visit)
            await anext(page)
        stream.require_room(Visit(role=Role.VIEWER))
        with pytest.raises(Denied, match="close one"):
            stream.require_room(visit)
        for page in pages:
            await page.aclose()  # type: ignore[attr-defined]
        stream.require_room(visit)

    asyncio.run(open_many())
