"""The conformance table: every measure of every kind, and those that need more than one pair.

links ─► rows: kind, asked, measured, tolerance, ok ─► text
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from chaoslab.core.errors import AbilityError
from chaoslab.links.base import Links
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    Loss,
    Per,
)
from chaoslab.links.proxied.embedded import EmbeddedLinks
from tests.contracts.link_measures import (
    UP,
    Row,
    Stage,
    measures,
    stage_of,
    take,
)
from tests.contracts.link_stage import (
    Upstream,
    together,
    transfer,
)

_INJECTION = "injection-0"


def main() -> int:
    """Print the table; 1 if a row that was taken does not hold."""
    with tempfile.TemporaryDirectory() as directory:
        taken = [row for links in kinds(Path(directory)) for row in rows(links)]
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


# ---------------------------------------------------------------- what needs more than a pair


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
