"""Batch of possible failures of some learners, all computed at once, as arrays.

        ┌─► when failures and grow points come ─► when slices are ready ─► where they return ─┐
        └────────── changes before each, slices that are out of service ◄─────────────────────┘

What happens feeds back in two ways alone: each change delays what comes after it, and a failure of
a slice that is out of service is none. So both are guessed, and computed again until nothing
changes. Since events depend on earlier ones alone, at least one more is right each time; mostly
a few times are enough.

*Rows* are learners. *Slices* are those that have been out since an earlier batch, then one for each
possible failure, row by row in the order of time. *Stops* are grow points at which slices may
return, row by row; the first of a row is the begin of the batch instead, and the last stands for
all points after the batch. The times of a row begin where those of the row before end, so that one
search finds places in all of them.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.sim.portable_math import Numbers

Indices: TypeAlias = NDArray[np.int64]
Marks: TypeAlias = NDArray[np.bool_]

_DENSE: Final = 10
"""All grow points are stops if there are not more of them than so many for each failure."""
_NEVER_S: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Constants of each learner."""

    chips: float
    slice_chips: int
    change_s: float
    grow_every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """Possible failures; all of shape (rows, number)."""

    trained_s: Numbers
    """Trained time of the learner."""
    places: Numbers
    repairs_s: Numbers


class NoChipsLeft(Exception):
    """A learner may have lost its last whole slice."""


