"""Whether the fault-free twin of a run can be compared with it: its own, whole, and another record.

run.started of both ─► same seed, learners, training, data, code, machine? ─┐
the twin's record ───► ended by its stop rule, evaluated, nobody lost? ─────┴─► "", or why not
"""

from chaoslab.core.events import Event, Kind
from chaoslab.record.journal import History

_ALIKE = ("seed", "algorithm", "learners", "reserve")
"""What every record says of itself; `provenance` has the rest, from when there was one."""


def why_not_comparable(run: History, twin: History) -> str:
    """Why the twin says nothing about the run; empty if it does."""
    mine, its = run.last(Kind.RUN_STARTED), twin.last(Kind.RUN_STARTED)
    if mine is None or its is None:
        return f"the record of the {'run' if mine is None else 'twin'} has no beginning"
    if list(run.events) == list(twin.events):
        return "it is the record of the run itself"
    if its.data.get("is_twin", True) is not True or twin.of(Kind.FAULT_INJECTING):
        return "it is a run of its own, and no fault-free twin"
    if differences := [*_differences(mine, its), *_other_images(run, twin)]:
        return f"it differs from the run in {', '.join(differences)}"
    return why_not_whole(twin)


def why_not_whole(history: History) -> str:
    """What a run lacks that ended by its stop rule, was evaluated and lost no node on the way."""
    finished, started = history.last(Kind.RUN_FINISHED), history.of(Kind.NODE_STARTED)
    if finished is None:
        return "its record breaks off"
    if finished.text("outcome") != "completed" or finished.text("reason"):
        return f"it was {finished.text('outcome')} ({finished.text('reason') or 'no reason'})"
    names = {event.text("node") for event in started}
    if absent := [name for name in history.founders if name not in names]:
        return f"{', '.join(absent)} never started"
    if not history.of(Kind.ROUND_MERGED) or history.last(Kind.SYNCER_FINAL) is None:
        return "it merged nothing, or did not end by its stop rule"
    if not history.of(Kind.EVALUATION_MEASURED):
        return "it was not evaluated"
    lost = [e.text("node") for e in history.of(Kind.NODE_EXITED) if e.data.get("exit_code") != 0]
    return f"it lost {', '.join(dict.fromkeys(lost))}" if lost else ""


def _differences(mine: Event, its: Event) -> list[str]:
    """A record of before says less: what only one of them says differs, too."""
    found = [key for key in _ALIKE if mine.data.get(key) != its.data.get(key)]
    if ("provenance" in mine.data) != ("provenance" in its.data):
        return [*found, "what is known of its provenance"]
    if "provenance" not in mine.data:
        return found
    ours, theirs = mine.mapping("provenance"), its.mapping("provenance")
    parts = sorted(key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key))
    return list(dict.fromkeys([*found, *parts]))


def _other_images(run: History, twin: History) -> list[str]:
    """Whether a container of the twin came from an image that none of the run's came from."""
    ours, theirs = (
        {event.data.get("image_id") for event in history.of(Kind.NODE_STARTED)}
        for history in (run, twin)
    )
    return [] if theirs <= ours else ["the image of its containers"]
