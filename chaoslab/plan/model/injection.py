"""Injection: one scheduled fault with exact targets, made by `schedule`, carried out by `run`."""

from dataclasses import dataclass

from chaoslab.plan.model.faults import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One scheduled fault: number, exact targets, trigger, heal rule. No random choice is left.

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
    """Nodes that are asked to announce the phase of the trigger. Without targets, the first node to
    announce it becomes the target."""

    @property
    def id(self) -> str:
        """Name of the injection in events: injection-0, injection-1, …"""
        return f"injection-{self.number}"
