"""Interpretation of a node's exit: what ended it, and whether the harness had sent that.

A process that was sent SIGKILL dies by SIGKILL; one that was asked to leave (SIGTERM, SIGINT, or
SIGHUP as a notice) may also exit with code 0. Any other end is the process's own, even right after
a signal of the harness.
"""

from chaoslab.core.events import Event
from chaoslab.core.payloads import NodeExited

ENDING_SIGNALS = frozenset(
    {"SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGBUS", "SIGSEGV", "SIGTERM"}
)
"""Signals that end a process, or ask it to end."""
_ASKING_SIGNALS = frozenset({"SIGHUP", "SIGINT", "SIGTERM"})


def how_it_ended(exited: Event[NodeExited]) -> str:
    """Signal name or exit code, as text for people."""
    return ending(exited.payload)


def ending(said: NodeExited) -> str:
    """Signal name or exit code of a payload, as text for people."""
    if said.is_seen:
        return said.signal or f"exit code {said.exit_code}"
    return f"gone after {said.signal}" if said.signal else "gone, cause unknown"


def is_answer_to(exited: Event[NodeExited], signal: str) -> bool:
    """Whether a process that is sent `signal` may end in this way."""
    if signal in _ASKING_SIGNALS and exited.payload.exit_code == 0:
        return True
    return exited.payload.signal == signal


def was_ended_by(exited: Event[NodeExited], signal: str) -> bool:
    """Whether the harness sent `signal` and the process ended by it.

    In a record without the sent signals, the way in which it ended decides.
    """
    sent = exited.payload.sent
    return is_answer_to(exited, signal) and (sent is None or signal in sent)


def was_ended_by_harness(exited: Event[NodeExited]) -> bool:
    """Whether the process ended by any signal that the harness sent it."""
    return any(is_answer_to(exited, signal) for signal in exited.payload.sent or ())
