"""Share of a fault's duration that link reports confirm.

    begin ═══════ shown ═══════ │ silent, or otherwise │ ══ another fault ══ │ ═ shown ═ end
           counts: it acted       counts: it did not     counts for neither    it acted

The middle of what was measured hides that a proxy died early or that an operator changed the
strength half-way. So time is added up: what shows the fault, out of all that could have shown it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from chaoslab.core.events import Json
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found

Span = tuple[float, float]
"""Begin and end, in seconds of the record."""

_SHARE = 0.7
"""Least share of the observable time in which a fault is in force."""
_SLACK_S = 2.0
"""Two windows of a report: the first one began before the fault, the last one never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasted:
    """Time for which it is seen to act, of the time in which it could be seen."""

    lasted_s: float
    of_s: float

    @property
    def is_long(self) -> bool:
        """Whether that is most of the time, or all but the slack."""
        return self.lasted_s >= min(_SHARE * self.of_s, self.of_s - _SLACK_S)

    def __str__(self) -> str:
        return f"lasted for {self.lasted_s:.1f} s of {self.of_s:.1f} s"

    def weakens(self, found: Found, what: str) -> Found:
        """The finding with its duration; no longer proved if that is too short."""
        measured: dict[str, Json] = {**found.measured, f"{what}_lasted_s": self.lasted_s}
        if self.is_long:
            return replace(found, measured=measured)
        code = Code.NOT_THROUGHOUT if found.code is Code.AS_ASKED else found.code
        return replace(found, code=code, text=f"{found.text}; {self}", measured=measured)


def lasted(window: EvidenceWindow, shown: Iterable[Span], mute: Iterable[Span] = ()) -> Lasted:
    """Add up `shown`. Neither `mute` nor other faults count, where nothing is shown."""
    whole = (window.begin_s, window.end_s)
    seen = _merged(shown, whole)
    blind = _merged([*mute, *window.others], whole)
    both = _merged([*seen, *blind], whole)
    lasted_s = _length_s(seen)
    excused_s = _length_s(both) - lasted_s
    return Lasted(lasted_s=lasted_s, of_s=window.end_s - window.begin_s - excused_s)


def _merged(spans: Iterable[Span], whole: Span) -> Sequence[Span]:
    """The same time in spans that do not overlap, within the whole."""
    return tuple(_merging(sorted(spans), whole))


def _merging(spans: Iterable[Span], whole: Span) -> Iterator[Span]:
    reached_s, last_s = whole
    for begin_s, end_s in spans:
        begin_s, end_s = max(begin_s, reached_s), min(end_s, last_s)  # noqa: PLW2901 - clipped
        if begin_s < end_s:
            yield begin_s, end_s
            reached_s = end_s


def _length_s(spans: Iterable[Span]) -> float:
    return sum(end_s - begin_s for begin_s, end_s in spans)
