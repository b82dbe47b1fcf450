"""The conformance table: every measure of every kind, those that need more than one pair included.

links ─► rows: kind, asked, measured, tolerance, ok ─► text or JSON
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from chaoslab.core.errors import AbilityError
from chaoslab.links.base import Links
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    Effect,
    Freeze,
    HalfOpen,
    LinkAbility,
    Loss,
    Per,
    Refuse,
    Reset,
)
from chaoslab.links.proxied.embedded import EmbeddedLinks
from tests.contracts.link_measures import (
    BOTH,
    DOWN,
    TRIES,
    UP,
    Measure,
    Row,
    Stage,
    measures,
    stage_of,
    take,
)
from tests.contracts.link_stage import (
    Pair,
    Upstream,
    dial,
    how_it_ends,
    is_silent,
    receive,
    sending,
    together,
    transfer,
)

_INJECTION = "injection-0"


def main() -> int:
    """Print the table; 1 if a row that was taken does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--table", action="store_true", help="print it as text (the default)")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        taken = [row for links in kinds(Path(directory)) for row in rows(links)]
    if options.json:
        sys.stdout.write(json.dumps([row.to_json() for row in taken]) + "\n")
    else:
        sys.stdout.write("\n".join(row.to_text() for row in taken) + "\n")
    return 0 if all(row.holds or row.lacks for row in taken) else 1


def kinds(directory: Path) -> Iterator[Links]:
    """Every kind that this machine has; CHAOSLAB_REQUIRE=toxiproxy makes its absence an error."""
    yield EmbeddedLinks(directory)
    try:
        from chaoslab.links.toxiproxy.links import ToxiproxyLinks  # noqa: PLC0415 - an optional extra

        yield ToxiproxyLinks(directory)
    except AbilityError as error:
        if "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        sys.stderr.write(f"{error}\n")


def rows(links: Links) -> Iterator[Row]:
    """Every measure, taken where these links can."""
    with closing(Upstream()) as upstream, links:
        stage = stage_of(links, upstream)
        for measure in measures():
            lacks = measure.missing(links)
            yield (
                Row(measure=measure, kind=links.kind, lacks=lacks)
                if lacks
                else take(measure, stage)
            )
        yield from more_rows(stage)


# ---------------------------------------------------------------- rows that need more than a pair


def shared_rate_mb_per_s(stage: Stage, per: Per, *, connections: int = 4) -> float:
    """Of several connections together, at 4 MB/s."""
    stage.link.shape(_INJECTION, UP, Bandwidth(rate_bytes_per_s=4e6, per=per))
    pairs = [stage.connect() for _ in range(connections)]
    try:
        return together(pairs, UP, 1_000_000 if per is Per.LINK else 4_000_000) / 1e6
    finally:
        for pair in pairs:
            pair.close()
        stage.link.clear(_INJECTION)


def dropped_share(
    stage: Stage, way: Direction, share: float, size: int = 30_000_000
) -> tuple[float, bool]:
    """What share the kernel says it dropped, and whether the stream arrived all the same."""
    before = stage.link.counters()
    stage.link.shape(_INJECTION, way, Loss(share=share))
    pair = stage.connect()
    try:
        arrived = transfer(pair, way, size)
    finally:
        pair.close()
        stage.link.clear(_INJECTION)
    after = stage.link.counters()
    packets = (after.packets or 0) - (before.packets or 0)
    dropped = (after.dropped or 0) - (before.dropped or 0)
    return dropped / max(1, packets), arrived.size == size


def refused(stage: Stage) -> float:
    """Of three dials of a refusing link."""
    stage.link.shape(_INJECTION, BOTH, Refuse())
    try:
        return float(sum(_is_refused(stage.link.address) for _ in range(3)))
    finally:
        stage.link.clear(_INJECTION)


def resets(stage: Stage) -> float:
    """Ends of two open connections that get a RST."""
    pairs = [stage.connect() for _ in range(2)]
    stage.link.shape(_INJECTION, BOTH, Reset())
    endings = [how_it_ends(end) for pair in pairs for end in (pair.learner, pair.syncer)]
    return float(endings.count("reset"))


