"""Payloads of what learners say: steps, pushes, adoptions, checkpoints, accounts."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from chaoslab.core.events import Kind
from chaoslab.core.payload import Payload, item, payload_of
from chaoslab.core.payloads.syncer import Membership, OfLearner, Pushed


class LeftBecause(StrEnum):
    """Why a learner left by itself."""

    STOPPED = "stopped"
    """Training has ended."""
    PREEMPTED = "preempted"
    ASKED = "asked"

    @classmethod
    def _missing_(cls, value: object) -> "LeftBecause | None":
        """Older records add to `stopped` why training ended."""
        return cls.STOPPED if str(value).startswith("stopped") else None


@payload_of(Kind.LEARNER_STARTED)
class LearnerStarted(OfLearner):
    devices: int
    platform: str = "cpu"
    """cpu, gpu or tpu."""
    parameters: float


@payload_of(Kind.LEARNER_JOINED)
class LearnerJoined(Membership):
    source: str
    """Where its parameters come from: initial, donor, syncer or resumed."""
    donor: str | None = None
    step: int
    data_position: int
    versions: Mapping[str, int]
    """By fragment."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """By fragment, read from the device; empty if it kept its own, with work on top."""


@payload_of(Kind.LEARNER_STEP)
class LearnerStep(Membership):
    step: int
    steps: int = 1
    """Since the last sample."""
    step_s: float
    """Their mean."""
    loss: float
    tokens: float
    """Raw, of this incarnation."""
    data_position: int


@payload_of(Kind.LEARNER_PUSHED)
class LearnerPushed(Pushed):
    """What it contributes, and where in its own raw tokens that lies."""


@payload_of(Kind.UPDATE_TAMPERED)
class UpdateTampered(OfLearner):
    """Its test hook spoilt this push on its way out."""

    round: int
    fragment: int
    how: str
    """A `diloco.learner.tampering.How`."""
    factor: float | None = None


@payload_of(Kind.CHECKPOINT_SAVED)
class CheckpointSaved(OfLearner):
    """On its own disk, whole."""

    file: str
    step: int
    bytes: int
    took_s: float


@payload_of(Kind.CHECKPOINT_FAILED)
class CheckpointFailed(OfLearner):
    """The disk refused; training goes on, older ones stay."""

    step: int
    reason: str


@item
class RefusedFile(Payload):
    """A checkpoint that was passed over."""

    file: str
    reason: str


@payload_of(Kind.CHECKPOINT_FOUND)
class CheckpointFound(OfLearner):
    """When it started, whether it needs one or not."""

    file: str | None = None
    """Its own newest whole one."""
    step: int | None = None
    refused: tuple[RefusedFile, ...] = ()
    """`file` and `reason` of newer ones that were passed over."""


@payload_of(Kind.LEARNER_ADOPTED)
class LearnerAdopted(Membership):
    fragment: int
    version: int
    step: int
    digest: str | None = None
    discarded_tokens: float
    """Its own work that this overwrote."""
    committed_tokens: float
    """Its own work that this version contains."""


@payload_of(Kind.LEARNER_FENCED)
class LearnerFenced(Membership):
    """It was told that it is no longer a member; it registers again."""

    reason: str


@payload_of(Kind.LEARNER_NOTICED)
class LearnerNoticed(OfLearner):
    """A preemption notice arrived."""

    step: int


@payload_of(Kind.LEARNER_FINAL)
class LearnerFinal(OfLearner):
    """The final account; all mappings are by fragment."""

    step: int
    tokens: float
    versions: Mapping[str, int]
    digests: Mapping[str, str]
    """Read from the device."""
    committed: Mapping[str, float]
    """Tokens; so are the following."""
    discarded: Mapping[str, float]
    in_flight: Mapping[str, float]


@payload_of(Kind.LEARNER_LEFT)
class LearnerLeft(OfLearner):
    step: int
    reason: LeftBecause
    """stopped, preempted or asked."""
