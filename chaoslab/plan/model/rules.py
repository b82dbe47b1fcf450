"""Rule that a value of a plan must meet, and the error that names key, rule and value."""

from chaoslab.core.errors import PlanError


def hold(is_held: bool, key: str, value: object, rule: str) -> None:
    """PlanError at `key` unless the rule holds."""
    if not is_held:
        shown = f"{value:g}" if isinstance(value, float) else value
        raise PlanError(f"must be {rule}, got {shown}", key=key)
