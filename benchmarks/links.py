"""Throughput and latency of links without effects, compared with a direct connection.

    throughput   sender ── 1 MiB sends ──► direct | embedded | toxiproxy ──► receiver
    latency      pinger ── 64 B and back, one at a time ──► the same three ──► echo

Every role is a process of its own. One run takes all paths in turns, every other one backwards, so
that a busy machine slows all; figures are medians over the runs. What a link adds to a round trip
is its quantile minus the direct one's.

Sender and receiver compete with the proxy where cores are few: on two cores each path is as fast as
the processor time of all three per byte allows, and what the ends cost brings the ratio closer to
1. So the receiver drops the bytes uncopied (MSG_TRUNC), as fast from either proxy: with a
receiver that copies them the ratio is lower. The processor time of the proxies alone is a figure of
its own, which the ends do not bound.

    python benchmarks/links.py [--json] [--no-fail]    exit code 1 if the target is missed

Without a Toxiproxy server (`chaoslab doctor --fix`) its figures are omitted and nothing is
compared.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from roles import Child, add_role_options

from chaoslab.core.errors import AbilityError
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.links import ProxiedLinks
from chaoslab.links.proxied.process import Server

TARGET_RATIO = 2.5
LOOPBACK = "127.0.0.1"
BLOCK_BYTES = 1 << 20
PING_BYTES = 64
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One path, measured once: throughput and round trips."""

    gb_per_s: float
    proxy_s_per_gb: float
    """Processor time of the proxy, user and system; 0 for a direct connection."""
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path: the addresses that its sender and its pinger dial, and the proxy on it."""

    bulk: str
    ping: str
    proxy: psutil.Process | None = None

    @property
    def proxy_cpu_s(self) -> float:
        """Processor time that the proxy has used by now."""
        if self.proxy is None:
            return 0.0
        times = self.proxy.cpu_times()
        return times.user + times.system


def main() -> int:
    """Measure all paths in turns and print the results; the exit code says if the target is met."""
    options = _options()
    if options.role:
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        ROLES[options.role](options)
        return 0
    load = MachineLoad()
    runs, notes = _measure(options)
    return finish([_result(options, runs, notes, load.place())], options)


def _result(
    options: argparse.Namespace,
    runs: Mapping[str, list[Run]],
    notes: tuple[str, ...],
    place: Mapping[str, Cell],
) -> Result:
    return Result(
        number=8,
        name="links",
        what=f"{options.mib} MiB one way and {options.pings} pings of {PING_BYTES} B through links "
        "that do nothing, against a direct connection",
        command="python benchmarks/links.py",
        figures=tuple(_figures(runs)),
        rows=tuple(
            {
                "run": number + 1,
                "path": name,
                "GB/s": taken[number].gb_per_s,
                "proxy (s/GB)": taken[number].proxy_s_per_gb,
                "round trip p50 (us)": taken[number].p50_us,
                "p99 (us)": taken[number].p99_us,
            }
            for number in range(options.runs)
            for name, taken in runs.items()
        ),
        notes=notes,
        place=place,
    )


def _figures(runs: Mapping[str, list[Run]]) -> Iterator[Figure]:
    """The comparison, if there is one; then every path."""
    count = len(runs["direct"])
    rates = {name: median(run.gb_per_s for run in taken) for name, taken in runs.items()}
    if "toxiproxy" in rates:
        yield Figure(
            name="throughput embedded / toxiproxy",
            observed=rates["embedded"] / rates["toxiproxy"],
            at_least=TARGET_RATIO,
            samples=count,
        )
    for name, rate in rates.items():
        yield Figure(name=f"throughput {name}", observed=rate, unit="GB/s", samples=count)
    costs_s = {name: median(run.proxy_s_per_gb for run in taken) for name, taken in runs.items()}
    for name in (name for name in runs if name != "direct"):
        yield Figure(
            name=f"processor time of {name}", observed=costs_s[name], unit="s/GB", samples=count
        )
    p50_us = {name: median(run.p50_us for run in taken) for name, taken in runs.items()}
    p99_us = {name: median(run.p99_us for run in taken) for name, taken in runs.items()}
    for name in (name for name in runs if name != "direct"):
        for share, trip_us in (("p50", p50_us), ("p99", p99_us)):
            yield Figure(
                name=f"{name} adds to a round trip, {share}",
                observed=trip_us[name] - trip_us["direct"],
                unit="us",
                samples=count,
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--mib", type=int, default=1024, help="sent in one run (default 1024)")
    parser.add_argument("--pings", type=int, default=3000, help="in one run (default 3000)")
    parser.add_argument("--runs", type=int, default=5, help="rounds of all (default 5)")
    add_options(parser)
    add_role_options(parser, ROLES)
    options = parser.parse_args()
    if options.runs < 1 or min(options.mib, options.pings) < 2:
        parser.error("--runs is at least 1, --mib and --pings are at least 2")
    return options


# ---------------------------------------------------------------- the parent process


def _measure(options: argparse.Namespace) -> tuple[dict[str, list[Run]], tuple[str, ...]]:
    """The runs of each path, and a note for each missing path."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = stack.enter_context(Child("receiver", options))
        echo = stack.enter_context(Child("echo", options))
        bulk, ping = receiver.line(), echo.line()
        paths = {"direct": Route(bulk=bulk, ping=ping)}
        kinds, notes = _kinds(directory)
        for links in kinds:
            stack.enter_context(links)
            paths[links.kind] = Route(
                bulk=links.create("bulk", bulk).address,
                ping=links.create("ping", ping).address,
                proxy=_process_of(links),
            )
        runs: dict[str, list[Run]] = {name: [] for name in paths}
        turn = list(paths)
        for _ in range(options.runs + 1):
            for name in turn:
                runs[name].append(_one_run(options, receiver, paths[name]))
            turn.reverse()
    return {name: taken[1:] for name, taken in runs.items()}, notes  # the first run warms up


