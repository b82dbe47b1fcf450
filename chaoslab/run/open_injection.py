"""OpenInjection: what the injector knows of an injection that it began and has not healed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Node
from chaoslab.plan.model import Injection
from chaoslab.undo.heartbeat import StillThere

_ENDING_S: Final = 30.0
"""A heal waits at most so long for targets that others are ending."""


@dataclass(slots=True, kw_only=True)
class OpenInjection:
    """An injection that was begun and not healed."""

    injection: Injection
    fault: Fault
    injected_s: float
    steps: list[tuple[float, int]] = field(default_factory=list)
    """What is still to come: when, on the harness clock, and which."""
    is_measured: bool = False
    still_there: list[StillThere] = field(default_factory=list)
    """Tell how much of what was done is still there."""
    unhealed: str = ""
    """Why the last try to heal it failed."""
    again_s: float | None = None
    """When that is tried again."""
    ending_s: float = 0.0
    """So much later it is healed, because targets are ending."""

    @property
    def heals_s(self) -> float | None:
        """When it is due to be healed; None: not before the end."""
        for_s = self.injection.for_s
        return None if for_s is None else self.injected_s + for_s + self.ending_s

    def waits_for_ends(self, nodes: Mapping[str, Node], later_s: float) -> bool:
        """Put its heal off by so long if a target is ending, as pods do after their deletion."""
        is_ending = any(nodes[name].is_ending for name in self.injection.targets)
        if not (self.fault.takes_away and is_ending and self.ending_s < _ENDING_S):
            return False
        self.ending_s += later_s
        return True

    @property
    def is_for_good(self) -> bool:
        """Whether it brought learners in that stay: they are learners like any other now."""
        return self.heals_s is None and self.fault.brings_in
