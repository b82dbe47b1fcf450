"""Controls of a learner from outside: signals and test hooks.

They are passed on where another process trains.

SIGUSR1, SIGUSR2, standard input ─► Controls ─► wedge, pace
└─ relay ─► file ─► follow: wedge, pace of the process
that trains, whenever it was started
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from chaoslab.core.events import Json
from chaoslab.diloco.learner.counters import Counters, FragmentCounters
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.signals import Wedge
from chaoslab.diloco.node.hooks import Hooks

_LOOK_S = 0.02
_Handler: TypeAlias = Callable[[Mapping[str, Json]], None]


class Controls:
    """Requests by name, for one learner."""

    def __init__(self, pace: Pace, file: Path) -> None:
        """`file`: for requests that are passed on."""
        self.wedge = Wedge()
        self._file = file
        self._is_relayed = False
        self._handlers: dict[str, _Handler] = {
            "pace": pace.apply_pace_hook,
            "slow": pace.apply_slow_hook,
            "hang": self._hang,
        }

    def install(self, *, hears: bool) -> None:
        """Handle signals and, if it `hears`, the lines of standard input."""
        signal.signal(signal.SIGUSR1, lambda *_: self._do("hang", {"is_asked": True}))
        signal.signal(signal.SIGUSR2, lambda *_: self._do("hang", {"is_asked": False}))
        hooks = Hooks()
        for do in ("pace", "slow"):
            hooks.on(do, partial(self._do, do))
        if hears:
            hooks.listen()

    def relay(self) -> None:
        """Pass on what arrives from now on to processes that `follow`."""
        self._file.unlink(missing_ok=True)
        self._is_relayed = True

    def follow(self) -> None:
        """Carry out earlier and later requests."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _do(self, do: str, facts: Mapping[str, Json]) -> None:
        if not self._is_relayed:
            self._handlers[do](facts)
            return
        with self._file.open("a") as file:
            file.write(json.dumps([do, dict(facts)]) + "\n")

    def _follow(self) -> None:
        while not self._file.exists():
            time.sleep(_LOOK_S)
        with self._file.open() as file:
            while True:
                if line := file.readline():
                    do, facts = json.loads(line)
                    self._handlers[do](facts)
                else:
                    time.sleep(_LOOK_S)

    def _hang(self, facts: Mapping[str, Json]) -> None:
        if not facts["is_asked"]:
            self.wedge.release()
        elif threading.current_thread() is threading.main_thread():
            self.wedge.ask()  # as a handler of a signal, where it hangs at once if it may
        else:
            self.wedge.is_asked = True


_FIELDS = (
    "incarnation", "step", "tokens", "data_position", "version", "tokens_from", "committed",
    "discarded", "lost",
)  # fmt: skip


class Counts:
    """Counts of one incarnation in a file that outlives the process: some systems restart it.

    The counts of a learner whose model is one fragment, as of its last event.
    """

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
        """Its position in its data."""
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
            fresh = FragmentCounters(version=version, steps_from=step)
            return Counters(step=step, data_position=position, fragments=(fresh,))
        step = self.step  # it counts all steps of an incarnation, also those that were given up
        fragment = FragmentCounters(
            version=version,
            steps_from=step,
            tokens_from=tokens,
            committed=committed,
            discarded=discarded,
            lost=lost + tokens - tokens_from,
        )
        return Counters(step=step, tokens=tokens, data_position=position, fragments=(fragment,))
