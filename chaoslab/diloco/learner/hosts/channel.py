"""Orders of the process of host 0 of a learner to the others: what all carry out, with its data.

    send ── header, JSON ─► arrays, raw bytes ──► receive          host 0 ─► host 1, 2, …

`multiprocessing.connection` frames the messages; nothing is unpickled, and nothing is encrypted.
`meeting` makes the connections.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Call on all processes: a function of `Inner`, with plain and array arguments."""

    do: str
    facts: Mapping[str, Any]
    """Plain arguments, as JSON."""
    arrays: tuple[NDArray[np.generic], ...] = ()


def send(order: Order, connections: Sequence[Connection]) -> None:
    """Send an order of host 0 to every other host, in the order in which it carries them out
    itself; by one thread at a time. OSError if one of them has ended.
    """
    arrays = [np.asarray(array, order="C") for array in order.arrays]
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    header = json.dumps({"do": order.do, "facts": order.facts, "arrays": shapes}).encode()
    for connection in connections:
        connection.send_bytes(header)
        for array in arrays:
            connection.send_bytes(array.reshape(-1).view(np.uint8).data)


def receive(connection: Connection) -> Order:
    """The next order. EOFError once host 0 has ended."""
    header = json.loads(connection.recv_bytes())
    arrays = tuple(
        np.frombuffer(connection.recv_bytes(), np.dtype(dtype)).reshape(shape)
        for dtype, shape in header["arrays"]
    )
    return Order(do=header["do"], facts=header["facts"], arrays=arrays)
