"""Sharding of a learner's arrays over its devices: a mesh of a data and a fully sharded axis.

    devices, d x f ─► mesh ("data", "sharded")
    batches                leading axis divided over both axes
    parameters, moments    one axis of each divided over "sharded", equal copies over "data"
    scalars, results       a copy on every device

    host arrays ─ put ─► devices ─ read ─► host arrays, whole

The devices may belong to several processes, one for each host of the learner. Each then holds its
own part of an array, and all of them call the same functions in the same order, `read` included:
it gathers the parts. With f = 1 parameters are not divided.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

_DATA, _SHARDED = "data", "sharded"


class Sharding:
    """Mesh of a learner, and where its arrays lie on it."""

    def __init__(self, devices: Sequence[jax.Device], *, fully_sharded: int = 1) -> None:
        """`fully_sharded`: number of devices that parameters are divided over.

        ValueError unless it divides the number of devices.
        """
        if fully_sharded < 1 or len(devices) % fully_sharded:
            raise ValueError(
                f"fully_sharded: must divide the number of devices, {len(devices)}, "
                f"got {fully_sharded}"
            )
        axes = (len(devices) // fully_sharded, fully_sharded)
        self._mesh = jax.make_mesh(
            axes, (_DATA, _SHARDED), (AxisType.Auto, AxisType.Auto), devices=devices
        )
        self._parts = fully_sharded
        self._spans_hosts = len({device.process_index for device in devices}) > 1
        self.replicated = NamedSharding(self._mesh, PartitionSpec())
        """Sharding of arrays with a copy on every device."""
        self.spread = NamedSharding(self._mesh, PartitionSpec((_DATA, _SHARDED)))
        """Sharding of batches."""
        self._gather = jax.jit(_same, out_shardings=self.replicated)

    def of(self, shape: tuple[int, ...]) -> NamedSharding:
        """Sharding of a tensor: its longest axis that can be divided evenly is."""
        axes = [axis for axis, length in enumerate(shape) if length % self._parts == 0]
        if self._parts == 1 or not axes:
            return self.replicated
        longest = max(axes, key=lambda axis: shape[axis])
        return NamedSharding(self._mesh, PartitionSpec(*[None] * longest, _SHARDED))

    def like(self, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        """A float32 tensor of this shape, as functions are compiled for it."""
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=self.of(shape))

    def put(self, values: Any, shardings: Any) -> Any:
        """Numpy arrays of a pytree on the devices; every host passes equal values.

        `shardings`: one for all of them, or a pytree of the same form. On a CPU an array may share
        memory with its value, which must not be changed afterwards.
        """
        if not self._spans_hosts:
            return jax.device_put(values, shardings)
        if isinstance(shardings, NamedSharding):
            return jax.tree.map(lambda value: _put(value, shardings), values)
        return jax.tree.map(_put, values, shardings)

    def read(self, arrays: Sequence[jax.Array]) -> list[np.ndarray]:
        """The arrays, whole, copied from the devices; of several hosts one after another."""
        if self._spans_hosts:
            return [np.asarray(self._gather(array)) for array in arrays]
        for array in arrays:
            array.copy_to_host_async()
        return [np.asarray(array) for array in arrays]


def _put(value: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(value.shape, sharding, value.__getitem__)


def _same(array: jax.Array) -> jax.Array:
    return array
