"""Where a learner's arrays lie; what several devices compute stands in `test_inner_steps`."""

import jax
import numpy as np
import pytest

from chaoslab.diloco.learner.sharding import Sharding


def test_one_device_holds_everything() -> None:
    sharding = Sharding(jax.local_devices()[:1])
    assert sharding.of((8, 4)) == sharding.replicated
    values = [np.arange(6, dtype=np.float32).reshape(2, 3), np.asarray(3, np.int32)]
    put = sharding.put(values, [sharding.of(value.shape) for value in values])
    for value, read in zip(values, sharding.read(put), strict=True):
        assert value.dtype == read.dtype
        np.testing.assert_array_equal(value, read)


@pytest.mark.parametrize("fully_sharded", [0, 2, 3])
def test_parameters_are_divided_over_a_number_that_divides_the_devices(fully_sharded: int) -> None:
    with pytest.raises(ValueError, match="devices, 1"):
        Sharding(jax.local_devices()[:1], fully_sharded=fully_sharded)
