"""One fault after all chance is spent: what `schedule` makes of a plan and `run` carries out."""

from dataclasses import dataclass

from chaoslab.plan.model.faults import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault after scheduling: number, exact targets, trigger, heal rule. Nothing is left open.

    `number` counts from zero in the order of the schedule; `spec` is the id of its FaultSpec.
    """

    number: int
    spec: str
    fault: str
    settings: object
    targets: tuple[str, ...]
    trigger: Trigger
    for_s: float | None
    """Seconds until it is healed; None: never before the end (`for: rest`)."""
    watched: tuple[str, ...] = ()
    """Who is asked to announce the phase of the trigger. With no targets, whoever announces it
    first becomes the target."""

    @property
    def id(self) -> str:
        """injection-0, injection-1, …"""
        return f"injection-{self.number}"
