"""Modelled loss of a simulated training: a curve of the committed tokens, and what damages it.

    loss(T) = floor + (initial - floor) / sqrt(1 + T / scale)

Nothing is trained. The curve was fitted by eye to the ten snapshots of one real run of kill_half
(4.97 nats before training, 1.62 at 1.2M committed tokens, 1.33 at 3.2M) and is within 8 % of each.
It knows no learning rate, no number of learners and no age of contributions, so it says nothing
about quality. What it can tell is whether damage reached the global parameters: an update far
beyond the usual size that is merged as it came sets its fragment back, and later merges halve that.
"""

import math

_INITIAL, _FLOOR = 4.965, 0.98
"""In nats per byte."""
_SCALE_TOKENS = 27_000.0
_USUAL = 8.0
"""An update of so many times the usual size still trains."""
_RECOVERS = 0.5
"""What is left of the damage after each further merge of the fragment."""


def curve(tokens: float) -> float:
    """Loss after so many committed tokens, in nats; square roots are alike on all machines."""
    return _FLOOR + (_INITIAL - _FLOOR) / math.sqrt(1.0 + tokens / _SCALE_TOKENS)


class Damage:
    """How much of each fragment is as if untrained, 0 to 1."""

    def __init__(self, fragments: int) -> None:
        self._shares = [0.0] * fragments

    def merge(self, fragment: int, largest: float) -> None:
        """A merge whose largest update was so many times the usual size; NaN destroys all of it."""
        share = self._shares[fragment] * _RECOVERS
        if not largest <= _USUAL:
            share = 1.0 if not math.isfinite(largest) else max(share, 1.0 - _USUAL / largest)
        self._shares[fragment] = share

    def loss(self, tokens: float) -> float:
        """Loss of the global parameters after so many committed tokens, in nats."""
        trained, share = curve(tokens), sum(self._shares) / len(self._shares)
        return round(trained + (_INITIAL - trained) * share, 6)
