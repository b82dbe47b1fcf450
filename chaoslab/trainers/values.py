"""Values by name, as metrics are logged: which of them are step, loss and learning rate.

    {"global_step": 12, "train/loss": 3.25, "epoch": 0.1} ─ Rows.said ─► Said(step=12, loss=3.25)

Names of a plan count alone; without them the usual names are tried, the likeliest first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from chaoslab.core.payloads import LineKind
from chaoslab.trainers.reading import MAX_SHOWN, TrainerLine

Values: TypeAlias = Mapping[str, object]

_STEP: Final = (
    "step", "global_step", "train/global_step", "trainer/global_step", "iteration", "iter", "_step",
)  # fmt: skip
_LEARNING_RATE: Final = ("lr", "learning_rate", "train/learning_rate")
_LOSS_OF_TRAINING = re.compile(r"(?:train\w*[/_. ])?loss(?:_step|[/_. ]train\w*)?", re.IGNORECASE)
_HEADERS: Final = 2
_MOST_NAMES: Final = 2_000
"""Most names of which values are kept, to be shown."""
_ANY_LOSS = re.compile(r"(?!.*(?:val|eval|test)).*loss(?:_step)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of the values that count, dotted where objects are nested. Empty: the usual ones."""

    step: str = ""
    loss: str = ""
    lr: str = ""

    def said(self, values: Values, line: str = "", *, is_event: bool = False) -> TrainerLine | None:
        """Progress of an event; None if there is neither step nor loss, or the step is not whole.

        An event has its `step` beside its tags, and counts if it has a loss or the tag `self.step`.
        """
        loss = self.loss_of(values)
        if is_event and loss is None and self.step not in values:
            return None
        names = [self.step] if self.step and not is_event else _STEP
        step = _number(_first(values, names))
        if (step is None and loss is None) or (step is not None and not step.is_integer()):
            return None
        line = line or ", ".join(f"{name}={value}" for name, value in values.items())
        return TrainerLine(
            what=LineKind.PROGRESS,
            step=None if step is None else int(step),
            loss=loss,
            learning_rate=_number(_first(values, [self.lr] if self.lr else _LEARNING_RATE)),
            line=line[:MAX_SHOWN],
        )

    def loss_of(self, values: Values) -> float | None:
        """The loss; of the training, unless there is only another one that is not of a test."""
        if self.loss:
            return _number(_first(values, [self.loss]))
        training = [name for name in values if _LOSS_OF_TRAINING.fullmatch(name)]
        return _number(_first(values, training or filter(_ANY_LOSS.fullmatch, values)))


class Rows:
    """Rows of values at one place: what they say, and what is wrong with those that say nothing."""

    def __init__(self, place: str, names: Names, *, are_events: bool = False) -> None:
        """`are_events`: see `Names.said`."""
        self._place, self._names, self._are_events = place, names, are_events
        self._strange, self._why = 0, ""
        self._absent = {name for name in (names.step, names.loss, names.lr) if name}
        """Names of the plan that no row has had."""
        self._had: dict[str, object] = {}
        """The newest values by name, of all rows."""

    def said(self, values: Values, line: str = "") -> TrainerLine | None:
        """Progress of a row. One without the step that the plan names is no progress, unless other
        rows have it.
        """
        if len(self._had) < _MOST_NAMES:
            self._had |= _flat(values)
        self._absent -= {one for one in self._absent if _number(_first(values, [one])) is not None}
        if self._names.step not in self._absent:
            said = self._names.said(values, line, is_event=self._are_events)
            if said is not None:
                return said
        self.add("")
        return None

    def add(self, why: str) -> None:
        """Count a row without progress; `why` it has none, unless names are missing."""
        self._strange, self._why = self._strange + 1, why

    @property
    def newest(self) -> str:
        """Error of the newest row without progress, up to 300 characters."""
        wanted = [name for name in (self._names.step, self._names.loss) if name]
        return self._why or (self._lacking(wanted) if self._strange else "")

    @property
    def shown(self) -> str:
        """Empty for one or two rows, which may be a header of settings."""
        return self.newest if self._strange > _HEADERS else ""

    @property
    def absent(self) -> str:
        """Names of the plan that no row has had; empty if there are no rows."""
        return self._lacking(sorted(self._absent)) if self._had and self._absent else ""

    def _lacking(self, wanted: Sequence[str]) -> str:
        """Names of the rows that resemble missing ones, up to 300 characters, the nearest first."""
        near = dict.fromkeys(
            one for name in wanted for one in get_close_matches(name, self._had, n=3)
        )
        best = [one for name in wanted for one in get_close_matches(name, self._had, n=1)]
        meant = f"did you mean {' and '.join(dict.fromkeys(best))}? " if best else ""
        which = " or ".join(wanted) or "like a step or a loss"
        has = ", ".join(f"{name}={self._had[name]}" for name in {**near, **self._had}) or "nothing"
        return f"{self._place} has no number named {which}: {meant}It has {has}"[:MAX_SHOWN]


def _flat(values: Values) -> dict[str, object]:
    """Values by dotted name."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{part}": one for part, one in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _first(values: Values, names: Iterable[str]) -> object:
    """The first that is there: by its name as it stands, else by the parts between dots."""
    for name in names:
        found: object = values
        for part in [name] if name in values else name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
