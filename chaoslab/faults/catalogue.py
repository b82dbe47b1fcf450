"""Every fault by its full name. To add one: write the class, add it here, run its contract kit."""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.on_demand import OnDemand
from chaoslab.faults.base import Fault

FAULTS: Final[Mapping[str, type[Fault]]] = OnDemand(
    {
        "process.kill": "chaoslab.faults.process:ProcessKill",
        "process.pause": "chaoslab.faults.process_pause:ProcessPause",
        "process.crash_loop": "chaoslab.faults.process:ProcessCrashLoop",
        "process.preempt": "chaoslab.faults.process:ProcessPreempt",
        "process.hang": "chaoslab.faults.process_pause:ProcessHang",
        "process.oom": "chaoslab.faults.starvation:ProcessOom",
        "host.kill": "chaoslab.faults.host:HostKill",
        "chip.fail": "chaoslab.faults.host:ChipFail",
        "compute.slow": "chaoslab.faults.compute:ComputeSlow",
        "compute.steal": "chaoslab.faults.starvation:ComputeSteal",
        "compute.jitter": "chaoslab.faults.compute:ComputeJitter",
        "compute.thermal": "chaoslab.faults.compute:ComputeThermal",
        "memory.pressure": "chaoslab.faults.starvation:MemoryPressure",
        "network.latency": "chaoslab.faults.network:NetworkLatency",
        "network.bandwidth": "chaoslab.faults.network:NetworkBandwidth",
        "network.slice": "chaoslab.faults.network:NetworkSlice",
        "network.packets": "chaoslab.faults.network_packets:NetworkPackets",
        "network.limit_data": "chaoslab.faults.network:NetworkLimitData",
        "network.partition": "chaoslab.faults.network_cut:NetworkPartition",
        "network.refuse": "chaoslab.faults.network_break:NetworkRefuse",
        "network.reset": "chaoslab.faults.network_break:NetworkReset",
        "network.flap": "chaoslab.faults.network_break:NetworkFlap",
        "network.half_open": "chaoslab.faults.network_break:NetworkHalfOpen",
        "network.region_profile": "chaoslab.faults.network_wan:NetworkRegionProfile",
        "network.trace": "chaoslab.faults.network_wan:NetworkTrace",
        "control.scale_up": "chaoslab.faults.control:ControlScaleUp",
        "control.leave": "chaoslab.faults.control:ControlLeave",
        "control.rejoin_storm": "chaoslab.faults.control_storm:ControlRejoinStorm",
        "region.outage": "chaoslab.faults.region:RegionOutage",
        "network.disconnect": "chaoslab.faults.container:NetworkDisconnect",
        "container.replace": "chaoslab.faults.container:ContainerReplace",
        "pod.delete": "chaoslab.faults.pod:PodDelete",
        "job.restart": "chaoslab.faults.pod:JobRestart",
        "node.drain": "chaoslab.faults.machine:NodeDrain",
        "tpu.outage": "chaoslab.faults.tpu:TpuOutage",
        "spot.preempt": "chaoslab.faults.tpu:SpotPreempt",
        "clock.step": "chaoslab.faults.clock:ClockStep",
        "clock.drift": "chaoslab.faults.clock:ClockDrift",
        "update.tamper": "chaoslab.faults.update:UpdateTamper",
        "storage.damage_checkpoint": "chaoslab.faults.storage:StorageDamageCheckpoint",
        "storage.disk_full": "chaoslab.faults.storage_room:StorageDiskFull",
        "storage.slow_disk": "chaoslab.faults.storage_room:StorageSlowDisk",
        "storage.power_loss": "chaoslab.faults.storage:StoragePowerLoss",
        "syncer.disk_full": "chaoslab.faults.storage_room:SyncerDiskFull",
    }
)
"""Faults by their full name in a plan; the fields of a class are the settings."""
