"""Parts of objects as the server has them. What is not there, or of another type, is empty."""

from collections.abc import Mapping, Sequence

from chaoslab.core.events import Json


def mapping(found: Mapping[str, Json], *keys: str) -> Mapping[str, Json]:
    """The mapping at the end of these keys."""
    for key in keys:
        inner = found.get(key)
        found = inner if isinstance(inner, Mapping) else {}
    return found


def listed(found: Mapping[str, Json], *keys: str) -> Sequence[Json]:
    """The list at the end of these keys."""
    inner = mapping(found, *keys[:-1]).get(keys[-1])
    return inner if isinstance(inner, list) else []


def mappings(found: Mapping[str, Json], *keys: str) -> Sequence[Mapping[str, Json]]:
    """The mappings of the list at the end of these keys."""
    return [one for one in listed(found, *keys) if isinstance(one, Mapping)]
