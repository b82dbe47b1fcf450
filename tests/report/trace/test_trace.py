"""The trace of a run, read back by its schema: what is on each track, and what bounds its size."""

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.record.history import History
from chaoslab.report.trace import file, rounds
from chaoslab.report.trace.file import trace_bytes
from chaoslab.report.trace.writer import TraceWriter
from tests.histories import Story
from tests.report.trace.reading import ReadTrace, Slice
from tests.report.web.stories import whole_story


@pytest.fixture(scope="module")
def history() -> History:
    return whole_story().history()


@pytest.fixture(scope="module")
def trace(history: History) -> ReadTrace:
    return ReadTrace(trace_bytes(history))


def first(history: History, kind: Kind) -> Event:
    return history.of(kind)[0]


def test_a_fault_is_drawn_from_its_injection_to_its_heal_with_its_evidence(
    history: History, trace: ReadTrace
) -> None:
    whole, *_ = [one for one in trace.slices["faults/die"] if one.to_s and not one.depth]
    assert whole.name == "process.kill on learner-1, learner-3"
    assert whole.from_s == pytest.approx(first(history, Kind.FAULT_INJECTING).time_s)
    assert whole.to_s == pytest.approx(first(history, Kind.FAULT_HEALED).time_s)
    assert whole.details["seq"] == first(history, Kind.FAULT_INJECTING).seq
    inside = {one.name: one for one in trace.slices["faults/die"] if one is not whole}
    assert inside.keys() >= {"in force", "evidence: proved"}
    assert inside["in force"].to_s == pytest.approx(first(history, Kind.FAULT_HEALING).time_s)


def test_a_trigger_that_was_met_before_the_injection_began_is_drawn() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().end()
    story.altered(Kind.FAULT_INJECTING, lambda event: {"asked_s": event.time_s - 0.5})
    asked = next(
        one
        for one in ReadTrace(trace_bytes(story.history())).slices["faults/die"]
        if one.name == "asked"
    )
    assert asked.to_s - asked.from_s == pytest.approx(0.5)


def test_a_fault_that_is_never_healed_lasts_to_the_end() -> None:
    history = Story().baseline().kill("learner-1", for_s=None).train(6).end().history()
    read = ReadTrace(trace_bytes(history))
    whole = next(one for one in read.slices["faults/die"] if one.depth == 0)
    assert whole.to_s == pytest.approx(history.end_s)


def test_a_killed_learner_has_two_lives_and_is_dead_between_them(trace: ReadTrace) -> None:
    lives = trace.slices["nodes/learner-1/life"]
    assert [one.name for one in lives] == ["incarnation 1", "incarnation 2"]
    assert lives[0].details["signal"] == "SIGKILL"
    assert lives[0].to_s < lives[1].from_s
    states = [one.name for one in trace.slices["nodes/learner-1/state"]]
    assert states.index("dead") < states.index("rejoining") < len(states) - 1


def test_steps_of_a_learner_follow_each_other_and_count_right(
    history: History, trace: ReadTrace
) -> None:
    steps = trace.slices["nodes/learner-0/steps"]
    said = [e for e in history.of(Kind.LEARNER_STEP) if e.data["learner"] == "learner-0"]
    assert sum(one.details["steps"] for one in steps) == sum(e.data["steps"] for e in said)
    assert all(one.depth == 0 for one in steps)


def merges(trace: ReadTrace) -> list[tuple[Slice, Slice]]:
    """Each round that is drawn, and the instant at its end."""
    found = []
    for path, slices in trace.slices.items():
        if path.startswith("rounds/fragment"):
            ends = {one.from_s: one for one in slices if one.name == "merged"}
            found += [(one, ends[one.to_s]) for one in slices if one.name == "round" and one.to_s]
    return found


def test_arrows_lead_from_pushes_to_their_round_and_on_to_adoptions(
    history: History, trace: ReadTrace
) -> None:
    work = [one for path, found in trace.slices.items() if path.endswith("/work") for one in found]
    pushed = {number: one for one in work if one.name == "pushed" for number in one.out}
    adopted = {number: one for one in work if one.name == "adopted" for number in one.into}
    assert adopted
    for one, end in merges(trace):
        assert {pushed[number].details["round"] for number in end.into} <= {one.details["round"]}
        versions = {adopted[number].details["version"] for number in end.out}
        assert versions <= {one.details["version"]}
    ends = [number for _, end in merges(trace) for number in (*end.into, *end.out)]
    assert len(ends) == len(set(ends)) == len(pushed) + len(adopted)
    arrows = {one.details["round"]: len(end.into) for one, end in merges(trace)}
    assert arrows == {
        merged.data["round"]: len(merged.data["contributors"])
        for merged in history.of(Kind.ROUND_MERGED)
    }, "one that missed the round has none"


