"""Links that carry nothing, for runs without processes: they keep books, and can break."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from chaoslab.core.errors import FleetError
from chaoslab.links.base import (
    Counters,
    Direction,
    DirectLink,
    Effect,
    Link,
    LinkAbility,
    NoLinks,
)


class FakeLink(DirectLink):
    """A direct link that counts and obeys its maker's troubles."""

    def __init__(self, name: str, upstream: str, made_by: "FakeLinks") -> None:
        super().__init__(name, upstream)
        self.address = f"127.0.0.1:{9000 + len(made_by.made)}"
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
        super().__init__(abilities)
        self.broken = broken
        self.made: dict[str, FakeLink] = {}
        self.entered = 0
        """How often entered, less how often left."""

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.entered -= 1

    def create(self, name: str, upstream: str) -> FakeLink:
        self.answer()
        self.made[name] = FakeLink(name, upstream, self)
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
