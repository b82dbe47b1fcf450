"""Interface of the adapters of systems of others, which are found by name."""

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from chaoslab.systems.learner import Learner


class Adapter(Protocol):
    """The functions of a module of this package with the name of the system."""

    def coordinator(
        self, host: str, folder: Path, settings: Mapping[str, Any]
    ) -> AbstractContextManager[str]:
        """Run the system's central service during a block; its HOST:PORT."""
        ...

    def train(self, learner: "Learner") -> None:
        """Train until the learner is over."""
        ...


def adapter(name: str) -> Adapter:
    """The adapter of a system; its imports are the system's."""
    return cast("Adapter", importlib.import_module(f"chaoslab.systems.{name}"))
