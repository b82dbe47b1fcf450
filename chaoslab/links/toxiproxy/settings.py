"""Toxiproxy as a plan names it; its client is imported when links are made."""

import re
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.errors import PlanError
from chaoslab.links.base import Links
from chaoslab.links.settings import LinksFactory
from chaoslab.undo.base import UndoLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxiproxy:
    """A Toxiproxy server."""

    toxiproxy: str | None = None
    """host:port of the API of a Toxiproxy server that runs already; None: one of our own."""

    def __post_init__(self) -> None:
        if self.toxiproxy is not None and not re.fullmatch(r".+:[0-9]+", self.toxiproxy):
            raise PlanError(
                f"{self.toxiproxy!r} is not an address: write host:port", key="toxiproxy"
            )

    def factory(self, seed: int) -> LinksFactory:  # noqa: ARG002 - the protocol's
        """A proxy for each learner, on the server of the plan or one that is started."""
        return self._links

    def _links(self, run_directory: Path, /, *, undo_log: UndoLog) -> Links:
        from chaoslab.links.toxiproxy.links import ToxiproxyLinks  # noqa: PLC0415  # needs a client

        return ToxiproxyLinks(run_directory, undo_log=undo_log, address=self.toxiproxy)
