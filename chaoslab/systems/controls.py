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

from chaoslab.core.events import Json
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
        """Do what was passed on so far, and from now on."""
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
