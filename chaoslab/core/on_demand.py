"""Tables of classes that are imported when one of them is first asked for.

    OnDemand({"process.kill": "chaoslab.faults.process:ProcessKill", …})
        names, `in`, len ─► nothing is imported        table["process.kill"] ─► its module is

A plan names a few of a hundred classes, and a command imports no others. Whether every place holds
what its table says is tested, not found out by importing.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

_T_co = TypeVar("_T_co", covariant=True)


class OnDemand(Mapping[str, _T_co]):
    """A table from names to places, `module:object`, in the order in which they were given."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)

    def __getitem__(self, name: str) -> _T_co:
        found: _T_co = _imported(self._places[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@cache
def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