def test_counters_have_the_values_of_the_record(history: History, trace: ReadTrace) -> None:
    losses = [
        (event.time_s, event.data["loss"])
        for event in history.of(Kind.LEARNER_STEP)
        if event.data["learner"] == "learner-2"
    ]
    assert trace.counters["nodes/learner-2/loss"] == losses
    assert trace.units["nodes/learner-2/step time"] == "ms"
    alive = [value for _, value in trace.counters["run/learners alive"]]
    assert min(alive) == 2
    assert max(alive) == 4
    assert trace.counters["run/tokens/s committed"]
    assert trace.counters["links/learner-1/payload rate up"]
    assert len(trace.slices["links/learner-1/stream"]) >= 2, "it is open until it is cut"


def test_a_long_run_is_bounded_and_says_what_it_leaves_out(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_bytes = len(trace_bytes(history))
    monkeypatch.setattr(rounds, "_ROUNDS_MOST", 10)
    monkeypatch.setattr(file, "_STEPS_MOST", 20)
    monkeypatch.setattr(file, "_SAMPLES_MOST", 1000)
    monkeypatch.setattr(file, "_SAMPLES_LEAST", 12)
    content = trace_bytes(history)
    assert len(content) < whole_bytes / 2
    read = ReadTrace(content)
    drawn = [one for one, _ in merges(read)]
    assert 5 <= len(drawn) <= 10
    assert drawn[0].details["drawn"].startswith("one round in ")
    steps = [one for path, found in read.slices.items() if path.endswith("/steps") for one in found]
    assert len(steps) <= 20 + 4
    assert max(map(len, read.counters.values())) <= 1000 // 20


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (Kind.LEARNER_PUSHED, "round"),
        (Kind.LEARNER_STEP, "loss"),
        (Kind.LEARNER_STEP, "step"),
        (Kind.ROUND_MERGED, "sync_s"),
        (Kind.ROUND_MERGED, "contributors"),
        (Kind.FAULT_INJECTING, "targets"),
        (Kind.LINK_MEASURED, "direction"),
        (Kind.NODE_STARTED, "incarnation"),
    ],
)
def test_a_broken_line_is_left_out_and_the_rest_is_drawn(kind: Kind, key: str) -> None:
    story = whole_story().altered(kind, lambda _: {key: {"no": "number"}})
    assert len(ReadTrace(trace_bytes(story.history())).slices["nodes/learner-0/steps"]) > 10


def test_an_empty_record_is_an_empty_trace_and_the_same_one_gives_the_same_bytes(
    history: History,
) -> None:
    assert not ReadTrace(trace_bytes(History(()))).slices
    assert trace_bytes(history) == trace_bytes(whole_story().history())


def test_the_trace_knows_the_calendar_time() -> None:
    event = Event(
        seq=0, time_s=2.5, wall="2026-11-20T05:07:42.250Z", source="harness",
        kind=Kind.PHASE_ENTERED, data={"phase": "start"},
    )  # fmt: skip
    began_ns, wall_ns = ReadTrace(trace_bytes(History([event]))).clocks
    assert began_ns == 0
    assert wall_ns == 1_795_151_259_750_000_000


def test_a_slice_that_reaches_beyond_the_one_around_it_ends_with_that() -> None:
    trace = TraceWriter()
    track = trace.track("a track")
    trace.slice(track, 1.0, 3.0, "outer")
    trace.slice(track, 2.0, 4.0, "inner")
    trace.slice(track, 3.0, 5.0, "next")
    read = ReadTrace(trace.to_bytes(began_ns=0))
    found = {one.name: (one.from_s, one.to_s, one.depth) for one in read.slices["a track"]}
    assert found == {"outer": (1.0, 3.0, 0), "inner": (2.0, 3.0, 1), "next": (3.0, 5.0, 0)}
