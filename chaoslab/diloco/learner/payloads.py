"""Payloads of a learner: its tensors as they are sent, and what is published, as arrays.

values ─► encode, by the codec of the training ─► payload ══► syncer
└─ `tampering` may change them        payload ◄══ ─► decode ─► Adoption
"""

from collections.abc import Callable, Sequence

import numpy as np

from chaoslab.core.protocol import Corruption
from chaoslab.diloco.learner.exchange import Adoption, Outgoing, Vector
from chaoslab.diloco.learner.tampering import Tampering
from chaoslab.diloco.model.codec import decode, digest, encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import FloatArray, Layout, TensorSpec, specs_to_json
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes


class ArrayPayloads:
    """`exchange.Payloads` of arrays."""

    def __init__(self, specs: Sequence[TensorSpec], tampering: Tampering | None = None) -> None:
        self.specs = tuple(specs)
        self._tampering = tampering
        self._layout = Layout(())
        self._codec = Codec.F32

    @property
    def specs_json(self) -> str:
        """See `Payloads`."""
        return specs_to_json(self.specs)

    def cut(self, settings: Settings) -> Layout:
        """See `Payloads`."""
        self._layout = Layout.balance(self.specs, settings.fragments)
        self._codec = Codec(settings.compression)
        return self._layout

    def adoption(self, header: pb.Fragment, payload: memoryview) -> Adoption:
        """See `Payloads`."""
        size = self._layout.fragments[header.fragment].size
        values = decode(payload, size, Codec(header.codec))
        return Adoption(
            fragment=header.fragment,
            version=header.version,
            committed_tokens=header.committed_tokens,
            digest=digest(values),
            values=values,
        )

    def initial(self, values: FloatArray) -> Bytes:
        """See `Payloads`."""
        return encode(values, Codec.F32)

    def outgoing(self, push: pb.Push, values: Callable[[], Vector]) -> Sequence[Outgoing]:
        """See `Payloads`."""
        codec = self._codec

        def make(change: Corruption | None, factor: float) -> Bytes:
            return encode(changed(np.asarray(values()), change, factor), codec)

        if self._tampering is None:
            return [(push, lambda: make(None, 1.0))]
        return self._tampering.outgoing(push, make)


def changed(values: FloatArray, change: Corruption | None, factor: float) -> FloatArray:
    """The values as a corruption leaves them."""
    if change is Corruption.NAN:
        tampered = values.copy()
        tampered[0] = np.nan
        return tampered
    if change is Corruption.SCALED:
        with np.errstate(over="ignore"):  # the factor may be meant to overflow float32
            return values * np.float32(factor)
    return values
