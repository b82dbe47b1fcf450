"""What a learner pushes around outages of the syncer, with and without spacing of rounds.

    python benchmarks/stagger.py NAME RUN_DIR [NAME RUN_DIR …] [--dry]

    journals of runs in which faults took the syncer away ─► what a learner pushed
        ─► the table in experiments/stagger/README.md, and pushes.svg beside it

`--dry` prints the table and writes nothing.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from bar_chart import Panel, svg
from figures import Cell, rewritten, table

from chaoslab.checks.bursts import Burst, bursts
from chaoslab.checks.outages import Outage, outages
from chaoslab.checks.timeline import training_end_s
from chaoslab.core.payloads import PaceSet, PushAccepted
from chaoslab.record.history import History

PAGE = Path(__file__).parent.parent / "experiments" / "stagger" / "README.md"
_BEFORE_S, _AFTER_S = 5, 10
"""Drawn before the first outage, and after the last."""


def main() -> int:
    """Read the records, then write the table and the drawing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="print the table, write nothing")
    parser.add_argument("runs", nargs="+", metavar="NAME RUN_DIR", help="a run and its name")
    options = parser.parse_args()
    if len(options.runs) % 2:
        parser.error(f"{options.runs[-1]!r} has no RUN_DIR")
    pairs = zip(options.runs[::2], options.runs[1::2], strict=True)
    records = {name: History.read(Path(folder)) for name, folder in pairs}
    print(made := table_of_records(records))
    if not options.dry:
        text = rewritten(PAGE.read_text(encoding="utf-8"), made, name="pushes table")
        PAGE.write_text(text, encoding="utf-8")
        (PAGE.parent / "pushes.svg").write_text(drawing_of_records(records), encoding="utf-8")
    return 0


def table_of_records(records: Mapping[str, History]) -> str:
    """Most that one learner pushed in the time of one round, before and after each outage."""
    rows: list[list[Cell]] = []
    for name, history in records.items():
        found = _outages(history)
        edges = [0.0, *(one.served_s for one in found), math.inf]
        begins = [*(one.gone_s for one in found), math.inf]
        peaks = [_peak(history, *stretch).factor for stretch in zip(edges, begins, strict=False)]
        pace = history.last(PaceSet)
        step_ms = f"{1e3 * pace.payload.step_s:.0f} ms" if pace else None
        window_ms = f"{1e3 * _peak(history).window_s:.0f} ms"
        rows.append([name, step_ms, window_ms, *(f"{peak:.1f}" for peak in peaks)])
    after = [f"after outage {number}" for number in range(1, len(rows[0]) - 3)]
    return table(["", "step time", "time of one round", "before the outages", *after], rows)


def drawing_of_records(records: Mapping[str, History]) -> str:
    """What the learner with the highest peak pushed, in stretches as long as one round takes."""
    panels, ends_s = [], []
    for name, history in records.items():
        found, peak = _outages(history), _peak(history)
        begin_s = found[0].gone_s - _BEFORE_S
        ends_s.append(min(found[-1].served_s + _AFTER_S, training_end_s(history)) - begin_s)
        panels.append(
            Panel(
                title=f"pushed by {peak.last.payload.learner} in the time of one round, as a "
                f"multiple of its mean before the faults, {name}",
                bars=_pushed(history, peak, begin_s),
                width=0.9 * peak.window_s,
                grey=[(one.gone_s - begin_s, one.served_s - begin_s) for one in found],
                grey_name="no syncer",
            )
        )
    title = "Pushes of one learner by time in seconds, without and with spacing"
    return svg(title, panels, shown=range(0, math.ceil(max(ends_s)), _BEFORE_S))


def _outages(history: History) -> Sequence[Outage]:
    found = outages(history)
    if not found:
        raise ValueError("the record has no fault that took the syncer away")
    return found


def _peak(history: History, since_s: float = 0.0, until_s: float = math.inf) -> Burst:
    """The busiest time of one round, as the check `bandwidth` judges it."""
    return max(bursts(history, since_s, until_s), key=lambda burst: burst.factor)


def _pushed(history: History, peak: Burst, begin_s: float) -> Sequence[tuple[float, float]]:
    """Multiples of the mean, by the seconds since `begin_s` at which a stretch begins."""
    found: Counter[int] = Counter()
    for event in history.of(PushAccepted):
        if event.payload.learner == peak.learner and event.time_s >= begin_s:
            stretch = int((event.time_s - begin_s) / peak.window_s)
            found[stretch] += event.payload.payload_bytes or 0
    return [(n * peak.window_s, size / peak.mean_bytes) for n, size in sorted(found.items())]


if __name__ == "__main__":
    sys.exit(main())
