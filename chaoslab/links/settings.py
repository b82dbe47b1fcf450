"""A kind of links as a plan names it: `fleet: {links: toxiproxy, toxiproxy: 127.0.0.1:8474}`.

    the class of each kind, by its name ─► keys of `fleet:` ─► LinksSettings ─ factory ─► Links

To add one: a frozen dataclass with `factory`, registered under its name (`prepare.kinds`, or an
entry point of "chaoslab.links").
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaoslab.links.base import Links, NoLinks
from chaoslab.undo.base import UndoLog


class LinksFactory(Protocol):
    """Makes the links of one run. Nothing is started before they are entered."""

    def __call__(self, run_directory: Path, /, *, undo_log: UndoLog) -> Links: ...


@runtime_checkable
class LinksSettings(Protocol):
    """A frozen dataclass whose fields are keys of a plan's `fleet:`, all with defaults.

    Its docstring is what `chaoslab catalog schema` says of this kind.
    """

    def factory(self, seed: int) -> LinksFactory:
        """Makes such links between processes of this machine; `seed` is the plan's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """Learners connect directly to the syncer."""

    def factory(self, seed: int) -> LinksFactory:  # noqa: ARG002 - the protocol's
        """No links."""
        return lambda _, *, undo_log: NoLinks()  # noqa: ARG005 - nothing to undo
