"""Cost of the live page for a run: the time that `see` takes with many idle viewers.

    python benchmarks/live_page.py [--viewers 50] [--events 10000] [--repeat 5] [--json] [--no-fail]

    events ─► LivePage.see, timed ─► server ─► viewers in a process of their own, who only read

The same events are shown right before to the same page without viewers; the ratio of the two times
says what viewers cost the thread of the run. Times are of the clock on the wall: waiting for the
server's thread, which shares the interpreter, counts. Events come as in a training of four
learners, only faster: 2,000 a second.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from json import dumps
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import mean, median
from typing import NamedTuple

from figures import Cell, Figure, MachineLoad, Result, add_options, finish

from chaoslab.core.events import Event, Json, Kind
from chaoslab.gameday.live.server import Listen, LivePage, serving
from chaoslab.plan.model import FaultPlan
from chaoslab.run.operators import Inbox

RATIO_TARGET = 1.5
"""Most time for an event with viewers, as a multiple of that without."""
PER_S = 2000.0
LEARNERS = 4


class Taken(NamedTuple):
    """Seconds that calls of `see` took."""

    mean_s: float
    longest_s: float


def main() -> int:
    """Measure and print; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    taken: dict[int, list[Taken]] = {0: [], options.viewers: []}
    with serving(FaultPlan(name="none"), Inbox(), Listen(), operators=["Ann"]) as page:
        for _ in range(options.repeat):
            for viewers, measured in taken.items():
                with watched(page, viewers):
                    measured.append(timed(page, options.events))
    return finish([_result(options, taken, load.place())], options)


def _result(
    options: argparse.Namespace, taken: Mapping[int, Sequence[Taken]], place: Mapping[str, Cell]
) -> Result:
    ratios = [
        busy.mean_s / idle.mean_s
        for idle, busy in zip(taken[0], taken[options.viewers], strict=True)
    ]
    return Result(
        number=15,
        name="live page",
        what=f"time that an event takes the run with {options.viewers} idle viewers of its live "
        "page, against none",
        command="python benchmarks/live_page.py",
        figures=(
            Figure(
                name=f"time for an event, {options.viewers} viewers / none",
                observed=median(ratios),
                at_most=RATIO_TARGET,
                samples=options.repeat,
            ),
        ),
        rows=tuple(
            {
                "viewers": viewers,
                "events": options.events * options.repeat,
                "mean of one, us": 1e6 * mean(one.mean_s for one in measured),
                "longest of one, ms": 1e3 * max(one.longest_s for one in measured),
            }
            for viewers, measured in taken.items()
        ),
        place=place,
    )


def timed(page: LivePage, number: int) -> Taken:
    """Show so many events to the page."""
    events, times_s = list(_events(number)), []
    began_s = time.perf_counter()
    for at, event in enumerate(events):
        time.sleep(max(0.0, began_s + at / PER_S - time.perf_counter()))
        start_s = time.perf_counter()
        page.see(event)
        times_s.append(time.perf_counter() - start_s)
    return Taken(mean_s=mean(times_s), longest_s=max(times_s))


def _events(number: int) -> Iterator[Event]:
    """A start, then steps of learners, and a merged round after each of them has made four."""
    names = [f"learner-{index}" for index in range(LEARNERS)]
    for seq in range(number):
        if seq == 0:
            kind, data = Kind.RUN_STARTED, _start(names)
        elif seq % (4 * LEARNERS) == 0:
            kind, data = Kind.ROUND_MERGED, _round(names, seq)
        else:
            kind, data = Kind.LEARNER_STEP, _step(names[seq % LEARNERS], seq)
        yield Event(seq=seq, time_s=seq / PER_S, source="harness", kind=kind, data=data)


def _start(names: Sequence[str]) -> Mapping[str, Json]:
    return {
        "plan": "none", "seed": 0, "fleet": "none", "algorithm": "decoupled",
        "learners": list(names), "reserve": [], "version": "0", "record": 2,
    }  # fmt: skip


def _step(name: str, seq: int) -> Mapping[str, Json]:
    return {
        "learner": name, "incarnation": 0, "epoch": 0, "step": seq, "loss": 4.5, "step_s": 0.05,
        "tokens": 512.0, "data_position": seq,
    }  # fmt: skip


def _round(names: Sequence[str], seq: int) -> Mapping[str, Json]:
    contributors: list[Json] = [
        {
            "learner": name, "incarnation": 0, "epoch": 0, "step": seq, "c_steps": 4,
            "c_tokens": 512.0, "weight": 0.25, "tokens_from": 0.0, "tokens_to": 512.0,
        }
        for name in names
    ]  # fmt: skip
    return {
        "round": seq, "fragment": 0, "version": seq, "base_version": seq - 1,
        "contributors": contributors, "committed_tokens": 512.0 * seq,
    }  # fmt: skip


@contextmanager
def watched(page: LivePage, viewers: int) -> Iterator[None]:
    """So many viewers, in a process of their own."""
    if not viewers:
        yield
        return
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    token = page.links[-1].url.partition("#")[2]
    address = page.address
    process = context.Process(
        target=_watch, args=(theirs, address.host, address.port, token, viewers), daemon=True
    )
    process.start()
    mine.recv()
    try:
        yield
    finally:
        mine.send(None)
        process.join()


def _watch(pipe: Connection, host: str, port: int, token: str, viewers: int) -> None:
    """Open the stream so many times, and read what comes."""
    streams = [_stream(host, port, token) for _ in range(viewers)]
    pipe.send(None)
    while not pipe.poll():
        for stream in streams:
            stream.read1(1 << 20)


def _stream(host: str, port: int, token: str) -> HTTPResponse:
    connection = HTTPConnection(host, port)
    body = dumps({"token": token})
    sent = {"Origin": f"http://{host}:{port}", "Content-Type": "application/json"}
    connection.request("POST", "/enter", body, sent)
    entered = connection.getresponse()
    entered.read()
    cookie = (entered.getheader("set-cookie") or "").partition(";")[0]
    connection.request("GET", "/stream", headers={"Cookie": cookie})
    return connection.getresponse()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    add_options(parser)
    options = parser.parse_args()
    if min(options.viewers, options.events, options.repeat) < 1:
        parser.error("all sizes must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
