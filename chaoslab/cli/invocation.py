"""Memory of the command line while a command runs, so that a crash finds its record."""

from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.secrets import Secrets


@dataclass(slots=True)
class Invocation:
    """One call of `chaoslab`."""

    run_directory: Path | None = None
    """Directory of the newest run of this call, if any."""
    secrets: Secrets = field(default_factory=Secrets)
    """Secrets of its plan, which a crash must not show."""

    def remember(self, run_directory: Path) -> None:
        """Note the directory of the run that a crash would concern."""
        self.run_directory = run_directory
