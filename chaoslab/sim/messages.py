"""Messages of a simulated training: what `wire.proto` carries, as far as a simulation needs it."""

from typing import NamedTuple

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.decisions import Contribution, Hello, Offer, Progress
from chaoslab.diloco.syncer.norms import Excess


def flat(said: Offer | Contribution | Excess) -> dict[str, Json]:
    """Its numbers and names by field; `dataclasses.asdict` would copy each, which takes longer."""
    return {name: getattr(said, name) for name in said.__slots__}


# ---------------------------------------------------------------- to the syncer


class HelloMessage(NamedTuple):
    """The first message of a stream."""

    hello: Hello
    parameters: int


class ProgressMessage(NamedTuple):
    """Counters after a step, and twice a second."""

    epoch: int
    report: Progress


class PushMessage(NamedTuple):
    """Work on a fragment; without steps it declines the pull."""

    epoch: int
    offer: Offer
    size_bytes: int
    scale: float
    """Times as large as it should be; NaN if one of its values is."""


class InitialMessage(NamedTuple):
    """One fragment of the initial parameters."""

    epoch: int
    fragment: int


class CheckpointMessage(NamedTuple):
    """A donor's state, first to the syncer and then to the receiver."""

    epoch: int
    request: int
    versions: tuple[int, ...]
    digests: tuple[str, ...]
    step: int
    donor: str
    size_bytes: int


class Goodbye(NamedTuple):
    """The learner leaves."""

    epoch: int


# ---------------------------------------------------------------- to a learner


class WelcomeMessage(NamedTuple):
    """A membership."""

    epoch: int
    source: str
    fragments: int
    steps_held: int | None
    data_position: int
    step: int
    crowd: int
    """Learners of the roster."""
    compression: str


class PullMessage(NamedTuple):
    """Asks for work on a fragment."""

    round: int
    fragment: int
    base_version: int


class Published(NamedTuple):
    """A version of a fragment."""

    fragment: int
    version: int
    round: int
    digest: str
    committed_tokens: int
    """Of the receiver's own."""
    loss: float
    """Of the global parameters, by the model."""


class CheckpointRequest(NamedTuple):
    """Asks a donor for its state, at these versions or later."""

    request: int
    versions: tuple[int, ...]


class StopMessage(NamedTuple):
    """Training has ended."""

    reason: str
    versions: tuple[int, ...]


class Fenced(NamedTuple):
    """The membership has ended."""

    reason: str


class RefusedMessage(NamedTuple):
    """The hello was not accepted."""

    reason: str
