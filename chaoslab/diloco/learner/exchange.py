"""Data passed between a learner's two threads: snapshots one way, an inbox the other.

    training thread ── Snapshot ──► messenger ══► syncer
                   ◄── Inbox: Joined, Adoption, Handover, stop ──┘

Data only; nothing here waits, and arrays in it are never changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes

Vector: TypeAlias = Any
"""Values of a fragment: float32 [n_p], or what a simulation has in their place."""
Outgoing: TypeAlias = tuple[pb.Push, Callable[[], Bytes]]
"""A header, and a function that makes its payload on the sender's thread."""


class Snapshot(NamedTuple):
    """State of a learner at one step boundary.

    `delta(p)` gives base - params of fragment p as float32 [n_p]; `pack()` the checkpoint payload,
    and `moments_digest(payload)` the digest of the moments in it.
    """

    counters: Counters
    delta: Callable[[int], Vector]
    pack: Callable[[], bytes]
    moments_digest: Callable[[bytes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A published fragment to be adopted: float32 [n_p]."""

    fragment: int
    version: int
    committed_tokens: int
    """Raw tokens of this incarnation that the syncer has merged into the fragment."""
    digest: str
    """Digest of `values` as received."""
    values: Vector


class Handover(NamedTuple):
    """Checkpoint of a donor, as the syncer passed it on; `payload` is as `Inner.pack` makes it."""

    header: pb.Checkpoint
    payload: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Membership granted by the syncer's welcome, with settings, layout and where to continue."""

    epoch: int
    source: Source
    settings: Settings
    layout: Any
    """`model.fragments.Layout`."""
    data_position: int
    step: int


class Payloads(Protocol):
    """Values of a learner as they are sent: `payloads.ArrayPayloads`, or a simulation's."""

    @property
    def specs_json(self) -> str:
        """The learner's tensors, for its hello."""
        ...

    def cut(self, settings: Settings) -> Any:
        """Layout of its tensors in fragments, for those to come; ValueError if there is none."""
        ...

    def adoption(self, header: pb.Fragment, payload: memoryview) -> Adoption:
        """A published fragment; MalformedPayload or ValueError if it is invalid."""
        ...

    def initial(self, values: Vector) -> Bytes:
        """A fragment of the initial parameters, in full precision."""
        ...

    def outgoing(self, push: pb.Push, values: Callable[[], Vector]) -> Sequence[Outgoing]:
        """What to send for a push; normally the push itself."""
        ...


@dataclass(slots=True)
class Inbox:
    """Items that arrived since the training thread last took them."""

    joined: Joined | None = None
    adoptions: dict[int, Adoption] = field(default_factory=dict)
    handover: Handover | None = None
    communicator: pb.Communicator | None = None
    stop: pb.Stop | None = None
    """Training has ended; with the last versions."""
    refused: str | None = None

    def update(self, newer: "Inbox") -> None:
        """Add newer items; the newest of each kind replaces the earlier one."""
        self.adoptions |= newer.adoptions
        if newer.joined is not None:
            self.joined, self.handover = newer.joined, None  # it was for the earlier one
        self.handover = newer.handover or self.handover
        self.communicator = newer.communicator or self.communicator
        self.stop = newer.stop or self.stop
        self.refused = newer.refused or self.refused
