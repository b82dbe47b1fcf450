"""Runs many seeds of one target, and watches for what no exception shows: hangs and growth.

A seed that takes more CPU time than the target's `SECONDS_MAX` is a defect, and one that takes ten
times as long by the clock ends the process with the stacks of all threads. Memory that goes on
growing after the first tenth of the seeds is a leak.
"""

import faulthandler
import importlib
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_HANG_S = 10.0
"""CPU time that one seed may take, unless its target says otherwise."""
_GROWTH_BYTES_MAX = 64 << 20
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One seed that showed a defect. `text` ends with the traceback if there was one."""

    target: str
    seed: int
    text: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz {self.target} --first {self.seed} --seeds 1"
        return f"{self.target}, seed {self.seed}: {self.text}\nrepeat it with: {again}"


def campaign(name: str, first: int, seeds: int) -> Defect | None:
    """Run `seeds` seeds from `first` on; the first defect, or None."""
    target = importlib.import_module(f"tests.fuzz.{name}")
    settled_bytes = 0
    for seed in range(first, first + seeds):
        if (text := _one(target, seed)) is not None:
            return Defect(target=name, seed=seed, text=text)
        if seed - first == seeds // 10:
            settled_bytes = _resident_bytes()
    grown = _resident_bytes() - settled_bytes
    if grown > _GROWTH_BYTES_MAX:
        text = f"memory grew by {grown >> 20} MiB over the last nine tenths of {seeds} seeds"
        return Defect(target=name, seed=first, text=text)
    return None


def _one(target: ModuleType, seed: int) -> str | None:
    """What was wrong with one seed; a hang beyond help ends the process with all stacks shown."""
    limit_s: float = getattr(target, "SECONDS_MAX", _HANG_S)
    faulthandler.dump_traceback_later(10 * limit_s, exit=True)
    began_s = time.process_time()
    try:
        target.one(seed)
    except Exception:  # noqa: BLE001  # what a target lets out is the defect that is looked for
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    took_s = time.process_time() - began_s  # the machine may be busy with other things
    return f"took {took_s:.1f} s of {limit_s:.0f} s" if took_s > limit_s else None


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