def half_open_silence(stage: Stage, way: Direction) -> float:
    """1 if one end breaks and the other hears nothing."""
    pair = stage.connect()
    stage.link.shape(_INJECTION, way, HalfOpen())
    try:
        broken, untold = pair.ends(way)
        return float(how_it_ends(broken) == "reset" and is_silent(untold, 0.5))
    finally:
        stage.link.clear(_INJECTION)
        pair.close()


def thawed_bytes(stage: Stage, way: Direction) -> float:
    """What arrives, after the heal, of what was sent into a frozen link."""
    pair = stage.connect()
    sender, receiver = pair.ends(way)
    stage.link.shape(_INJECTION, way, Freeze())
    try:
        with sending(sender, 500_000):
            is_silent(receiver, 0.2)
            stage.link.clear(_INJECTION)
            return float(receive(receiver, 500_000).size)
    finally:
        pair.close()


def more_rows(stage: Stage) -> Iterator[Row]:
    """The measurements above, as rows of the table."""
    shared = frozenset({LinkAbility.SHARED_BANDWIDTH})
    for per, asked, tolerance, needs in (
        (Per.LINK, 4.0, 0.6, shared), (Per.CONNECTION, 16.0, 3.0, frozenset()),
    ):  # fmt: skip
        measure = _measure(
            f"bandwidth 4MB/s per {per}, 4 connections", UP,
            Bandwidth(rate_bytes_per_s=4e6, per=per), (asked, tolerance, "MB/s"), needs,
        )  # fmt: skip
        yield _row(stage, measure, partial(shared_rate_mb_per_s, stage, per))
    measure = _measure("refuse: of 3 dials", BOTH, Refuse(), (3, 0, "refused"))
    yield _row(stage, measure, partial(refused, stage))
    measure = _measure(
        "reset: of 4 open ends", BOTH, Reset(), (4, 0, "RST"), frozenset({LinkAbility.RESET_OPEN})
    )
    yield _row(stage, measure, partial(resets, stage))
    for way in (UP, DOWN):
        measure = _measure("half_open: the other end hears nothing", way, HalfOpen(), (1, 0, "yes"))
        yield _row(stage, measure, partial(half_open_silence, stage, way))
        measure = _measure("freeze: bytes after the heal", way, Freeze(), (500_000, 0, "B"))
        yield _row(stage, measure, partial(thawed_bytes, stage, way))
        measure = _measure("loss 10%: share dropped", way, Loss(share=0.1), (10, 5, "%"))
        yield _row(stage, measure, partial(_dropped_percent, stage, way))


def _measure(
    name: str,
    way: Direction,
    effect: Effect,
    asked: tuple[float, float, str],
    needs: frozenset[LinkAbility] = frozenset(),
) -> Measure:
    """`asked`: how much, its tolerance, its unit."""
    value, tolerance, unit = asked
    return Measure(
        name=name, direction=way, effect=effect, asked=value, unit=unit, tolerance=tolerance,
        take=_never, needs=needs,
    )  # fmt: skip


def _row(stage: Stage, measure: Measure, ask: Callable[[], float]) -> Row:
    if lacks := measure.missing(stage.links):
        return Row(measure=measure, kind=stage.links.kind, lacks=lacks)
    measured: list[float] = []
    while len(measured) < TRIES and not (measured and measure.holds(measured[-1])):
        measured.append(ask())
    return Row(measure=measure, kind=stage.links.kind, measured=tuple(measured))


def _is_refused(address: str) -> bool:
    try:
        dial(address).close()
    except ConnectionRefusedError:
        return True
    return False


def _dropped_percent(stage: Stage, way: Direction) -> float:
    share, is_whole = dropped_share(stage, way, 0.1)
    return 100 * share if is_whole else -1.0


def _never(_: Pair) -> float:
    raise NotImplementedError("this row takes more than one connection")
