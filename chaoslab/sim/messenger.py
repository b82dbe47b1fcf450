"""Messages of a simulated learner: the real messenger, on modelled payloads.

training thread ── boundary, take, wait ──► Messenger ─ Link ══ Connection ══► syncer
└─ ModelledPayloads
"""

import math
import random
from collections.abc import Callable, Sequence

from chaoslab.core.link_meter import PING_S, Meter
from chaoslab.core.protocol import Corruption
from chaoslab.diloco.learner import messenger
from chaoslab.diloco.learner.exchange import Adoption, Outgoing
from chaoslab.diloco.learner.link import Ambient
from chaoslab.diloco.learner.tampering import Tampering
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes
from chaoslab.sim.connection import Connection
from chaoslab.sim.messages import (
    AdoptedValues,
    FragmentValues,
    ModelledLayout,
    PushValues,
    Values,
    as_bytes,
    values_of,
)
from chaoslab.sim.model import Sizes
from chaoslab.sim.process import Process
from chaoslab.sim.waits import Points, Waits
from chaoslab.sim.wires import Party


class ModelledPayloads:
    """Payloads of one life of a learner by their size: `exchange.Payloads`."""

    def __init__(self, process: Process, parameters: int) -> None:
        self._process, self._parameters = process, parameters
        self.tampering = Tampering(process.say, process.whose)
        self._sizes = Sizes(process.world.costs, fragments=1, compression="f32")
        self._life = f"{process.name}/{process.incarnation}"

    @property
    def specs_json(self) -> str:
        """Number of parameters, which is all that the model asks of tensors."""
        return str(self._parameters)

    def cut(self, settings: Settings) -> ModelledLayout:
        """See `Payloads`."""
        self._sizes = Sizes(
            self._process.world.costs,
            fragments=settings.fragments,
            compression=settings.compression,
        )
        self._sizes.parameters = self._parameters
        return ModelledLayout(range(settings.fragments))

    def adoption(self, header: pb.Fragment, payload: memoryview) -> Adoption:
        """See `Payloads`."""
        loss = values_of(payload, FragmentValues).loss
        return Adoption(
            fragment=header.fragment,
            version=header.version,
            committed_tokens=header.committed_tokens,
            digest=header.digest,
            values=AdoptedValues(header.digest, loss),
        )

    def initial(self, values: None) -> Bytes:  # noqa: ARG002 - they are as all others
        """See `Payloads`."""
        return as_bytes(Values(self._sizes.initial_bytes))

    def outgoing(self, push: pb.Push, values: Callable[[], object]) -> Sequence[Outgoing]:  # noqa: ARG002
        """See `Payloads`; values are a scale: how many times as large as they should be."""
        scales = {None: 1.0, Corruption.NAN: math.nan}

        def make(change: Corruption | None, factor: float) -> Bytes:
            scale = scales.get(change, factor)
            return as_bytes(PushValues(self._sizes.pushed_bytes, self._life, scale))

        return self.tampering.outgoing(push, make)


class Messenger(messenger.Messenger):
    """All communication of one life of a learner."""

    def __init__(self, process: Process, party: Party, *, payloads: ModelledPayloads) -> None:
        self._node, self._party = process, party
        self._stream: Connection | None = None
        """The newest one."""
        seed, name, incarnation = process.world.seed, process.name, process.incarnation
        super().__init__(
            self._connect,
            whose=process.whose,
            payloads=payloads,
            emit=process.say,
            probe=self._begin_probe,
            ambient=Ambient(
                Waits(process),
                random.Random(f"{seed}/backoff/{name}/{incarnation}"),
                Meter(process.clock.now_s),
                incarnation,
                Points(process),
            ),
        )

    @property
    def stream(self) -> Connection | None:
        """The newest stream."""
        return self._stream

    def _connect(self) -> Connection:
        self._stream = Connection(self._node, self._party)
        return self._stream

    def _begin_probe(self, probed: Callable[[float], None]) -> None:
        """Ping on a connection beside the stream."""
        world, wire = self._node.world, self._node.world.network.wire(self._node.name)

        def probe() -> None:
            is_reached = world.syncer is not None and world.syncer.answers and not wire.refused_by
            rtt_s = wire.round_trip_s(beside=True) if is_reached else None
            if rtt_s is not None:
                probed(rtt_s)

        self._node.every(PING_S, probe)
