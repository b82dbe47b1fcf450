"""Journal of a run: its only writer, and the observers that are shown each event.

    run ─► Journal.write ─► journal.jsonl (one flushed line per event)
                        └─► observers (console, dashboard, metrics): see(event)

`history` reads it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Observation
from chaoslab.core.secrets import Secrets
from chaoslab.record.history import History
from chaoslab.record.journal_file import JournalFile, Seal


class Observer(Protocol):
    """Anything that watches a run. It cannot change it."""

    def see(self, event: Event) -> None:
        """Called once for each event, right after it was written."""
        ...


class Journal:
    """Append-only writer of one run; also keeps the events so that the run can look back."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        observers: Sequence[Observer] = (),
        secrets: Secrets | None = None,
        lines_at_once: int = 1,
    ) -> None:
        """`lines_at_once`: see `JournalFile`."""
        self.clock = clock
        self.history = History(())
        self._observers = list(observers)
        self._unseen: list[Event] | None = None
        """Events that observers have yet to see; None while they see everything at once."""
        self.secrets = secrets or Secrets()
        self.trouble = ""
        """First error of a write; empty without one."""
        try:
            self._file = JournalFile(directory, lines_at_once=lines_at_once)
        except OSError as error:
            raise FleetError(f"the journal cannot be begun: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, seen: Observation) -> Event:
        """Hide secrets, stamp, append, flush, show.

        FleetError when the disk refuses for the first time. That ends the run. What follows is
        healing, which must not fail because a line is missing: what cannot be written then is
        passed over, and the record breaks off after its last whole line.
        """
        event = Event(
            seq=len(self.history.events),
            time_s=self.clock.now_s(),
            wall=self.clock.wall(),
            source=seen.source,
            kind=seen.kind,
            data=self.secrets.data(seen.data),
            node_s=seen.node_s,
        )
        try:
            self._file.append(event.to_line())
        except OSError as error:
            self._fail(error)
            return event
        self.history.append(event)
        if self._unseen is None:
            self._show(event)
        else:
            self._unseen.append(event)
        return event

    def defer_observers(self, *, is_urgent: bool) -> None:
        """Let observers wait, which may take long to draw; afterwards they see what they missed."""
        if is_urgent:
            self._unseen = self._unseen or []
        elif self._unseen is not None:
            unseen, self._unseen = self._unseen, None
            for event in unseen:
                self._show(event)

    def _fail(self, error: OSError) -> None:
        if not self.trouble:
            self.trouble = f"the journal cannot be written ({error}): the run is healed and stopped"
            raise FleetError(self.trouble) from error

    @property
    def seal(self) -> Seal:
        """Of what was written so far, all of which is on its way to the disk now; what run.json
        says of it when the run is over. FleetError as of `write`.
        """
        try:
            self._file.flush()
        except OSError as error:
            self._fail(error)
        return self._file.seal

    def _show(self, event: Event) -> None:
        for observer in list(self._observers):
            try:
                observer.see(event)
            except Exception:
                logging.getLogger(__name__).exception("an observer failed and was put aside")
                self._observers.remove(observer)
