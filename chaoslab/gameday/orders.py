"""Orders as people type them: one line of a keyboard or of a script, and the help to it.

    "go half-dies"                          ─► order_of ─► Ask(by="Ann", action=go, …)
    "Bo> predict half-dies gap=3s back=10s" ─► order_of ─► Predict(by="Bo", spec="half-dies", …)

Whether an order can be carried out is decided by `run.operators`; here only its form and the names
in it are checked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import Action
from chaoslab.core.units import duration_s
from chaoslab.plan.file.document import nearest, printable
from chaoslab.plan.model import SYNCER, FaultPlan
from chaoslab.run.operators import Ask, Inbox, Note, Order, Predict

HELP: Final = "help"
FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "go": ("go [FAULT]", "inject it now; without a name: all that wait"),
    "skip": ("skip FAULT", "leave it out"),
    "milder": ("milder FAULT", "half as many targets, or half as long, before it is injected"),
    "stronger": ("stronger FAULT", "twice as many targets, or twice as long, within the limits"),
    "repeat": ("repeat FAULT", "inject it once more, on the same targets"),
    "heal": ("heal [FAULT]", "heal it before its time; without a name: all that are open"),
    "predict": (
        "predict FAULT [continues=yes|no] [gap=3s] [hit=learner-1,learner-2|nobody] [back=10s]",
        "what you expect: training continues, longest gap, nodes hit, time back after the heal",
    ),
    "note": ("note [FAULT:] TEXT", "write down what you notice, with its time"),
    "end": ("end", "ask for nothing more: training settles and ends"),
    "abort": ("abort [WHY]", "heal everything and end the run"),
}
"""Form and meaning of each command."""

_NAMED = frozenset({"skip", "milder", "stronger", "repeat"})
_WHO = re.compile(r"\s*([\w.@-]+)>(.*)", re.DOTALL)
_NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names that a line can contain."""

    faults: tuple[str, ...]
    """Ids of the entries of the plan, and of the faults that are sealed."""
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: FaultPlan) -> "Names":
        """Names of a plan; its nodes are all learners, with the reserve, and the syncer."""
        return cls(
            faults=(*(fault.id for fault in plan.faults), *plan.charter.sealed_ids),
            nodes=(*plan.training.roster, SYNCER),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConsole:
    """The people at one keyboard, and the run that their orders go to."""

    plan: FaultPlan
    by: str
    """Who types lines that do not begin with a name."""
    inbox: Inbox

    @property
    def names(self) -> Names:
        """Names that lines can contain."""
        return Names.of(self.plan)


class ParsedLine(NamedTuple):
    """A line in its parts."""

    by: str
    word: str
    """The command; empty if there is nothing but a name."""
    rest: str


def said(line: str, *, by: str) -> ParsedLine:
    """Who says what: `Bo> note it is slow` is Bo's, a line without a name is of `by`."""
    named = _WHO.fullmatch(line)
    person, text = (named[1], named[2]) if named else (by, line)
    word, _, rest = text.strip().partition(" ")
    return ParsedLine(person, word, rest.strip())


def order_of(line: str, *, by: str, names: Names) -> Order:
    """The order in a line; PlanError says what to write."""
    person, word, rest = said(line, by=by)
    if word not in FORMS:
        raise PlanError(unknown(word, FORMS))
    if word == "note":
        return _note(person, rest, names)
    if word == "abort":
        return Ask(by=person, action=Action.ABORT, reason=printable(rest))
    if word == "predict":
        return _prediction(person, rest, names)
    if not rest and word in _NAMED:
        raise PlanError(f"{word} which fault? write {FORMS[word][0]}")
    if rest and word == "end":
        raise PlanError("end takes no name: to leave a fault out, write skip FAULT")
    return Ask(by=person, action=Action(word), spec=known_fault(rest, names) if rest else "")


def unknown(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """Error for a word that is no command, with the nearest command."""
    if not word:
        return f"a command is missing: {', '.join(known)}"
    return nearest(printable(word), known, noun="command", lists_all=True)


def known_fault(name: str, names: Names) -> str:
    """The same; PlanError if no fault of the plan has this id."""
    if name not in names.faults:
        raise PlanError(nearest(printable(name), names.faults, noun="fault of the plan"))
    return name


def _note(by: str, rest: str, names: Names) -> Note:
    spec = max((one for one in names.faults if rest.startswith(f"{one}:")), key=len, default="")
    text = rest.removeprefix(f"{spec}:").strip() if spec else rest
    if not text:
        raise PlanError(f"note what? write {FORMS['note'][0]}")
    return Note(by=by, spec=spec, text=printable(text))


# ---------------------------------------------------------------- predictions


def _prediction(by: str, rest: str, names: Names) -> Predict:
    words = rest.split()
    first = next((n for n, word in enumerate(words) if "=" in word), len(words))
    if not first:
        raise PlanError(f"predict needs the name of a fault: write {FORMS['predict'][0]}")
    fields: dict[str, str] = {}
    for word in words[first:]:
        key, _, value = word.partition("=")
        if key not in _FIELDS:
            raise PlanError(nearest(printable(key), _FIELDS, noun="part", lists_all=True))
        if key in fields:
            raise PlanError(f"{key} is given twice")
        fields[key] = value
    predicted = Predict(
        by=by,
        spec=known_fault(" ".join(words[:first]), names),
        continues=_yes(fields["continues"]) if "continues" in fields else None,
        gap_s=_duration_s("gap", fields["gap"]) if "gap" in fields else None,
        hit=_nodes(fields["hit"], names) if "hit" in fields else None,
        back_s=_duration_s("back", fields["back"]) if "back" in fields else None,
    )
    if not fields:
        raise PlanError(f"predict what? write at least one of {', '.join(_FIELDS.values())}")
    return predicted


_FIELDS: Final[Mapping[str, str]] = {
    "continues": "continues=yes",
    "gap": "gap=3s",
    "hit": "hit=learner-1,learner-2",
    "back": "back=10s",
}


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise PlanError(f"continues={printable(text)}: write yes or no")
    return text == "yes"


def _duration_s(key: str, text: str) -> float:
    try:
        return duration_s(text)
    except PlanError as error:
        raise PlanError(f"{key}: {error.message}") from error


def _nodes(text: str, names: Names) -> tuple[str, ...]:
    if text == _NOBODY:
        return ()
    found = tuple(dict.fromkeys(filter(None, text.split(","))))
    if not found:
        raise PlanError(f"hit: write {_FIELDS['hit']} without blanks, or hit={_NOBODY}")
    for name in found:
        if name not in names.nodes:
            raise PlanError(f"hit: {nearest(printable(name), names.nodes, noun='node')}")
    return found


# ---------------------------------------------------------------- help


def help_lines() -> Sequence[str]:
    """Every command with what it does."""
    lines = [line for form, does in FORMS.values() for line in (form, f"    {does}")]
    return [*lines, "NAME> COMMAND", "    the same for another person at this keyboard"]
