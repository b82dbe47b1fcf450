"""When a run began, on the calendar: for reports that need absolute times."""

from datetime import UTC, datetime, timedelta

from chaoslab.record.journal import History

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def began_ns(history: History) -> int | None:
    """The time 0 of the run's clock in nanoseconds since the epoch, by the first line that has
    both; None if no line has.
    """
    for event in history.events:
        if event.wall:
            try:
                wall = datetime.fromisoformat(event.wall)
            except ValueError:
                continue
            if wall.tzinfo is None:
                wall = wall.replace(tzinfo=UTC)
            since = (wall - _EPOCH) // timedelta(microseconds=1)
            return since * 1000 - round(event.time_s * 1e9)
    return None
