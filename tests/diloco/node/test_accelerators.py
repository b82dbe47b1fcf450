"""XLA's variables are adapted where JAX will use an accelerator, and nowhere else."""

from importlib.machinery import ModuleSpec

import pytest

from chaoslab.diloco.node import accelerators

ONE_THREAD = {"NPROC": "1"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One with a GPU and JAX's plugin for it, on which the harness started a learner."""
    monkeypatch.setattr(accelerators, "has_device", lambda: True)
    monkeypatch.setattr(accelerators, "find_spec", lambda name: ModuleSpec(name, None))
    environment = dict(ONE_THREAD)
    monkeypatch.setattr(accelerators.os, "environ", environment)
    return monkeypatch


def adapted() -> dict[str, str]:
    """The variables afterwards, without pytest's own."""
    accelerators.prepare_compiler()
    own = accelerators.os.environ
    return {name: value for name, value in own.items() if not name.startswith("PYTEST_")}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}),
        ({"JAX_PLATFORMS": "cpu"}, {**ONE_THREAD, "JAX_PLATFORMS": "cpu"}),
    ],
    ids=["all threads, and shared memory", "the user's own word on memory", "on the CPU"],
)
def test_a_gpu_is_compiled_for_by_all_threads_unless_the_user_says_otherwise(
    machine: pytest.MonkeyPatch, own: dict[str, str], expected: dict[str, str]
) -> None:
    for name, value in own.items():
        machine.setitem(accelerators.os.environ, name, value)
    assert adapted() == expected


@pytest.mark.parametrize(
    ("name", "found"), [("find_spec", None), ("has_device", False)], ids=["plugin", "device"]
)
def test_without_a_device_or_a_plugin_for_it_nothing_changes(
    machine: pytest.MonkeyPatch, name: str, found: object
) -> None:
    machine.setattr(accelerators, name, lambda *_: found)
    assert adapted() == ONE_THREAD
