"""What the two threads of a learner hand each other: snapshots one way, an inbox the other.

    training thread ── Snapshot ──► messenger ══► syncer
                   ◄── Inbox: Joined, Adoption, Handover, the end ──┘

Data only; nothing here waits, and arrays are never changed once they are in it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from chaoslab.diloco.model.fragments import FloatArray, Layout
from chaoslab.diloco.settings import Settings, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a learner is at one step boundary. Per-fragment tuples have P entries.

    `delta(p)` gives base - params of fragment p as float32 [n_p]; `pack()` the checkpoint payload.
    """

    step: int
    tokens: int
    """Raw tokens of this life."""
    data_position: int
    loss: float
    step_s: float
    versions: tuple[int, ...]
    since_steps: tuple[int, ...]
    """Steps since the fragment was adopted: c_steps."""
    since_tokens: tuple[int, ...]
    """Raw tokens at the moment of adoption; c_tokens = tokens - this."""
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
    """Raw tokens of this life that the syncer has merged into the fragment so far."""
    digest: str
    """Of `values` as they arrived."""
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A donor's checkpoint."""

    versions: tuple[int, ...]
    step: int
    data_position: int
    donor: str
    payload: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The syncer's welcome."""

    epoch: int
    source: Source
    donor: str
    settings: Settings
    layout: Layout
    data_position: int
    step: int


@dataclass(slots=True)
class Inbox:
    """What has arrived since the training thread last looked."""

    joined: Joined | None = None
    adoptions: dict[int, Adoption] = field(default_factory=dict)
    handover: Handover | None = None
    stop: tuple[str, tuple[int, ...]] | None = None
    """Why training ended, and the last versions."""
    refused: str | None = None

    def update(self, newer: "Inbox") -> None:
        """Add what has arrived since; of each thing the newest counts."""
        self.adoptions |= newer.adoptions
        self.joined = newer.joined or self.joined
        self.handover = newer.handover or self.handover
        self.stop = newer.stop or self.stop
        self.refused = newer.refused or self.refused
