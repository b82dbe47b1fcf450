"""Values by name, as metrics are logged: which of them are step, loss and learning rate.

    {"global_step": 12, "train/loss": 3.25, "epoch": 0.1} ─ Names.said ─► Said(step=12, loss=3.25)

Names of a plan count alone; without them the usual names are tried, the likeliest first.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from chaoslab.core.payloads import What
from chaoslab.trainers.reading import MAX_SHOWN, Said

Values: TypeAlias = Mapping[str, object]

_STEP: Final = (
    "step", "global_step", "train/global_step", "trainer/global_step", "iteration", "iter", "_step",
)  # fmt: skip
_LEARNING_RATE: Final = ("lr", "learning_rate", "train/learning_rate")
_LOSS_OF_TRAINING = re.compile(r"(?:train\w*[/_. ])?loss(?:_step|[/_. ]train\w*)?", re.IGNORECASE)
_HEADERS: Final = 2
_ANY_LOSS = re.compile(r"(?!.*(?:val|eval|test)).*loss(?:_step)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of the values that count, dotted where objects are nested. Empty: the usual ones."""

    step: str = ""
    loss: str = ""
    lr: str = ""

    def said(self, values: Values, line: str = "") -> Said | None:
        """What they say; None if there is neither step nor loss, or the step is not whole."""
        step = _number(_first(values, [self.step] if self.step else _STEP))
        loss = self.loss_of(values)
        if (step is None and loss is None) or (step is not None and not step.is_integer()):
            return None
        line = line or ", ".join(f"{name}={value}" for name, value in values.items())
        return Said(
            what=What.PROGRESS,
            step=None if step is None else int(step),
            loss=loss,
            learning_rate=_number(_first(values, [self.lr] if self.lr else _LEARNING_RATE)),
            line=line[:MAX_SHOWN],
        )

    def lacking(self, place: str, values: Values) -> str:
        """What is wrong with values of a place that say nothing, up to 300 characters."""
        wanted = [name for name in (self.step, self.loss) if name]
        near = dict.fromkeys(one for name in wanted for one in get_close_matches(name, values, n=1))
        meant = f"did you mean {' and '.join(near)}? " if near else ""
        which = " or ".join(wanted) or "like a step or a loss"
        has = ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing"
        return f"{place} has no number named {which}: {meant}It has {has}"[:MAX_SHOWN]

    def loss_of(self, values: Values) -> float | None:
        """The loss; of the training, unless there is only another one that is not of a test."""
        if self.loss:
            return _number(_first(values, [self.loss]))
        training = [name for name in values if _LOSS_OF_TRAINING.fullmatch(name)]
        return _number(_first(values, training or filter(_ANY_LOSS.fullmatch, values)))


class StrangeRows:
    """Rows that are no progress."""

    def __init__(self) -> None:
        self.newest = ""
        """What is wrong with the newest."""
        self._count = 0

    def add(self, why: str) -> None:
        """One more, and what is wrong with it."""
        self.newest = why
        self._count += 1

    @property
    def shown(self) -> str:
        """Empty for one or two rows, which may be a header of settings."""
        return self.newest if self._count > _HEADERS else ""


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
