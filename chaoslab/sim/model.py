"""Sizes of what a simulated training sends: parameters of the built-in models, bytes of fragments.

Fragments are taken to be equally large; the real ones are whole tensors and differ by some tenths.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.sim.costs import Costs

PARAMETERS: Final[Mapping[str, int]] = {
    "nano": 117_056, "micro": 1_037_696, "mini": 9_999_680, "small": 124_078_848,
}  # fmt: skip
"""Parameters of each built-in model, as learner.started reports them."""
_VALUE_BYTES: Final[Mapping[str, float]] = {
    "f32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5, "e3m0": 0.5,
}  # fmt: skip


class Sizes:
    """Bytes of payloads, once it is known how many parameters are trained."""

    def __init__(self, costs: Costs, *, fragments: int, compression: str) -> None:
        self._costs = costs
        self._fragments = fragments
        self._compression = compression
        self.parameters = 0

    @property
    def pushed_bytes(self) -> int:
        """Bytes of a push."""
        values = _VALUE_BYTES[self._compression] * (1 + self._costs.up_bytes_share)
        return self._of_fragment(values)

    @property
    def published_bytes(self) -> int:
        """Bytes of a published fragment: bf16, unless learners send f32."""
        return self._of_fragment(_VALUE_BYTES["f32" if self._compression == "f32" else "bf16"])

    @property
    def initial_bytes(self) -> int:
        """Bytes of a fragment of the initial parameters."""
        return self._of_fragment(_VALUE_BYTES["f32"])

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of a checkpoint: parameters and both moments."""
        return int(self._costs.checkpoint_bytes * self.parameters)

    def _of_fragment(self, value_bytes: float) -> int:
        return max(1, int(self.parameters * value_bytes / self._fragments))