def _kinds(directory: Path) -> tuple[list[ProxiedLinks], tuple[str, ...]]:
    """Kinds of links available here, and why one is not."""
    kinds: list[ProxiedLinks] = [EmbeddedLinks(directory)]
    try:
        from chaoslab.links.toxiproxy.links import ToxiproxyLinks  # noqa: PLC0415 - an optional extra

        kinds.append(ToxiproxyLinks(directory))
    except AbilityError as error:
        return kinds, (f"Nothing to compare with: {error}.",)
    return kinds, ()


def _process_of(links: ProxiedLinks) -> psutil.Process:
    if not isinstance(links.host, Server) or links.host.pid is None:
        raise RuntimeError(f"the proxy of {links.kind} is no process of this benchmark")
    return psutil.Process(links.host.pid)


def _one_run(options: argparse.Namespace, receiver: Child, route: Route) -> Run:
    began_s = route.proxy_cpu_s
    with Child("sender", options, route.bulk) as sender:
        gb_per_s = float(receiver.line())
        sender.line()
    used_s = route.proxy_cpu_s - began_s
    with Child("pinger", options, route.ping) as pinger:
        p50_us, p99_us = map(float, pinger.line().split())
    return Run(
        gb_per_s=gb_per_s,
        proxy_s_per_gb=used_s / (options.mib * BLOCK_BYTES / 1e9),
        p50_us=p50_us,
        p99_us=p99_us,
    )


# ---------------------------------------------------------------- the other roles


def receiver(_: argparse.Namespace) -> None:
    """Print, for each connection, GB/s from its first byte to its last; drop the bytes."""
    buffer = bytearray(BLOCK_BYTES)
    for connection in _serve():
        size = connection.recv_into(buffer)
        first, began_s = size, time.perf_counter()
        while count := connection.recv_into(buffer, BLOCK_BYTES, socket.MSG_TRUNC):
            size += count
        seconds = time.perf_counter() - began_s
        print((size - first) / seconds / 1e9, flush=True)


def sender(options: argparse.Namespace) -> None:
    """Send, then wait until the peer has closed."""
    with _dial(options.address) as connection:
        block = bytes(BLOCK_BYTES)
        for _ in range(options.mib):
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    print("sent", flush=True)


def echo(_: argparse.Namespace) -> None:
    """Send back what arrives."""
    for connection in _serve():
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(BLOCK_BYTES):
            connection.sendall(data)


def pinger(options: argparse.Namespace) -> None:
    """Print median and 99th percentile of the round trips, in microseconds."""
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
