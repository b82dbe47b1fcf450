"""Throughput of payloads through Hub and Connection, compared with raw sockets.

    raw:   client process ── 1 MiB sends ──► server process ── the same bytes ──► client
    wire:  learner process ── Push + payload ──► hub process ── Fragment + payload ──► learner

Both return whole payloads on loopback, one after the other: the server sends a payload back when
all of it has arrived, as a syncer publishes what was pushed. The wire also cuts, checks and
reassembles it. Runs of the two alternate, so that a busy machine slows both; the result is the
median of the ratios of neighbouring runs.

    python benchmarks/wire.py [--json] [--no-fail]    exit code 1 if the ratio is below the target
"""

import argparse
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from roles import Child, add_role_options

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Tokens
from chaoslab.diloco.wire.mailbox import Received

TARGET_RATIO = 0.6
BUFFER_BYTES = 1 << 20
LOOPBACK = "127.0.0.1"


def main() -> int:
    """Run both in turns and print the results; the exit code says whether the target is met."""
    options = _options()
    if options.role:
        ROLES[options.role](options)
        return 0
    load = MachineLoad()
    rows = _measure(options)
    return finish([_result(options, rows, load.place())], options)


def _result(
    options: argparse.Namespace, rows: list[dict[str, float]], place: Mapping[str, Cell]
) -> Result:
    ratios = [row["wire_gb_per_s"] / row["raw_gb_per_s"] for row in rows]
    raw, wire = (
        statistics.median(row[f"{way}_gb_per_s"] for row in rows) for way in ("raw", "wire")
    )
    count = len(rows)
    return Result(
        number=1,
        name="wire",
        what=f"{options.mib} MiB payloads to the syncer and back through the real wire, against "
        "raw sockets that echo the same bytes",
        command="python benchmarks/wire.py",
        figures=(
            Figure(
                name="rate of the wire / of raw sockets",
                observed=statistics.median(ratios),
                at_least=TARGET_RATIO,
                samples=count,
            ),
            Figure(name="wire, both directions together", observed=wire, unit="GB/s",
                   samples=count),
            Figure(name="raw sockets", observed=raw, unit="GB/s", samples=count),
        ),
        rows=tuple(
            {
                "run": number,
                "raw (GB/s)": row["raw_gb_per_s"],
                "wire (GB/s)": row["wire_gb_per_s"],
                "ratio": ratio,
            }
            for number, (row, ratio) in enumerate(zip(rows, ratios, strict=True), 1)
        ),
        place=place,
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--mib", type=int, default=64, help="size of one payload (default 64)")
    parser.add_argument("--payloads", type=int, default=8, help="payloads in one run (default 8)")
    parser.add_argument("--runs", type=int, default=9, help="pairs of runs (default 9)")
    add_options(parser)
    add_role_options(parser, ROLES)
    return parser.parse_args()


# ---------------------------------------------------------------- the parent process


def _measure(options: argparse.Namespace) -> list[dict[str, float]]:
    with ExitStack() as stack:
        clients: dict[str, Child] = {}
        for name, server, client in (
            ("raw", "raw-server", "raw-client"), ("wire", "hub", "learner"),
        ):  # fmt: skip
            address = stack.enter_context(Child(server, options)).line()
            clients[name] = stack.enter_context(Child(client, options, address))
        rows = [
            {f"{name}_gb_per_s": _ask(client) for name, client in clients.items()}
            for _ in range(options.runs + 1)
        ]
    return rows[1:]  # the first pair warms up caches, windows and heaps


def _ask(client: Child) -> float:
    client.say("go")
    return float(client.line())


def _serve_asks(run: Callable[[], None], options: argparse.Namespace) -> None:
    """Time one run for each line on standard input."""
    bytes_moved = 2 * options.payloads * options.mib * 2**20
    for _ in sys.stdin:
        began_s = time.perf_counter()
        run()
        print(bytes_moved / (time.perf_counter() - began_s) / 1e9, flush=True)


# ---------------------------------------------------------------- raw sockets


def raw_server(options: argparse.Namespace) -> None:
    """Send each payload back when it has arrived."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        print(f"{LOOPBACK}:{listener.getsockname()[1]}", flush=True)
        connection, _peer = listener.accept()
        buffer = memoryview(bytearray(options.mib * 2**20))
        while receive_whole(connection, buffer):
            send_whole(connection, buffer)


def receive_whole(connection: socket.socket, buffer: memoryview) -> bool:
    """Fill the buffer; False at the end of the connection."""
    filled = 0
    while filled < len(buffer):
        count = connection.recv_into(buffer[filled : filled + BUFFER_BYTES])
        if not count:
            return False
        filled += count
    return True


def send_whole(connection: socket.socket, buffer: memoryview) -> None:
    """Send it in calls of one buffer size."""
    for offset in range(0, len(buffer), BUFFER_BYTES):
        connection.sendall(buffer[offset : offset + BUFFER_BYTES])


def raw_client(options: argparse.Namespace) -> None:
    """Send a payload, receive it back, repeatedly."""
    host, port = options.address.split(":")
    connection = socket.create_connection((host, int(port)))
    payload = memoryview(os.urandom(options.mib * 2**20))
    received = memoryview(bytearray(len(payload)))

    def run() -> None:
        for _ in range(options.payloads):
            send_whole(connection, payload)
            receive_whole(connection, received)

    _serve_asks(run, options)


# ---------------------------------------------------------------- Hub and Connection


def hub(_: argparse.Namespace) -> None:
    """Publish every push to the learner that it came from."""
    tokens = Tokens(["learner"])
    syncer = Hub(f"{LOOPBACK}:0", tokens=tokens)
    print(syncer.start(), tokens.of("learner"), flush=True)
    while True:
        arrival = syncer.arrivals.get()
        if not isinstance(arrival.event, Received):
            continue
        if arrival.event.message.WhichOneof("body") == "hello":
            syncer.admit(arrival.session)
            syncer.send(arrival.session, pb.ToLearner(welcome=pb.Welcome()))
        else:
            round_number = arrival.event.message.push.round
            message = pb.ToLearner(epoch=1, fragment=pb.Fragment(round=round_number))
            payload = arrival.event.payload or b""
            syncer.send_payload(arrival.session, message, payload, key=round_number)


def learner(options: argparse.Namespace) -> None:
    """Push a payload, receive it as a published fragment, repeatedly."""
    address, token = options.address.split()
    connection = Connection(address, token=token)
    connection.open()
    connection.send(pb.FromLearner(hello=pb.Hello(learner="learner")))
    connection.arrivals.get(timeout=60)  # the welcome
    payload = memoryview(os.urandom(options.mib * 2**20))

    def run() -> None:
        for number in range(options.payloads):
            message = pb.FromLearner(epoch=1, push=pb.Push(round=number))
            connection.send_payload(message, lambda: payload, key=number)
            what = connection.arrivals.get(timeout=60).event
            if not isinstance(what, Received) or len(what.payload or b"") != len(payload):
                raise RuntimeError(f"not what was sent: {what}")

    _serve_asks(run, options)


ROLES = {"raw-server": raw_server, "raw-client": raw_client, "hub": hub, "learner": learner}

if __name__ == "__main__":
    sys.exit(main())
