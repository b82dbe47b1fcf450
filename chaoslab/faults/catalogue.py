"""Every fault by its full name. To add one: write the class, add it here, run its contract kit."""

from collections.abc import Mapping
from types import MappingProxyType

from chaoslab.faults.base import Fault
from chaoslab.faults.clock import ClockDrift, ClockStep
from chaoslab.faults.compute import ComputeJitter, ComputeSlow, ComputeThermal
from chaoslab.faults.container import ContainerReplace, NetworkDisconnect
from chaoslab.faults.control import ControlLeave, ControlScaleUp
from chaoslab.faults.control_storm import ControlRejoinStorm
from chaoslab.faults.network import (
    NetworkBandwidth,
    NetworkLatency,
    NetworkLimitData,
    NetworkLoss,
    NetworkSlice,
)
from chaoslab.faults.network_break import (
    NetworkFlap,
    NetworkHalfOpen,
    NetworkRefuse,
    NetworkReset,
)
from chaoslab.faults.network_cut import NetworkBlackhole, NetworkFreeze, NetworkPartition
from chaoslab.faults.network_packets import NetworkCorrupt, NetworkDuplicate, NetworkReorder
from chaoslab.faults.network_wan import NetworkRegionProfile, NetworkTrace
from chaoslab.faults.process import ProcessCrashLoop, ProcessKill, ProcessPreempt, ProcessRestart
from chaoslab.faults.process_pause import ProcessHang, ProcessPause
from chaoslab.faults.region import RegionOutage
from chaoslab.faults.starvation import ComputeSteal, MemoryPressure, ProcessOom
from chaoslab.faults.storage import (
    StorageCorruptCheckpoint,
    StorageLoseCheckpoint,
    StorageTruncateCheckpoint,
)
from chaoslab.faults.storage_power import StoragePowerLoss
from chaoslab.faults.storage_room import StorageDiskFull, StorageSlowDisk
from chaoslab.faults.syncer import SyncerDiskFull, SyncerKill, SyncerPause
from chaoslab.faults.update import UpdateDuplicate, UpdateNan, UpdateScaled, UpdateStale

_ALL: tuple[type[Fault], ...] = (
    ProcessKill,
    ProcessPause,
    ProcessRestart,
    ProcessCrashLoop,
    ProcessPreempt,
    ProcessHang,
    ProcessOom,
    ComputeSlow,
    ComputeSteal,
    ComputeJitter,
    ComputeThermal,
    MemoryPressure,
    NetworkLatency,
    NetworkBandwidth,
    NetworkSlice,
    NetworkLoss,
    NetworkDuplicate,
    NetworkReorder,
    NetworkCorrupt,
    NetworkLimitData,
    NetworkBlackhole,
    NetworkFreeze,
    NetworkPartition,
    NetworkRefuse,
    NetworkReset,
    NetworkFlap,
    NetworkHalfOpen,
    NetworkRegionProfile,
    NetworkTrace,
    ControlScaleUp,
    ControlLeave,
    ControlRejoinStorm,
    RegionOutage,
    NetworkDisconnect,
    ContainerReplace,
    ClockStep,
    ClockDrift,
    UpdateNan,
    UpdateScaled,
    UpdateStale,
    UpdateDuplicate,
    StorageCorruptCheckpoint,
    StorageTruncateCheckpoint,
    StorageLoseCheckpoint,
    StorageDiskFull,
    StorageSlowDisk,
    StoragePowerLoss,
    SyncerKill,
    SyncerPause,
    SyncerDiskFull,
)

FAULTS: Mapping[str, type[Fault]] = MappingProxyType({fault.name: fault for fault in _ALL})
"""Full name, as written in a plan, to the class whose fields are its settings."""
