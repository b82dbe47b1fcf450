"""An undo log in memory."""

from chaoslab.undo.base import NoUndoLog


class Remembered(NoUndoLog):
    """Obligations in memory."""

    def __init__(self) -> None:
        self.opened: list[dict[str, object]] = []
        self.closed: list[int] = []

    def open(self, do: str, **facts: object) -> int:
        self.opened.append({"do": do, **facts})
        return len(self.opened) - 1

    def close(self, number: int) -> None:
        self.closed.append(number)
