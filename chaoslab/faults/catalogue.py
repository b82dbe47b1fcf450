"""Every fault by its full name. To add one: write the class, add it here, run its contract kit."""

from collections.abc import Mapping
from types import MappingProxyType

from chaoslab.faults.base import Fault
from chaoslab.faults.process import ProcessCrashLoop, ProcessKill, ProcessPreempt, ProcessRestart
from chaoslab.faults.process_held import ProcessHang, ProcessPause

_ALL: tuple[type[Fault], ...] = (
    ProcessKill,
    ProcessPause,
    ProcessRestart,
    ProcessCrashLoop,
    ProcessPreempt,
    ProcessHang,
)

FAULTS: Mapping[str, type[Fault]] = MappingProxyType({fault.name: fault for fault in _ALL})
"""Full name, as written in a plan, to the class whose fields are its settings."""
