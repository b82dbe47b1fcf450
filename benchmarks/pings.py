"""Cost of link measurements: processor time of pings and of their reports.

    hub process ◄══ streams ══► learners' process       both ends ping, and report every link

Both processes do nothing else. Pings are sent much more often than in training, so that their cost
is visible above that of an idle process, which is subtracted. In a training each end pings 4 times
a second and reports once.

    python benchmarks/pings.py [--json] [--no-fail]

Exit code 1 above 1 % of a core for each learner.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from roles import Child, add_role_options

from chaoslab.core.events import node_line
from chaoslab.core.link_meter import MEASURE_S, NOTHING_QUEUED, PING_S, Meter
from chaoslab.core.payloads import LifeFields, LinkMeasured
from chaoslab.diloco.node.events import now_s
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Tokens, claimed_by
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.diloco.wire.pings import Pings

TARGET_PERCENT = 1.0


def main() -> int:
    """Measure both ends idle and pinging, and print the cost for one learner."""
    options = _options()
    if options.role:
        ROLES[options.role](options)
        return 0
    load = MachineLoad()
    pings, costs_us = _measure(options)
    return finish([_result(options, pings, costs_us, load.place())], options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--links", type=int, default=8, help="streams (default 8)")
    parser.add_argument("--per-s", type=float, default=100.0, help="pings of a link (default 100)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (default 5)")
    add_options(parser)
    add_role_options(parser, ROLES)
    return parser.parse_args()


def _result(
    options: argparse.Namespace,
    pings: int,
    costs_us: Mapping[str, float],
    place: Mapping[str, Cell],
) -> Result:
    line_us = _line_us()
    per_s_us = {
        end: 2 / PING_S * each_us + line_us / MEASURE_S for end, each_us in costs_us.items()
    }
    return Result(
        number=11,
        name="pings",
        what=f"processor time of link measurements for each learner: {1 / PING_S:g} pings a second "
        "from each end, and a report",
        command="python benchmarks/pings.py",
        figures=(
            *(
                Figure(
                    name=f"share of a core at the {end}", observed=each_us / 1e4, unit="%",
                    at_most=TARGET_PERCENT, samples=pings,
                )
                for end, each_us in per_s_us.items()
            ),
            *(
                Figure(name=f"one ping and its answer at the {end}", observed=each_us, unit="us",
                       samples=pings)
                for end, each_us in costs_us.items()
            ),
            Figure(name="one line of link.measured", observed=line_us, unit="us"),
        ),
        notes=(f"{options.links} links.",),
        place=place,
    )  # fmt: skip


def _measure(options: argparse.Namespace) -> tuple[int, Mapping[str, float]]:
    """The pings that were answered, and microseconds for each at both ends."""
    with Child("hub", options) as hub, Child("learners", options, hub.line()) as learners:
        learners.line()
        idle, busy = (_run((hub, learners), per_s) for per_s in (0.0, options.per_s))
    used = [
        {key: after[key] - before[key] for key in after}
        for before, after in zip(idle, busy, strict=True)
    ]
    pings = round(sum(end["answered"] for end in used))
    costs_us = [1e6 * end["cpu_s"] / pings for end in used]
    return pings, dict(zip(("syncer", "learner"), costs_us, strict=True))


def _run(children: tuple[Child, ...], per_s: float) -> list[dict[str, float]]:
    for child in children:
        child.say(str(per_s))
    return [json.loads(child.line()) for child in children]


def _line_us() -> float:
    """Time to read a meter and to write its event, in microseconds."""
    whose: LifeFields = {"learner": "learner-0", "incarnation": 1}
    meter, count = Meter(), 2000
    began_s = time.process_time()
    for _ in range(count):
        for _ in range(4):
            meter.answered(0.001)
        said = LinkMeasured.of(meter.read(), whose, direction="up", queued=NOTHING_QUEUED)
        node_line(said, node_s=now_s())
    return 1e6 * (time.process_time() - began_s) / count


# ---------------------------------------------------------------- the two ends


def hub(options: argparse.Namespace) -> None:
    """The syncer's end: sessions in one process."""
    names = [f"learner-{number}" for number in range(options.links)]
    tokens = Tokens(names)
    syncer = Hub("127.0.0.1:0", tokens=tokens)
    print(syncer.start(), *(tokens.of(name) for name in names), flush=True)
    sessions: list[int] = []
    while len(sessions) < options.links:
        arrival = syncer.arrivals.get()
        if isinstance(arrival.event, Received):
            sessions.append(arrival.session)
    _serve([pings for one in sessions if (pings := syncer.pings(one))], options)


def learners(options: argparse.Namespace) -> None:
    """The learners' ends of the streams, all in one process."""
    address, *tokens = options.address.split()
    connections = [Connection(address, token=token) for token in tokens]
    for connection, token in zip(connections, tokens, strict=True):
        connection.open()
        connection.send(pb.FromLearner(hello=pb.Hello(learner=claimed_by(token))))
    print("ready", flush=True)
    _serve([connection.pings for connection in connections], options)


def _serve(all_pings: Sequence[Pings[Any]], options: argparse.Namespace) -> None:
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


ROLES = {"hub": hub, "learners": learners}

if __name__ == "__main__":
    sys.exit(main())
