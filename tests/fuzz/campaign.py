"""Runs many seeds of one target, and watches for what no exception shows: hangs and growth.

A seed that takes more CPU time than the target's `SECONDS_MAX` is a defect, and a block of seeds
that takes ten times as long by the clock ends the process with the stacks of all threads. Memory
that goes on growing after the first tenth of the seeds is a leak.
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
_BLOCK = 50
"""Seeds that one watchdog guards: to arm it for each costs more than many a seed."""
_GROWTH_BYTES_MAX = 64 << 20
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One seed that showed a defect. `text` ends with the traceback if there was one."""

    target: str
    seed: int
    text: str

    def __str__(self) -> str:
        again = f"python -c 'from tests.fuzz.{self.target} import one; one({self.seed})'"
        return f"{self.target}, seed {self.seed}: {self.text}\nrepeat it with: {again}"


def campaign(name: str, first: int, seeds: int) -> Defect | None:
    """Run `seeds` seeds from `first` on; the first defect, or None."""
    target = importlib.import_module(f"tests.fuzz.{name}")
    limit_s: float = getattr(target, "SECONDS_MAX", _HANG_S)
    settled_bytes = 0
    try:
        for seed in range(first, first + seeds):
            if (seed - first) % _BLOCK == 0:
                faulthandler.dump_traceback_later(10 * limit_s, exit=True)
            if (text := _one(target, seed, limit_s)) is not None:
                return Defect(target=name, seed=seed, text=text)
            if seed - first == seeds // 10:
                settled_bytes = _resident_bytes()
    finally:
        faulthandler.cancel_dump_traceback_later()
    grown = _resident_bytes() - settled_bytes
    if grown > _GROWTH_BYTES_MAX:
        text = f"memory grew by {grown >> 20} MiB over the last nine tenths of {seeds} seeds"
        return Defect(target=name, seed=first, text=text)
    return None


def _one(target: ModuleType, seed: int, limit_s: float) -> str | None:
    """What was wrong with one seed."""
    began_s = time.process_time()
    try:
        target.one(seed)
    except Exception:  # noqa: BLE001  # what a target lets out is the defect that is looked for
        return traceback.format_exc()
    took_s = time.process_time() - began_s  # the machine may be busy with other things
    return f"took {took_s:.1f} s of {limit_s:.0f} s" if took_s > limit_s else None


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
