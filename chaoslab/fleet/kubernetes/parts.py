"""Parts of objects as the server has them. What is not there, or of another type, is empty."""

from collections.abc import Mapping, Sequence

from chaoslab.core.events import Json


def mapping(found: Mapping[str, Json], *keys: str) -> Mapping[str, Json]:
    """The mapping at the end of these keys."""
    for key in keys:
        inner = found.get(key)
        found = inner if isinstance(inner, Mapping) else {}
    return found


def mappings(found: Mapping[str, Json], *keys: str) -> Sequence[Mapping[str, Json]]:
    """The mappings of the list at the end of these keys."""
    listed = mapping(found, *keys[:-1]).get(keys[-1])
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