class Batch:
    """What comes of possible failures, when `settle` has computed it."""

    def __init__(
        self, costs: Costs, possible: Possible, began_s: Numbers, away: Indices, rest_s: Numbers
    ) -> None:
        """`began_s`: trained time of rows; `away`: rows of slices that are ready in `rest_s`."""
        self._costs, self._began_s, self._rest_s = costs, began_s, rest_s
        rows, size = possible.trained_s.shape
        self._hits = costs.chips * possible.places.ravel()
        self._repairs_s = possible.repairs_s.ravel()
        self._away = away.size
        self._row = np.concatenate((away, np.repeat(np.arange(rows), size)))
        """Row of each slice."""
        self._row_of_possible = self._row[away.size :]
        self._away_before = np.repeat(np.searchsorted(away, np.arange(rows), side="right"), size)
        self._lay_out(possible.trained_s)
        self._fail(np.ones(rows * size, bool))

    def settle(self) -> None:
        """Compute until nothing changes."""
        while True:
            self._add_changes()
            has_moved = self._move()
            fails = self._hits < self._costs.chips - self._costs.slice_chips * self._out()
            if not np.array_equal(fails, self._fails):
                self._fail(fails)
            elif not has_moved:
                return

    # ------------------------------------------------------------ results

    @property
    def failures(self) -> int:
        """Possible failures that came about."""
        return int(np.count_nonzero(self._fails))

    def changes(self) -> tuple[Indices, Numbers]:
        """Rows and begins of all changes: those of failures, then those at grow points.

        These and all other results count from when the row trains.
        """
        row = np.concatenate((self._row_of_possible[self._fails], self._stop_row[self._grows]))
        begins_s = np.concatenate((self._happens_s[self._fails], self._arrives_s[self._grows]))
        return row, begins_s - self._arrives_s[self._start[row]]

    def ends_s(self) -> Numbers:
        """When each row trains on after its last possible failure."""
        rows = self._start.size
        last_s = self._happens_s + self._costs.change_s * self._fails
        ends_s: Numbers = last_s.reshape(rows, -1)[:, -1] - self._arrives_s[self._start]
        return ends_s

    def absences(self) -> tuple[Indices, Numbers, Numbers]:
        """Row, and trained times at which a slice left and returned, if it did, for each."""
        left_s = np.concatenate((self._began_s[self._row[: self._away]], self._trained_s))
        row, stop, is_out = self._row, self._stop, self._is_out()
        returns_s = np.where(stop == self._end[row], np.inf, self._stops_s[stop])
        return row[is_out], left_s[is_out], returns_s[is_out]

    def still_out(self) -> tuple[Indices, Numbers]:
        """Row of each slice that has not returned, and when it is ready."""
        is_out = self._is_out() & (self._stop == self._end[self._row])
        row = self._row[is_out]
        return row, self._ready_s[is_out] - self._arrives_s[self._start[row]]

    # ------------------------------------------------------------ trained time

    def _lay_out(self, trained_s: Numbers) -> None:
        """Number the grow points of all rows, one row after the other; choose stops among them."""
        every_s, began_s = self._costs.grow_every_s, self._began_s
        first = np.floor(began_s / every_s).astype(np.int64)
        last = np.floor(trained_s[:, -1] / every_s).astype(np.int64) + 1
        self._first = np.cumsum(last - first + 1) - (last - first + 1)
        self._last = self._first + last - first
        self._shift = self._first - first
        """From the number of a grow point in its row to that among all."""
        self._base_s = self._first * every_s - began_s
        """Where the times of each row begin, beyond its trained time."""
        self._trained_s = trained_s.ravel()
        self._begins_s = (trained_s + self._base_s[:, None]).ravel()
        after = np.floor(trained_s / every_s).astype(np.int64) + (self._shift + 1)[:, None]
        self._is_dense = bool(self._last[-1] < _DENSE * after.size)
        if self._is_dense:
            points = np.arange(self._last[-1] + 1)
        else:
            points = np.unique(np.concatenate((after.ravel(), self._first, self._last)))
        self._stop_at(points, after.ravel())
        self._stop = np.concatenate((self._start[self._row[: self._away]] + 1, self._after))
        """Where each slice returns: as a guess, at the next stop."""

    def _stop_at(self, points: Indices, after: Indices) -> None:
        """Make these grow points the stops; `after` are those after the possible failures."""
        self._points, self._points_after = points, after
        self._start, self._end = self._index(self._first), self._index(self._last)
        """First and last stop of each row."""
        self._after = self._index(after)
        self._stop_row = np.repeat(np.arange(self._first.size), self._end - self._start + 1)
        """Row of each stop."""
        self._stops_s = (points - self._shift[self._stop_row]) * self._costs.grow_every_s
        """Trained time of each stop."""
        self._stops_s[self._start] = self._began_s
        self._stops_begin_s = self._stops_s + self._base_s[self._stop_row]

    def _index(self, points: Indices) -> Indices:
        return points if self._is_dense else np.searchsorted(self._points, points)

    # ------------------------------------------------------------ time

    def _add_changes(self) -> None:
        """Times of failures and stops, with the changes before each."""
        change_s = self._costs.change_s
        self._grows = np.zeros(self._points.size, bool)
        """Whether slices return at each stop."""
        self._grows[self._stop] = True
        self._grows[self._end] = False
        grown = np.cumsum(self._grows) - self._grows
        self._arrives_s = self._stops_begin_s + change_s * (self._failed_by_stop + grown)
        self._happens_s = self._begins_s + change_s * (self._failed + grown[self._after])
        repaired_s = self._happens_s + self._lasts_s
        returned_s = self._arrives_s[self._start[self._row[: self._away]]] + self._rest_s
        self._ready_s = np.concatenate((returned_s, repaired_s))

    def _move(self) -> bool:
        """Find where slices return that do not return where they were thought to; any there?"""
        stop, ready_s, arrives_s = self._stop, self._ready_s, self._arrives_s
        if self._is_dense:
            is_wrong = (arrives_s[stop] < ready_s) | (arrives_s[stop - 1] >= ready_s)
            wrong = np.flatnonzero(is_wrong)
        else:
            wrong = np.arange(stop.size)
        row, ready_s = self._row[wrong], ready_s[wrong]
        found = np.searchsorted(arrives_s, ready_s)
        found = np.clip(found, self._start[row] + 1, self._end[row])
        if not self._is_dense and self._is_new(found, ready_s):
            return True
        moved = not np.array_equal(found, stop[wrong])
        stop[wrong] = found
        return moved

    def _is_new(self, found: Indices, ready_s: Numbers) -> bool:
        """Make stops of the grow points between two stops at which slices return; any there?"""
        before, every_s = found - 1, self._costs.grow_every_s
        leaves_s = self._arrives_s[before] + self._costs.change_s * self._grows[before]
        trained_s = self._stops_s[before] + np.maximum(ready_s - leaves_s, 0.0)
        point = np.floor(trained_s / every_s).astype(np.int64) + 1 + self._shift[self._row]
        point = np.minimum(point, self._points[found])
        is_new = bool(np.any(point < self._points[found]))
        if is_new:
            self._stop_at(np.union1d(self._points, point), self._points_after)
            self._stop = self._index(point)
            self._fail(self._fails)
        return is_new

    # ------------------------------------------------------------ slices

    def _fail(self, fails: Marks) -> None:
        """These possible failures come about."""
        self._fails = fails
        self._failed: Indices = np.cumsum(fails) - fails
        """How many do before each."""
        self._failed_by_stop = np.cumsum(
            np.bincount(self._after[fails], minlength=self._points.size)
        )
        self._lasts_s = np.where(fails, self._repairs_s, _NEVER_S)

    def _out(self) -> Indices:
        """Slices of its row that are out of service at each possible failure.

        NoChipsLeft if one more may leave none, as `Learner` counts it.
        """
        back = np.bincount(self._stop[self._is_out()], minlength=self._points.size)
        returned = np.cumsum(back) - back
        out = self._failed + self._away_before - returned[self._after]
        if (out.max() + 1) * self._costs.slice_chips > self._costs.chips - 0.5:
            raise NoChipsLeft
        return out

    def _is_out(self) -> Marks:
        """Whether each slice was out of service at any time."""
        return np.concatenate((np.ones(self._away, bool), self._fails))
