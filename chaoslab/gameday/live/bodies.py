"""Bodies of requests to the live page, read into the orders of `run.operators`.

    {"action": "go", "fault": "half-dies"}            ─► ask_of        ─► Ask
    {"fault": "half-dies", "gap_s": 3, "hit": []}     ─► prediction_of ─► Predict
    {"text": "it is slow", "fault": ""}               ─► note_of       ─► Note

Only form and names are checked; whether an order can be carried out is decided by the run. Text is
made printable here, because it goes into the record as it is.
"""

from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from chaoslab.core.events import Json, decode
from chaoslab.core.payloads import Action
from chaoslab.gameday.live.access import Denied
from chaoslab.gameday.orders import Names
from chaoslab.plan.file.document import printable
from chaoslab.plan.model import SYNCER, FaultPlan
from chaoslab.run.operators import Ask, Note, Predict

Body: TypeAlias = Mapping[str, Json]
REASON_MOST: Final = 300
"""Characters of a reason."""
_TEXT_MOST: Final = 2000
"""Characters of a note."""
_SECONDS_MOST: Final = 1e6
_NEEDS_A_FAULT: Final = frozenset({Action.SKIP, Action.MILDER, Action.STRONGER, Action.REPEAT})


def body_of(raw: bytes) -> Body:
    """The JSON object in a body; Denied if it is none."""
    try:
        value = decode(raw.decode())
    except ValueError as error:
        raise Denied(400, "the body is not JSON") from error
    if not isinstance(value, Mapping):
        raise Denied(400, "the body must be a JSON object")
    return value


def text_of(body: Body, key: str, most: int) -> str:
    """Printable text on one line, empty if there is none; Denied if it is longer than `most`."""
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > most:
        raise Denied(400, f"{key}: must be text of at most {most} characters")
    return printable(" ".join(value.split()))


def ask_of(body: Body, *, by: str, plan: FaultPlan) -> Ask:
    """Something to be done; Denied if the action or the fault is unknown."""
    _only(body, "action", "fault", "reason")
    word = body.get("action")
    if not isinstance(word, str) or word not in tuple(Action):
        _wrong(f"action: must be one of {', '.join(Action)}")
    action, spec = Action(word), _fault(body, plan)
    if action in _NEEDS_A_FAULT and not spec:
        _wrong(f"fault: must be named to {action} it")
    return Ask(by=by, action=action, spec=spec, reason=text_of(body, "reason", REASON_MOST))


def prediction_of(body: Body, *, by: str, plan: FaultPlan) -> Predict:
    """What somebody expects; Denied if they expect nothing, or nonsense."""
    _only(body, "fault", "continues", "gap_s", "hit", "back_s")
    spec = _fault(body, plan)
    if not spec:
        _wrong("fault: must be named")
    continues = body.get("continues")
    if continues is not None and not isinstance(continues, bool):
        _wrong("continues: must be true or false")
    made = Predict(
        by=by,
        spec=spec,
        continues=continues,
        gap_s=_seconds(body, "gap_s"),
        hit=_nodes(body, plan),
        back_s=_seconds(body, "back_s"),
    )
    if (made.continues, made.gap_s, made.hit, made.back_s) == (None,) * 4:
        _wrong("answer at least one of the questions")
    return made


def note_of(body: Body, *, by: str, plan: FaultPlan) -> Note:
    """What somebody noticed; Denied if it is empty."""
    _only(body, "text", "fault")
    text = text_of(body, "text", _TEXT_MOST)
    if not text:
        _wrong("text: is empty")
    return Note(by=by, spec=_fault(body, plan), text=text)


def _only(body: Body, *keys: str) -> None:
    if unknown := sorted(set(body) - set(keys)):
        _wrong(f"{printable(unknown[0])}: is not known; known are {', '.join(keys)}")


def _fault(body: Body, plan: FaultPlan) -> str:
    spec = text_of(body, "fault", REASON_MOST)
    known = Names.of(plan).faults
    if spec and spec not in known:
        _wrong(f"fault: {spec} is not in the plan, which has {', '.join(known) or 'none'}")
    return spec


def _seconds(body: Body, key: str) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        _wrong(f"{key}: must be a number of seconds")
    if not 0 <= value <= _SECONDS_MOST:  # nor is NaN
        _wrong(f"{key}: must be 0 to {_SECONDS_MOST:,.0f} seconds")
    return float(value)


def _nodes(body: Body, plan: FaultPlan) -> tuple[str, ...] | None:
    value = body.get("hit")
    if value is None:
        return None
    known = nodes_of(plan)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        _wrong("hit: must be a list of names of nodes")
    found = tuple(dict.fromkeys(str(one) for one in value))
    if unknown := [name for name in found if name not in known]:
        _wrong(f"hit: {printable(unknown[0])} is no node; nodes are {', '.join(known)}")
    return found


def nodes_of(plan: FaultPlan) -> tuple[str, ...]:
    """All that can be hit: learners, those of the reserve too, and the syncer."""
    return (*plan.training.roster, SYNCER)


def _wrong(message: str) -> NoReturn:
    raise Denied(400, message)
