"""Payload of what a training that is not chaoslab's own says in its output."""

from enum import StrEnum

from chaoslab.core.events import Kind, Payload


class What(StrEnum):
    """What a line of a trainer tells."""

    PROGRESS = "progress"
    SAVED = "saved"
    RESUMED = "resumed"


class TrainerSaid(Payload, kind=Kind.TRAINER_SAID):
    """A line of a worker's output that its script's patterns match, as it was read."""

    node: str
    incarnation: int
    what: What
    """progress, saved: a checkpoint is complete, resumed: it goes on from one."""
    step: int | None = None
    """As the trainer counts; None where the line has none."""
    loss: float | None = None
    learning_rate: float | None = None
    rank: int | None = None
    """Of the process that the line names, if it names one."""
    line: str = ""
