"""A learner of two hosts computes what one process computes, by real processes on CPU devices."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chaoslab.diloco.learner.hosts.membership import SECRET
from chaoslab.diloco.learner.inner_steps import Inner
from tests.diloco.learner.hosts.two_hosts import STEPS, use, use_from_two_threads
from tests.diloco.learner.test_inner_steps import TASK

pytestmark = [pytest.mark.deep]

PATIENCE_S = 300.0


def of_two_hosts(result: Path, devices: int, fully_sharded: int) -> dict[str, np.ndarray]:
    meeting = f"@chaoslab-test-{secrets.token_hex(8)}"
    environment = {
        **os.environ,
        SECRET: secrets.token_hex(16),
        "JAX_NUM_CPU_DEVICES": str(devices),
        "FULLY_SHARDED": str(fully_sharded),
    }
    program = (sys.executable, "-m", "tests.diloco.learner.hosts.two_hosts")
    processes = [
        subprocess.Popen([*program, str(result), meeting, str(index)], env=environment)
        for index in range(2)
    ]
    try:
        assert [process.wait(PATIENCE_S) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    with np.load(result) as found:
        return dict(found)


@pytest.mark.parametrize(("devices", "fully_sharded"), [
    pytest.param(1, 2, marks=pytest.mark.soak), pytest.param(2, 1, marks=pytest.mark.soak),
    pytest.param(2, 2, marks=pytest.mark.soak), pytest.param(2, 4, marks=pytest.mark.gate),
])  # fmt: skip
def test_two_hosts_train_like_one_process(tmp_path: Path, devices: int, fully_sharded: int) -> None:
    found = of_two_hosts(tmp_path / "found.npz", devices, fully_sharded)
    inner = Inner(TASK)
    expected = use(inner, inner)
    assert found["devices"] == 2 * devices
    assert len(found["losses"]) == STEPS + 1
    assert len(set(found["moments"])) == 1
    assert found["rate"] == expected["rate"] > 0
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4)
    read = use_from_two_threads(inner, inner)
    np.testing.assert_allclose(found["read"], read, rtol=1e-3)
    for name in ("earlier", "delta", "adopted", "trained"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-2, atol=1e-3)
    assert found["delta"].any()
    assert np.array_equal(found["forgotten"], found["adopted"])
    assert np.array_equal(found["donated"], found["adopted"])
    assert np.array_equal(found["packed"], found["packed_again"])
    assert len(found["packed"]) == len(expected["packed"])
    if fully_sharded == 4:  # parameters and moments are divided over the devices
        parts = found["parts"]
        assert min(parts) == 0.25
        assert sum(part == 0.25 for part in parts) > len(parts) / 2
