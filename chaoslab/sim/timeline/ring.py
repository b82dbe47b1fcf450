"""Timeline of data centres that reduce layer by layer in a ring, and wait for what they need.

    step     │ forward: layer 1, 2, … │ backward: …, 2, 1 │   overlap   │ forward: wait? layer 1 …
    link                                 ══ … ══ 2 ══ 1 ══►

A layer is sent once the backward pass has its gradient, and needed when the forward pass comes to
it. Layers of a fragment are spread over the depth of the model. A link carries one layer after the
other; latency delays them and does not occupy it.
"""

from collections import defaultdict
from typing import NamedTuple

from chaoslab.sim.timeline.training import Result, Training

_PERIODS = 3
"""Simulated periods; the last one is measured."""
_LEAST_STEPS = 8
"""Fewest steps of a period, so that one of data parallel is more than one step."""


class Layer(NamedTuple):
    """Place of a layer in a step, as parts of it."""

    needed_at: float
    ready_at: float


class Link:
    """All-reduce of what all data centres send at the same time (Patarasuk and Yuan, 2009)."""

    def __init__(self, training: Training, rate_bytes_per_s: float) -> None:
        others = training.centres - 1
        layer_bytes = training.sent_bytes / training.layers
        self._layer_s = layer_bytes * 2 * others / training.centres / rate_bytes_per_s
        self._latency_s = 2 * others * training.latency_s
        self._free_s = 0.0

    def send(self, time_s: float) -> float:
        """Send a layer; when it is back."""
        self._free_s = max(self._free_s, time_s) + self._layer_s
        return self._free_s + self._latency_s


def simulate(training: Training, rate_bytes_per_s: float) -> Result:
    """The last of some periods, when the link has the load that it keeps."""
    link, step_s = Link(training, rate_bytes_per_s), training.step_s
    fragments, due = _fragments(training), _due(training)
    awaited: dict[int, list[tuple[float, float]]] = defaultdict(list)
    length = max(training.period, _LEAST_STEPS)
    now_s = began_s = 0.0
    for step in range(_PERIODS * length):
        if step == (_PERIODS - 1) * length:
            began_s = now_s
        for needed_at, back_s in sorted(awaited.pop(step, ())):
            now_s = max(now_s, back_s - needed_at * step_s)
        now_s += step_s
        for fragment in due[step % training.period]:
            for layer in fragments[fragment]:
                back_s = link.send(now_s - (1 - layer.ready_at) * step_s)
                awaited[step + 1 + training.overlap].append((layer.needed_at, back_s))
    mean_s = (now_s - began_s) / length
    return Result(utilisation=step_s / mean_s, rounds=1.0, step_s=mean_s)


def _due(training: Training) -> list[list[int]]:
    """Fragments to send after each step of a period, spread as evenly as steps allow."""
    due: list[list[int]] = [[] for _ in range(training.period)]
    for fragment in range(training.parts):
        due[(fragment + 1) * training.period // training.parts - 1].append(fragment)
    return due


def _fragments(training: Training) -> list[list[Layer]]:
    """Layers of each fragment, in the order in which the backward pass comes to them."""
    fragments: list[list[Layer]] = [[] for _ in range(training.parts)]
    for number in reversed(range(training.layers)):
        fragments[number % training.parts].append(_layer(number, training.layers))
    return fragments


def _layer(number: int, layers: int) -> Layer:
    """Forward pass, gradients of weights and of activations take equally long in each layer.

    2 FLOP per parameter and token each (Kaplan et al., arXiv 2001.08361); the first layer needs no
    gradient of activations (Streaming DiLoCo, arXiv 2501.18512, section 3.1).
    """
    parts = 3 * layers - 1
    above = layers - 1 - number
    return Layer(needed_at=number / parts, ready_at=(layers + 2 * above + 1) / parts)
