"""Messages of a simulated training: what `wire.proto` carries, as far as a simulation needs it."""

import msgspec

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.decisions import Contribution, Hello, Offer, Progress
from chaoslab.diloco.syncer.norms import Excess


def flat(said: Offer | Contribution | Excess) -> dict[str, Json]:
    """Numbers and names by field; `dataclasses.asdict` would copy each, which takes longer."""
    return {name: getattr(said, name) for name in said.__slots__}


# ---------------------------------------------------------------- to the syncer


class HelloMessage(msgspec.Struct, frozen=True):
    """The first message of a stream."""

    hello: Hello
    parameters: int


class ProgressMessage(msgspec.Struct, frozen=True):
    """Counters after a step, and twice a second."""

    epoch: int
    report: Progress


class PushMessage(msgspec.Struct, frozen=True):
    """Work on a fragment; without steps it declines the pull."""

    epoch: int
    offer: Offer
    size_bytes: int
    scale: float
    """Times as large as it should be; NaN if one of its values is."""


class InitialMessage(msgspec.Struct, frozen=True):
    """One fragment of the initial parameters."""

    epoch: int
    fragment: int


class CheckpointBegun(msgspec.Struct, frozen=True):
    """A donor's state is on its way."""

    epoch: int
    request: int


class CheckpointMessage(msgspec.Struct, frozen=True):
    """A donor's state, first to the syncer and then to the receiver."""

    epoch: int
    request: int
    versions: tuple[int, ...]
    digests: tuple[str, ...]
    step: int
    donor: str
    size_bytes: int


class Goodbye(msgspec.Struct, frozen=True):
    """The learner leaves."""

    epoch: int


# ---------------------------------------------------------------- to a learner


class WelcomeMessage(msgspec.Struct, frozen=True):
    """A membership."""

    epoch: int
    source: str
    fragments: int
    steps_before_wait: int | None
    data_position: int
    step: int
    crowd: int
    """Learners of the roster."""
    compression: str


class PullMessage(msgspec.Struct, frozen=True):
    """Asks for work on a fragment."""

    round: int
    fragment: int
    base_version: int


class Published(msgspec.Struct, frozen=True):
    """A version of a fragment."""

    fragment: int
    version: int
    round: int
    digest: str
    committed_tokens: int
    """Committed tokens of the receiver."""
    loss: float
    """Loss of the global parameters, by the model."""


class CheckpointRequest(msgspec.Struct, frozen=True):
    """Asks a donor for its state, at these versions or later."""

    request: int
    versions: tuple[int, ...]


class StopMessage(msgspec.Struct, frozen=True):
    """Training has ended."""

    reason: str
    versions: tuple[int, ...]


class Fenced(msgspec.Struct, frozen=True):
    """The membership has ended."""

    reason: str


class RefusedMessage(msgspec.Struct, frozen=True):
    """The hello was not accepted."""

    reason: str
