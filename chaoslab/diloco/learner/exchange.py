"""Data passed between a learner's two threads: snapshots one way, an inbox the other.

    training thread ── Snapshot ──► messenger ══► syncer
                   ◄── Inbox: Joined, Adoption, Handover, stop ──┘

Data only; nothing here waits, and arrays in it are never changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from chaoslab.diloco.model.fragments import FloatArray, Layout
from chaoslab.diloco.settings import Settings, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State of a learner at one step boundary. Per-fragment tuples have P entries.

    `delta(p)` gives base - params of fragment p as float32 [n_p]; `pack()` the checkpoint payload.
    """

    step: int
    tokens: int
    """Raw tokens of this incarnation."""
    data_position: int
    loss: float
    step_s: float
    versions: tuple[int, ...]
    since_steps: tuple[int, ...]
    """c_steps: steps since the fragment was adopted."""
    since_tokens: tuple[int, ...]
    """Raw tokens at the adoption of the fragment; c_tokens = tokens - this."""
    delta: Callable[[int], FloatArray]
    pack: Callable[[], bytes]

    def c_tokens(self, fragment: int) -> int:
        """Tokens trained on since the fragment was adopted."""
        return self.tokens - self.since_tokens[fragment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A published fragment to be adopted: float32 [n_p]."""

    fragment: int
    version: int
    committed_tokens: int
    """Raw tokens of this incarnation that the syncer has merged into the fragment."""
    digest: str
    """Digest of `values` as received."""
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Checkpoint of a donor, as the syncer passed it on; `payload` as in `inner_steps.to_bytes`."""

    versions: tuple[int, ...]
    step: int
    data_position: int
    donor: str
    payload: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Membership granted by the syncer's welcome, with settings, layout and where to continue."""

    epoch: int
    source: Source
    donor: str
    settings: Settings
    layout: Layout
    data_position: int
    step: int


@dataclass(slots=True)
class Inbox:
    """Items that arrived since the training thread last took them."""

    joined: Joined | None = None
    adoptions: dict[int, Adoption] = field(default_factory=dict)
    handover: Handover | None = None
    stop: tuple[str, tuple[int, ...]] | None = None
    """Reason why training ended, and the last versions; None while it continues."""
    refused: str | None = None

    def update(self, newer: "Inbox") -> None:
        """Add newer items; the newest of each kind replaces the earlier one."""
        self.adoptions |= newer.adoptions
        self.joined = newer.joined or self.joined
        self.handover = newer.handover or self.handover
        self.stop = newer.stop or self.stop
        self.refused = newer.refused or self.refused
