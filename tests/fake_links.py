"""Links that carry nothing, for runs without processes: they keep books, and can break."""

from collections.abc import Mapping, Sequence
from typing import Self

from chaoslab.core.errors import FleetError
from chaoslab.links.base import Counters, Link, NoLinks
from chaoslab.links.effects import Direction, Effect, LinkAbility, Reset


class ListedLink:
    """A link that only keeps a list of what was put on it."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.effects: dict[tuple[str, Direction, str], Effect] = {}
        """By injection, direction and kind."""

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        if not isinstance(effect, Reset):
            self.effects[injection, direction, effect.kind] = effect

    def clear(self, injection: str) -> None:
        self.effects = {key: one for key, one in self.effects.items() if key[0] != injection}

    def counters(self) -> Counters:
        return Counters(up_bytes=None, down_bytes=None, connections=None, opened=None)


class FakeLink(ListedLink):
    """A link that counts and obeys its maker's troubles."""

    def __init__(self, name: str, made_by: "FakeLinks") -> None:
        super().__init__(name, f"127.0.0.1:{9000 + len(made_by.made)}")
        self._made_by = made_by

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        self._made_by.answer()
        super().shape(injection, direction, effect)

    def clear(self, injection: str) -> None:
        self._made_by.answer()
        super().clear(injection)

    def counters(self) -> Counters:
        self._made_by.answer()
        return Counters(up_bytes=10, down_bytes=20, connections=1, opened=1)


class FakeLinks(NoLinks):
    """All abilities; `broken` says what has happened to the proxy."""

    kind = "fake"

    def __init__(
        self, abilities: frozenset[LinkAbility] = frozenset(LinkAbility), *, broken: str = ""
    ) -> None:
        super().__init__()
        self.abilities = abilities
        self.broken = broken
        self.made: dict[str, FakeLink] = {}
        self.entered = 0
        """How often entered, less how often left."""

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.entered -= 1

    def create(  # type: ignore[override]  # of another class
        self, name: str, upstream: str
    ) -> FakeLink:
        self.answer()
        self.made[name] = FakeLink(name, self)
        return self.made[name]

    @property
    def links(self) -> Mapping[str, Link]:  # type: ignore[override]  # of another class
        return dict(self.made)

    def troubles(self) -> Sequence[str]:
        return (self.broken,) if self.broken else ()

    def answer(self) -> None:
        """What every verb of a dead proxy does."""
        if self.broken:
            raise FleetError("connection refused")
