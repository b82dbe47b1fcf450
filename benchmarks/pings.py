"""Cost of link measurements: processor time of pings and of their reports.

    hub process ◄══ streams ══► learners' process       both ends ping, and report every link

Both processes do nothing else. Pings are sent much more often than in training, so that their cost
is visible above that of an idle process, which is subtracted. In a training each end pings 4 times
a second and reports once.

    python benchmarks/pings.py [--json]      exit code 1 above 1 % of a core for each learner
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import IO

from chaoslab.core.events import Kind, node_line
from chaoslab.diloco.node.events import now_s
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Tokens, claimed_by
from chaoslab.diloco.wire.link_meter import MEASURE_S, PING_S, Meter
from chaoslab.diloco.wire.streams import Opened

TARGET_SHARE = 0.01


def main() -> int:
    """Measure both ends idle and pinging, and print the cost for one learner."""
    options = _options()
    if options.role:
        {"hub": hub, "learners": learners}[options.role](options)
        return 0
    result = _measure(options)
    print(json.dumps(result) if options.json else _table(result))
    return 0 if result["is_met"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--links", type=int, default=8, help="streams (default 8)")
    parser.add_argument("--per-s", type=float, default=100.0, help="pings of a link (default 100)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--role", choices=["hub", "learners"], help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _table(result: dict) -> str:
    verdict = "met" if result["is_met"] else "MISSED"
    costs = (
        f"one ping and its answer: {result['syncer_us']:.0f} us of processor time at the syncer's "
        f"end, {result['learner_us']:.0f} us at the learner's"
    )
    shares = (
        f"in training, {1 / PING_S:g} pings a second from each end and a report: "
        f"{result['syncer_share']:.3%} of a core for each learner at the syncer, "
        f"{result['learner_share']:.3%} at the learner; target {TARGET_SHARE:.0%} {verdict}"
    )
    return "\n".join(
        [
            f"{result['links']} links, {result['pings']} pings answered",
            costs,
            f"one line of link.measured: {result['line_us']:.0f} us",
            shares,
        ]
    )


def _measure(options: argparse.Namespace) -> dict:
    children: list[subprocess.Popen[str]] = []
    try:
        children.append(_child("hub", options, ""))
        address = _line(children[0].stdout)
        children.append(_child("learners", options, address))
        _line(children[1].stdout)
        idle = _run(children, 0.0)
        busy = _run(children, options.per_s)
    finally:
        for child in children:
            child.kill()
            child.wait()
    answered = [
        after["answered"] - before["answered"] for before, after in zip(idle, busy, strict=True)
    ]
    pings = sum(answered)
    syncer_us, learner_us = (
        1e6 * (after["cpu_s"] - before["cpu_s"]) / pings
        for before, after in zip(idle, busy, strict=True)
    )
    line_us = _line_us()
    syncer, learner = (
        (2 / PING_S * each_us + line_us / MEASURE_S) / 1e6 for each_us in (syncer_us, learner_us)
    )
    return {
        "links": options.links,
        "pings": pings,
        "syncer_us": syncer_us,
        "learner_us": learner_us,
        "line_us": line_us,
        "syncer_share": syncer,
        "learner_share": learner,
        "target_share": TARGET_SHARE,
        "is_met": max(syncer, learner) <= TARGET_SHARE,
    }


def _run(children: list[subprocess.Popen[str]], per_s: float) -> list[dict]:
    for child in children:
        child.stdin.write(f"{per_s}\n")
        child.stdin.flush()
    return [json.loads(_line(child.stdout)) for child in children]


def _line_us() -> float:
    """Time to read a meter and to write its event, in microseconds."""
    meter, count = Meter(), 2000
    began_s = time.process_time()
    for _ in range(count):
        for _ in range(4):
            meter.answered(0.001)
        data = {"learner": "learner-0", "incarnation": 1, "direction": "up", **meter.read().data()}
        node_line(Kind.LINK_MEASURED, node_s=now_s(), data=data)
    return 1e6 * (time.process_time() - began_s) / count


def _child(role: str, options: argparse.Namespace, address: str) -> subprocess.Popen[str]:
    command = [
        sys.executable, __file__, "--role", role, "--address", address,
        "--links", str(options.links), "--seconds", str(options.seconds),
    ]  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(stream: IO[str]) -> str:
    line = stream.readline().strip()
    if not line:
        raise RuntimeError("a benchmark process ended early; its error stands above")
    return line


# ---------------------------------------------------------------- the two ends


def hub(options: argparse.Namespace) -> None:
    """The syncer's end: sessions in one process."""
    names = [f"learner-{number}" for number in range(options.links)]
    tokens = Tokens(names)
    syncer = Hub("127.0.0.1:0", tokens=tokens)
    print(syncer.start(), *(tokens.of(name) for name in names), flush=True)
    sessions = []
    while len(sessions) < options.links:
        arrival = syncer.arrivals.get()
        if isinstance(arrival.event, Opened):
            sessions.append(arrival.session)
    _serve([syncer.pings(session) for session in sessions], options)


def learners(options: argparse.Namespace) -> None:
    """The learners' ends of the streams, all in one process."""
    address, *tokens = options.address.split()
    connections = [Connection(address, token=token) for token in tokens]
    for connection, token in zip(connections, tokens, strict=True):
        connection.open()
        connection.send(pb.FromLearner(hello=pb.Hello(learner=claimed_by(token))))
    print("ready", flush=True)
    _serve([connection.pings for connection in connections], options)


def _serve(all_pings: list, options: argparse.Namespace) -> None:
    """For each line of standard input: ping at that rate for a while, print the time it took."""
    for line in sys.stdin:
        per_s = float(line)
        for pings in all_pings:
            pings.meter.read()
        began = resource.getrusage(resource.RUSAGE_SELF)
        end_s, answered = time.monotonic() + options.seconds, 0
        while time.monotonic() < end_s:
            time.sleep(1 / per_s if per_s else options.seconds)
            for pings in all_pings if per_s else ():
                pings.ping()
                answered += len(pings.meter.read().rtts_s)
        ended = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
        print(json.dumps({"cpu_s": cpu_s, "answered": answered}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
