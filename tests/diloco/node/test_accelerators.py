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


def test_a_gpu_is_compiled_for_by_all_threads_and_shared(machine: pytest.MonkeyPatch) -> None:
    assert adapted() == {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def test_what_the_user_said_about_memory_stays(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(accelerators.os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    assert adapted() == {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}


def test_learners_that_compute_on_the_cpu_keep_one_thread(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(accelerators.os.environ, "JAX_PLATFORMS", "cpu")
    assert adapted() == {**ONE_THREAD, "JAX_PLATFORMS": "cpu"}


def test_a_gpu_that_jax_cannot_use_changes_nothing(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(accelerators, "find_spec", lambda _: None)
    assert adapted() == ONE_THREAD


def test_without_an_accelerator_nothing_changes(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(accelerators, "has_device", lambda: False)
    assert adapted() == ONE_THREAD
