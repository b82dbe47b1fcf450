"""Accelerators of this machine, as far as can be seen without JAX, which would take them."""

import os
from importlib.util import find_spec
from pathlib import Path

_DEVICES = ("accel*", "vfio/[0-9]*", "nvidia[0-9]*")
_RUNTIMES = ("jax_plugins", "libtpu")
"""Packages; JAX needs one of them for any device but the CPU."""


def has_device() -> bool:
    """Whether there is a file of a TPU or a GPU."""
    return any(any(Path("/dev").glob(pattern)) for pattern in _DEVICES)


def prepare_compiler() -> None:
    """Adapt XLA's environment variables where JAX will use an accelerator; before its first use.

    `NPROC=1` gives each of several learners one thread of a CPU that they share. A GPU's compiler
    would have one thread too: the step of 124 M parameters was not compiled after two minutes on an
    H200, and took 11 s with 16 threads. Learners that share a GPU take memory as they need it, not
    three quarters of it each.
    """
    if os.environ.get("JAX_PLATFORMS") == "cpu" or not has_device():
        return
    if any(find_spec(name) for name in _RUNTIMES):
        os.environ.pop("NPROC", None)
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
