"""Bodies of requests to the live page: their JSON, and the orders of `run.operators` in them.

    {"action": "go", "fault": "half-dies"}            ─► Act     ─► Ask
    {"fault": "half-dies", "gap_s": 3, "hit": []}     ─► Guess   ─► Predict
    {"text": "it is slow", "fault": ""}               ─► Remark  ─► Note
    {"token": "v-…", "name": "Cy"}                    ─► Entry

Only form and names are checked; whether an order can be carried out is decided by the run. Text is
made printable here, because it goes into the record as it is.
"""

import re
from typing import Annotated, Final, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct

from chaoslab.core.payloads import Action
from chaoslab.gameday.live.access import Denied
from chaoslab.gameday.orders import Names
from chaoslab.plan.file.document import printable
from chaoslab.run.operators import Ask, Note, Predict

_NEEDS_A_FAULT: Final = frozenset({Action.SKIP, Action.MILDER, Action.STRONGER, Action.REPEAT})
_Short = Annotated[str, Meta(max_length=300)]
_Long = Annotated[str, Meta(max_length=2000)]
_Seconds = Annotated[float, Meta(ge=0, le=1e6)]
_B = TypeVar("_B", bound=Struct)


class Act(Struct, forbid_unknown_fields=True):
    """Something to be done."""

    action: Action
    fault: _Short = ""
    reason: _Short = ""

    def order(self, by: str, names: Names) -> Ask:
        """Denied if the fault is unknown, or missing where one is needed."""
        if self.action in _NEEDS_A_FAULT and not self.fault:
            _wrong(f"fault: must be named to {self.action} it")
        spec = _fault(self.fault, names)
        return Ask(by=by, action=self.action, spec=spec, reason=line(self.reason))


class Guess(Struct, forbid_unknown_fields=True):
    """Prediction of a participant about a fault."""

    fault: _Short
    continues: bool | None = None
    gap_s: _Seconds | None = None
    hit: tuple[str, ...] | None = None
    back_s: _Seconds | None = None

    def order(self, by: str, names: Names) -> Predict:
        """Denied if nothing is expected, or a fault or node is unknown."""
        if (self.continues, self.gap_s, self.hit, self.back_s) == (None,) * 4:
            _wrong("answer at least one of the questions")
        for name in self.hit or ():
            if name not in names.nodes:
                nodes = ", ".join(names.nodes)
                _wrong(f"hit: {printable(name)} is no node; nodes are {nodes}")
        return Predict(
            by=by,
            spec=_fault(self.fault, names),
            continues=self.continues,
            gap_s=self.gap_s,
            hit=None if self.hit is None else tuple(dict.fromkeys(self.hit)),
            back_s=self.back_s,
        )


class Remark(Struct, forbid_unknown_fields=True):
    """Note of a participant."""

    text: _Long
    fault: _Short = ""

    def order(self, by: str, names: Names) -> Note:
        """Denied if it is empty, or the fault is unknown."""
        text = line(self.text)
        if not text:
            _wrong("text: is empty")
        return Note(by=by, spec=_fault(self.fault, names), text=text)


class Entry(Struct, forbid_unknown_fields=True):
    """A visitor who asks to join."""

    token: _Short
    name: _Short = ""


def read(raw: bytes, kind: type[_B]) -> _B:
    """The object in a body; Denied says what is wrong with it."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        said = re.fullmatch(r"(.*) - at `\$\.(.+)`", str(error))
        _wrong(f"{said[2]}: {said[1]}" if said else f"the JSON body: {printable(str(error))}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        _wrong("the body is not JSON")


def line(text: str) -> str:
    """Text as one printable line."""
    return printable(" ".join(text.split()))


def _fault(name: str, names: Names) -> str:
    spec = line(name)
    if spec and spec not in names.faults:
        known = ", ".join(names.faults) or "none"
        _wrong(f"fault: {spec} is not in the plan, which has {known}")
    return spec


def _wrong(message: str) -> NoReturn:
    raise Denied(400, message)
