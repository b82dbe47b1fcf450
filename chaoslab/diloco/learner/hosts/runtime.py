"""JAX's own runtime of several processes: their numbers, and where they find each other."""

import inspect
import socket
from typing import Any

import jax

_LIMITS_S = {"heartbeat_timeout_seconds": 3600, "shutdown_timeout_seconds": 10}
"""Of JAX, since 0.7. A lost process is noticed by heartbeats and connections of our own, which are
faster, and endure that all processes are stopped."""


def initialize(at: str, processes: int, index: int) -> None:
    """Form one set of devices of `processes` processes, which meet at host:port of the first one.

    On a CPU their devices compute together by gloo. Returns once all are there.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    known = inspect.signature(jax.distributed.initialize).parameters
    limits: dict[str, Any] = {name: limit for name, limit in _LIMITS_S.items() if name in known}
    jax.distributed.initialize(
        at,
        processes,
        index,
        cluster_detection_method="deactivate",
        coordinator_bind_address=at if index == 0 else None,
        **limits,
    )


def free_address(interface: str) -> str:
    """host:port of a free port of an interface, which is given by its address or name."""
    family = socket.getaddrinfo(interface, None)[0][0]
    with socket.socket(family, socket.SOCK_STREAM) as free:
        free.bind((interface, 0))
        port = free.getsockname()[1]
    return f"[{interface}]:{port}" if ":" in interface else f"{interface}:{port}"
