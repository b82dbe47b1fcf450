"""Payloads of events of learners: steps, pushes, adoptions, checkpoints, token counts."""

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypedDict

from chaoslab.core.events import Kind, Payload
from chaoslab.core.payloads.syncer import Membership, OfLearner, Pushed, Round
from chaoslab.core.protocol import Corruption


class LeftBecause(StrEnum):
    """Reason why a learner left by itself."""

    STOPPED = "stopped"
    """The training has reached its end."""
    PREEMPTED = "preempted"
    ASKED = "asked"


class LearnerStarted(OfLearner, kind=Kind.LEARNER_STARTED):
    devices: int
    platform: str = "cpu"
    """cpu, gpu or tpu."""
    parameters: float


class LearnerCompiled(OfLearner, kind=Kind.LEARNER_COMPILED):
    """All functions with which it trains and pushes are compiled."""

    loaded: int
    """Number of functions that were loaded as an earlier process compiled them."""
    compiled: int
    """Number of those that were traced and compiled; JAX's own cache may have helped."""
    took_s: float
    """Time that both took."""
    refused: tuple[str, ...] = ()
    """Reasons for which files of compiled functions were not used, or not written."""


class LearnerJoined(Membership, kind=Kind.LEARNER_JOINED):
    source: str
    """Source of its parameters: initial, donor, syncer or resumed."""
    donor: str | None = None
    step: int
    data_position: int | None
    """Position in its data; None if it is not known, as for a script."""
    versions: Mapping[str, int]
    """Version of each fragment that it holds."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests by fragment, read from the device; empty if it kept its own, with work on top."""
    shard: int | None = None
    """Shard of the data that it reads; None if it does not say."""
    learning_rate: float | None = None
    """Learning rate of its next step; None if it does not say."""
    moments: str | None = None
    """Digest of the optimizer's moments, read from the device; None as well if it kept its own."""

    @property
    def position(self) -> int:
        """Number of the next batch of its data; 0 if it does not say."""
        return self.data_position or 0


class LearnerStep(Membership, kind=Kind.LEARNER_STEP):
    step: int
    steps: int = 1
    """Number of steps since the last event of this kind."""
    step_s: float
    """Mean duration of these steps, in seconds."""
    period_s: float | None = None
    """Duration of a step on the chip that it emulates; None if it emulates none."""
    overruns: int = 0
    """Periods lost since the last event of this kind, because steps ended too late."""
    loss: float | None
    """Loss; None: it reports none."""
    tokens: float
    """Raw tokens trained on in this incarnation; steps of a script, whose tokens are not known."""
    data_position: int | None
    waited_s: float = 0.0
    """Share of the time of these steps, in seconds, in which it waited for a round, or
    for other learners for more than a moment."""
    peer_bytes: int | None = None
    """Bytes that have arrived from other learners in this incarnation; None without
    `data_parallel`, and if the kernel does not count them."""
    learning_rate: float | None = None
    """Learning rate of its next step; None if it does not say."""
    is_inferred: bool = False
    """Another worker of its script reported it: of this one it is only known that it runs."""

    @property
    def known_loss(self) -> float:
        """The loss; NaN if it reports none."""
        return math.nan if self.loss is None else self.loss

    @property
    def position(self) -> int:
        """Number of the next batch of its data; 0 if it does not say."""
        return self.data_position or 0


class LearnerWaiting(Membership, kind=Kind.LEARNER_WAITING):
    """It makes no step until a round is merged (`blocking`), or until other learners are there
    (`data_parallel`); repeated while it lasts.
    """

    step: int
    fragment: int
    """Fragment whose next version it waits for: the one that it has had for the most steps."""
    c_steps: int
    """Steps since it adopted that fragment."""
    waited_s: float
    """Time since the wait began, in seconds."""
    is_for_learners: bool = False
    """Whether it waits for other learners: for their gradients, or to form a communicator."""


class LearnerPushed(Pushed, kind=Kind.LEARNER_PUSHED):
    """Contribution, and its range in the learner's own raw tokens."""


class UpdateTampered(Round, OfLearner, kind=Kind.UPDATE_TAMPERED):
    """The test hook of the learner corrupted this push before it was sent."""

    how: Corruption
    factor: float | None = None


class CheckpointSaved(OfLearner, kind=Kind.CHECKPOINT_SAVED):
    """The checkpoint is complete on the learner's disk."""

    file: str
    step: int
    bytes: int
    took_s: float


class CheckpointFailed(OfLearner, kind=Kind.CHECKPOINT_FAILED):
    """The disk refused; training continues, older checkpoints stay."""

    step: int
    reason: str


class RefusedFile(Payload):
    """A checkpoint that was refused."""

    file: str
    reason: str


class CheckpointFound(OfLearner, kind=Kind.CHECKPOINT_FOUND):
    """Reported at every start, whether the checkpoint is needed or not."""

    file: str | None = None
    """Its newest intact checkpoint; None if there is none."""
    step: int | None = None
    refused: tuple[RefusedFile, ...] = ()
    """Newer ones."""
    moments: str | None = None
    """Digest of the optimizer's moments in the file; None if it does not say."""


class CheckpointGiven(OfLearner, kind=Kind.CHECKPOINT_GIVEN):
    """A donor has packed its state for a learner that rejoins, and begins to send it."""

    step: int
    moments: str
    """Digest of the optimizer's moments in it."""


class AdoptedFields(TypedDict):
    """Fields of `LearnerAdopted`, without those of the membership."""

    fragment: int
    version: int
    step: int
    digest: str
    discarded_tokens: float
    committed_tokens: float


class LearnerAdopted(Membership, kind=Kind.LEARNER_ADOPTED):
    fragment: int
    version: int
    step: int
    digest: str | None = None
    discarded_tokens: float
    """Tokens of its own work that this version overwrote: those since the snapshot that
    it pushed; all since the adoption before if it did not contribute."""
    committed_tokens: float
    """Tokens of its own work that this version contains."""


class LearnerFenced(Membership, kind=Kind.LEARNER_FENCED):
    """The syncer ended its membership; it registers again."""

    reason: str


class LearnerNoticed(OfLearner, kind=Kind.LEARNER_NOTICED):
    """A preemption notice arrived."""

    step: int


class LearnerFinal(OfLearner, kind=Kind.LEARNER_FINAL):
    """Token counts at the end; all mappings are by fragment."""

    step: int
    tokens: float
    versions: Mapping[str, int]
    digests: Mapping[str, str]
    """Digests of the values read from the device."""
    committed: Mapping[str, float]
    """Number of committed tokens."""
    discarded: Mapping[str, float]
    in_flight: Mapping[str, float]


class HostStarted(OfLearner, kind=Kind.HOST_STARTED):
    """The process of one host of a learner of several was started."""

    host: int
    """Number of the host, from 0."""
    pid: int
    """Process id on its host."""


class HostLost(OfLearner, kind=Kind.HOST_LOST):
    """A learner lost the process of one of its hosts, and ends with it. Told by the supervisor,
    which knows how it ended, by the process of host 0, or by both.
    """

    host: int
    reason: str
    """How it ended, or that its heartbeats ended."""
    signal: str | None = None
    """Name of the signal that ended it; None if none is known."""


class LearnerLeft(OfLearner, kind=Kind.LEARNER_LEFT):
    step: int
    reason: LeftBecause
