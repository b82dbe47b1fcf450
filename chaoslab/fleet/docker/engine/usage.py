"""Use of memory and CPU by one container, as its engine reports it about once a second.

engine ── a line of statistics a second ──► a thread ──► usage, the latest
"""

import threading
from contextlib import suppress

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.engine import Engine, Usage


class Meter:
    """Begins when it is first asked, and ends with its container or when it is closed."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine, self._container = engine, container
        self._usage: Usage | None = None
        self._is_running = False
        self._is_closing = False

    @property
    def usage(self) -> Usage | None:
        """Last usage reported by the engine, within a second; None before the first."""
        if not self._is_running:
            self._is_running = True
            name = f"{self._container} use"
            threading.Thread(target=self._listen, name=name, daemon=True).start()
        return self._usage

    def close(self) -> None:
        """Stop measuring."""
        self._is_closing = True

    def _listen(self) -> None:
        """Read usage until the container is gone, on a thread of its own."""
        with suppress(FleetError):
            for usage in self._engine.usages(self._container):
                if self._is_closing:
                    return
                self._usage = usage
