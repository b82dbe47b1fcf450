"""Test hook of a simulated learner: what becomes of its pushes, by `diloco.learner.tampering`.

    nan        one value is NaN          scaled     times `factor`
    stale      an earlier push again     duplicate  sent twice

Values are scales: how many times as large they are as they should be.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.decisions import Offer


class Tampering:
    """Replaces pushes of one learner while it is asked to."""

    def __init__(self) -> None:
        self._kind = ""
        self._factor = 1.0
        self._earlier: dict[int, Offer] = {}
        """By fragment: the push that a stale one repeats."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Begin what `facts` describe, or end it."""
        self._kind = str(facts.get("kind", ""))
        self._factor = float(str(facts.get("factor", 1.0)))
        self._earlier.clear()

    def outgoing(
        self, offer: Offer
    ) -> tuple[Sequence[tuple[Offer, float]], Mapping[str, Json] | None]:
        """Headers to send, each with the scale of its values, and what is said of it."""
        honest = (offer, 1.0)
        if self._kind == "stale":
            earlier = self._earlier.setdefault(offer.fragment, offer)
            if earlier.base_version == offer.base_version:
                return [honest], None
        said: dict[str, Json] = {"how": self._kind, "factor": None}
        match self._kind:
            case "nan":
                return [(offer, math.nan)], said
            case "scaled":
                return [(offer, self._factor)], {**said, "factor": self._factor}
            case "stale":
                again = replace(self._earlier[offer.fragment], round=offer.round)
                return [(again, 1.0)], said
            case "duplicate":
                return [honest, honest], said
            case _:
                return [honest], None
