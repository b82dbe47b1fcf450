"""What the command line remembers while a command goes on, so that a crash finds its record."""

from dataclasses import dataclass
from pathlib import Path

LATEST = "latest"


@dataclass(slots=True)
class Invocation:
    """One call of `chaoslab`."""

    root: Path | None = None
    before: Path | None = None
    """The newest run when the command began."""

    def expect_run(self, root: Path) -> None:
        """From now on a new run under `root` belongs to this call."""
        self.root, self.before = root, latest(root)

    @property
    def run_directory(self) -> Path | None:
        """The run that this call has made so far, if any."""
        newest = latest(self.root) if self.root else None
        return None if newest == self.before else newest


def latest(root: Path) -> Path | None:
    """The directory of the newest run under `root`, if there is one."""
    link = root / LATEST
    return link.resolve() if link.exists() else None
