"""Memory of the command line while a command goes on, so that a crash finds its record."""

from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.secrets import Secrets


@dataclass(slots=True)
class Invocation:
    """One call of `chaoslab`."""

    run_directory: Path | None = None
    """Of the run that this call has made last, if any."""
    secrets: Secrets = field(default_factory=Secrets)
    """Of its plan: what a crash must not show."""

    def remember(self, run_directory: Path) -> None:
        """From now on this run is the one that a crash is about."""
        self.run_directory = run_directory
