"""A stream to the syncer over grpcio, as `numpy_learner` uses it: messages, payloads, digests.

    inbox ◄── reader thread: Ping ─► Pong; chunks ─► whole payloads ◄══ syncer
    send  ──► outbox: a message, then the chunks of its payload ══════► syncer

Any learner in Python can use it as it is. For TLS it would be `grpc.secure_channel`.
"""

import queue
import threading
import zlib
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
from numpy_model import Floats
from xxhash import xxh3_128

from chaoslab.diloco.wire import wire_pb2 as pb  # or what protoc makes of wire.proto


class Stream:
    """One stream, for one membership. `inbox` has whole messages with their payloads, then None."""

    def __init__(self, address: str, token: str) -> None:
        self.epoch = 0
        self.inbox: queue.SimpleQueue[tuple[Any, bytes] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # without a pool of its own a new channel would wait for the backoff of the last one
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        attach = self._channel.stream_stream(
            "/chaoslab.Syncer/Attach",
            request_serializer=pb.FromLearner.SerializeToString,
            response_deserializer=pb.ToLearner.FromString,
        )
        call = attach(
            iter(self._outbox.get, None), metadata=[("chaoslab-token-bin", token.encode())]
        )
        self._reader = threading.Thread(target=self._read, args=(call,), daemon=True)
        self._reader.start()

    def send(self, body: str, content: Any, payload: bytes = b"") -> None:
        if payload:
            content.payload.bytes = len(payload)
        self._outbox.put(pb.FromLearner(epoch=self.epoch, **{body: content}))
        for offset in range(0, len(payload), 1 << 20):
            data = payload[offset : offset + (1 << 20)]
            chunk = pb.Chunk(offset=offset, checksum=checksum(data), data=data)
            self._outbox.put(pb.FromLearner(chunk=chunk))

    def close(self) -> None:
        """Returns when the syncer has read what was sent, or after 5 s."""
        self._outbox.put(None)
        self._reader.join(5.0)
        self._channel.close()

    def _read(self, call: Any) -> None:
        with suppress(grpc.RpcError, ValueError):  # for the learner both are the end of the stream
            self._receive(call)
        self._outbox.put(None)
        self.inbox.put(None)

    def _receive(self, call: Any) -> None:
        header, payload = None, bytearray()
        for message in call:
            body = message.WhichOneof("body")
            if body == "ping":
                self._outbox.put(pb.FromLearner(pong=pb.Pong(sent_s=message.ping.sent_s)))
            elif body == "chunk":
                if checksum(message.chunk.data) != message.chunk.checksum:
                    raise ValueError("a damaged chunk")
                payload += message.chunk.data
                if len(payload) == getattr(header, header.WhichOneof("body")).payload.bytes:
                    self.inbox.put((header, bytes(payload)))
            elif body in ("fragment", "checkpoint"):
                header, payload = message, bytearray()
            else:
                self.inbox.put((message, b""))


def checksum(data: bytes) -> int:
    """CRC-32 of the sum of all rows of 512 little-endian 64-bit numbers."""
    rows = np.frombuffer(data.ljust(-(-len(data) // 4096) * 4096, b"\0"), "<u8").reshape(-1, 512)
    return zlib.crc32(rows.sum(axis=0, dtype="<u8"))


def decode(payload: bytes, codec: str) -> Floats:
    """A published fragment, which is f32 or bf16: the upper half of an f32."""
    if codec == "f32":
        return np.frombuffer(payload, "<f4")
    return (np.frombuffer(payload, "<u2").astype("<u4") << 16).view("<f4")


def digest(values: Floats) -> str:
    return xxh3_128(values.astype("<f4").tobytes()).hexdigest()
