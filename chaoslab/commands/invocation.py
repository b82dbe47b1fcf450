"""What the command line remembers while a command goes on, so that a crash finds its record."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Invocation:
    """One call of `chaoslab`."""

    run_directory: Path | None = None
    """Of the run that this call has made last, if any."""

    def remember(self, run_directory: Path) -> None:
        """From now on this run is the one that a crash is about."""
        self.run_directory = run_directory
