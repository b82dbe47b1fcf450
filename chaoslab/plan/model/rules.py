"""Rules that values of a plan must meet, and errors that name key, rule and value."""

from collections.abc import Iterable, Iterator

from chaoslab.core.errors import PlanError


def broken(is_met: bool, key: str, value: object, rule: str) -> Iterator[PlanError]:
    """The mistake at `key`, unless the rule holds."""
    if not is_met:
        shown = f"{value:g}" if isinstance(value, float) else value
        yield PlanError(f"must be {rule}, got {shown}", key=key)


def refuse(mistakes: Iterable[PlanError]) -> None:
    """PlanError of all of these, if there are any."""
    found = tuple(mistakes)
    if len(found) == 1:
        raise found[0]
    if found:
        error = PlanError("\n".join(map(str, found)))
        error.parts = found
        raise error
