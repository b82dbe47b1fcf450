"""How fast and how near links are that do nothing: both kinds against a direct connection.

    throughput   sender ── 1 MiB sends ──► direct | embedded | toxiproxy ──► receiver
    latency      pinger ── 64 B and back, one at a time ──► the same three ──► echo

Everybody is a process of their own.

One run takes all of them in turns, so that a busy machine slows all; shown are medians over the
runs. What a link adds to a round trip is its quantile minus the direct one's.

    python benchmarks/links.py [--json]     exit code 1 if embedded is slower than Toxiproxy

Without a Toxiproxy server (`chaoslab doctor --fix`) its column is left out and nothing is compared.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from chaoslab.errors import AbilityError
from chaoslab.links.base import Links
from chaoslab.links.embedded import EmbeddedLinks

LOOPBACK = "127.0.0.1"
BLOCK_BYTES = 1 << 20
PING_BYTES = 64
LIMIT_S = 60.0


def main() -> int:
    """Run all in turns and print the table."""
    options = _options()
    if options.role:
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        ROLES[options.role](options)
        return 0
    result = _measure(options)
    print(json.dumps(result) if options.json else _table(result))
    return 0 if result["is_met"] in (True, None) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mib", type=int, default=1024, help="sent in one run (default 1024)")
    parser.add_argument("--pings", type=int, default=3000, help="in one run (default 3000)")
    parser.add_argument("--runs", type=int, default=5, help="rounds of all (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--role", choices=sorted(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _table(result: dict) -> str:
    lines = [
        f"{result['mib']} MiB one way, {result['pings']} pings of {PING_BYTES} B",
        f"medians of {result['runs']} runs",
        "",
        "             GB/s   round trip p50   p99      added p50   p99",
    ]
    for name, row in result["paths"].items():
        lines.append(
            f"{name:10} {row['gb_per_s']:6.2f}   {row['p50_us']:9.0f} us {row['p99_us']:6.0f} us  "
            f"{row['added_p50_us']:6.0f} us {row['added_p99_us']:6.0f} us"
        )
    words = {True: "met", False: "MISSED", None: "not compared: there is no Toxiproxy server"}
    lines += ["", f"embedded at least as fast as toxiproxy: {words[result['is_met']]}"]
    return "\n".join(lines)


# ---------------------------------------------------------------- the parent


def _measure(options: argparse.Namespace) -> dict:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = stack.enter_context(Child("receiver", options))
        echo = stack.enter_context(Child("echo", options))
        paths = {"direct": (receiver.line(), echo.line())}
        for links in _kinds(directory):
            stack.enter_context(links)
            paths[links.kind] = tuple(
                links.create(role, upstream).address
                for role, upstream in zip(("bulk", "ping"), paths["direct"], strict=True)
            )
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in paths}
        for _ in range(options.runs + 1):
            for name, (bulk, ping) in paths.items():
                rows[name].append(_one_run(options, receiver, bulk, ping))
    return _summary(options, {name: taken[1:] for name, taken in rows.items()})


def _kinds(directory: Path) -> Iterator[Links]:
    yield EmbeddedLinks(directory)
    try:
        from chaoslab.links.toxiproxy import ToxiproxyLinks  # noqa: PLC0415 - an optional extra

        yield ToxiproxyLinks(directory)
    except AbilityError as error:
        print(error, file=sys.stderr)


def _one_run(
    options: argparse.Namespace, receiver: "Child", bulk: str, ping: str
) -> dict[str, float]:
    with Child("sender", options, bulk) as sender:
        gb_per_s = float(receiver.line())
        sender.line()
    with Child("pinger", options, ping) as pinger:
        p50_us, p99_us = map(float, pinger.line().split())
    return {"gb_per_s": gb_per_s, "p50_us": p50_us, "p99_us": p99_us}


def _summary(options: argparse.Namespace, rows: dict[str, list[dict[str, float]]]) -> dict:
    paths = {
        name: {key: statistics.median(row[key] for row in taken) for key in taken[0]}
        for name, taken in rows.items()
    }
    for row in paths.values():
        for key in ("p50_us", "p99_us"):
            row[f"added_{key}"] = row[key] - paths["direct"][key]
    is_met = None
    if "toxiproxy" in paths:
        is_met = paths["embedded"]["gb_per_s"] >= paths["toxiproxy"]["gb_per_s"]
    return {
        "mib": options.mib, "pings": options.pings, "runs": options.runs, "paths": paths,
        "is_met": is_met,
    }  # fmt: skip


class Child:
    """Another role of this file, as a process; ended with the block."""

    def __init__(self, role: str, options: argparse.Namespace, address: str = "") -> None:
        command = [
            sys.executable, __file__, "--role", role, "--address", address, "--mib",
            str(options.mib), "--pings", str(options.pings),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def line(self) -> str:
        """The next that it prints."""
        stream: IO[str] = self._process.stdout
        line = stream.readline().strip()
        if not line:
            raise RuntimeError("a benchmark process ended early; its error stands above")
        return line


# ---------------------------------------------------------------- the other roles


def receiver(_: argparse.Namespace) -> None:
    """For each connection: GB/s from its first byte to its last."""
    buffer = bytearray(BLOCK_BYTES)
    for connection in _serve():
        size = connection.recv_into(buffer)
        first, began_s = size, time.perf_counter()
        while count := connection.recv_into(buffer):
            size += count
        seconds = time.perf_counter() - began_s
        print((size - first) / seconds / 1e9, flush=True)


def sender(options: argparse.Namespace) -> None:
    """Send, and wait until the other end has closed."""
    with _dial(options.address) as connection:
        block = bytes(BLOCK_BYTES)
        for _ in range(options.mib):
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    print("sent", flush=True)


def echo(_: argparse.Namespace) -> None:
    """Send back what comes."""
    for connection in _serve():
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(BLOCK_BYTES):
            connection.sendall(data)


def pinger(options: argparse.Namespace) -> None:
    """Median and 99th percentile of the round trips, in microseconds."""
    times = []
    with _dial(options.address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(options.pings):
            began_s = time.perf_counter()
            connection.sendall(bytes(PING_BYTES))
            left = PING_BYTES
            while left:
                left -= len(connection.recv(left))
            times.append(1e6 * (time.perf_counter() - began_s))
    cuts = statistics.quantiles(times, n=100)
    print(cuts[49], cuts[98], flush=True)


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _serve() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as listener:
        print(f"{LOOPBACK}:{listener.getsockname()[1]}", flush=True)
        while True:
            connection, _peer = listener.accept()
            with connection:
                yield connection


def _dial(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


ROLES = {"receiver": receiver, "sender": sender, "echo": echo, "pinger": pinger}

if __name__ == "__main__":
    sys.exit(main())
