"""Lines of progress that several workers print, and that nothing tells apart.

    step 12, 12, 12, 12, 13, 13, …   each as often as there are workers      REPEATED
    step 12, 11, 13, 12, 14, …       back in the same process                BACK

Before any fault no training goes back: its lines are mixed, or their steps begin anew, as in each
epoch. After one it may do so in the same process, and does not get further and go back again and
again. What one worker prints twice looks like the words of two.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from chaoslab.core.payloads import Mixing

_IN_A_ROW: Final = 4
"""Steps that come as often as there are workers."""
_MORE_THAN_FAULTS: Final = 1
"""Times that a worker goes back beyond once for each fault, and has got further in between."""


class MixedLines:
    """What the lines of a training, in their order, show of that."""

    def __init__(self) -> None:
        self.are_mixed = False
        self.faults = 0
        """Faults that were injected so far."""
        self._returns = Counter[str]()
        self._left: dict[str, int] = {}
        """The furthest step from which each worker has gone back."""
        self._step: int | None = None
        self._times = self._in_a_row = 0

    def hear(self, step: int, before: Mapping[str, int], *, speakers: int) -> Mixing | None:
        """How a line shows it, if it is the first that does. `before`: the last step of each worker
        that it counts for, in the life that it has now; `speakers`: how many may have said it.
        """
        how = None
        are_back = [self._is_back(worker, step, last) for worker, last in before.items()]
        if any(are_back):
            how = Mixing.BACK
        elif speakers > 1 and not self.faults and self._is_repeated(step, speakers):
            how = Mixing.REPEATED
        is_first = how is not None and not self.are_mixed
        self.are_mixed |= is_first
        return how if is_first else None

    def _is_back(self, worker: str, step: int, last: int) -> bool:
        if step >= last:
            return False
        self._returns[worker] += last > self._left.get(worker, -1)
        self._left[worker] = max(last, self._left.get(worker, -1))
        return not self.faults or self._returns[worker] > self.faults + _MORE_THAN_FAULTS

    def _is_repeated(self, step: int, speakers: int) -> bool:
        if step != self._step:
            self._in_a_row = self._in_a_row + 1 if self._times >= speakers else 0
            self._step, self._times = step, 0
        self._times += 1
        return self._times >= speakers and self._in_a_row + 1 >= _IN_A_ROW
