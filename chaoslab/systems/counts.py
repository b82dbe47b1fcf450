"""Counts of one incarnation in a file that outlives the process: some systems start it again."""

from pathlib import Path

import numpy as np

from chaoslab.diloco.learner.exchange import Counters, FragmentCounters

_FIELDS = (
    "incarnation", "step", "tokens", "data_position", "version", "tokens_from", "committed",
    "discarded", "lost",
)  # fmt: skip


class Counts:
    """The counts of a learner whose model is one fragment, as of its last event."""

    def __init__(self, file: Path, incarnation: int) -> None:
        """Continues what an earlier process of this incarnation has counted.

        In its data it continues where one of any incarnation was.
        """
        is_new = not file.exists()
        self._kept = np.memmap(file, np.int64, "w+" if is_new else "r+", shape=(len(_FIELDS),))
        if is_new or self._kept[0] != incarnation:
            self._kept[:] = (incarnation, 0, 0, self.data_position, -1, 0, 0, 0, 0)

    @property
    def version(self) -> int:
        """Its version; -1: none yet."""
        return int(self._kept[_FIELDS.index("version")])

    @property
    def step(self) -> int:
        """Its last step."""
        return int(self._kept[_FIELDS.index("step")])

    @property
    def data_position(self) -> int:
        """Where it was in its data."""
        return int(self._kept[_FIELDS.index("data_position")])

    def note(self, counters: Counters) -> None:
        """Keep these counts."""
        fragment = counters.fragments[0]
        self._kept[1:] = (
            counters.step, counters.tokens, counters.data_position, fragment.version,
            fragment.tokens_from, fragment.committed, fragment.discarded, fragment.lost,
        )  # fmt: skip

    def resumed(self, *, step: int, version: int) -> Counters:
        """Counters of a learner that begins at `version`: whatever it made since is lost."""
        _, _, tokens, position, _, tokens_from, committed, discarded, lost = map(int, self._kept)
        if self.version < 0:
            return Counters(
                step=step, data_position=position, fragments=(FragmentCounters(version=version),)
            )
        step = self.step  # it counts all steps of an incarnation, also those that were given up
        fragment = FragmentCounters(
            version=version,
            tokens_from=tokens,
            committed=committed,
            discarded=discarded,
            lost=lost + tokens - tokens_from,
        )
        return Counters(step=step, tokens=tokens, data_position=position, fragments=(fragment,))
