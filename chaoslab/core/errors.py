"""Exceptions of the harness, each with the exit code of the command line.

    PlanError    user        2   what was written, why it cannot work, what to write
    AbilityError fleet       2   the plan needs something that this fleet or machine lacks
    PackageError package     2   an installed package brings something unusable
    FleetError   environment 4   a process, a socket or a disk failed
    HarnessBug   chaoslab    4   an internal rule was broken; please report

Exit codes are the interface to CI: 0 pass, 1 fail, 2 refused, 3 unknown, 4 harness broke,
130 interrupted.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of `chaoslab`."""

    PASS = 0
    FAIL = 1
    REFUSED = 2
    UNKNOWN = 3
    BROKEN = 4
    INTERRUPTED = 130


class ChaoslabError(Exception):
    """Base of all errors that are shown to users without a traceback."""

    exit_code = ExitCode.BROKEN


class _Refused(ChaoslabError):
    """Refused before anything was started. `where` is `file:line:column` if known."""

    exit_code = ExitCode.REFUSED

    def __init__(self, message: str, *, where: str = "", key: str = "") -> None:
        super().__init__(": ".join(filter(None, (where, key, message))))
        self.message = message
        self.where = where
        self.key = key
        """Dotted key of the wrong value, below the object that is built; may be empty."""


class PlanError(_Refused, ValueError):
    """A plan, an override or an argument is invalid; nothing was started.

    The message names the key and what to write instead. A ValueError, because pydantic collects
    those.
    """

    parts: "tuple[PlanError, ...]" = ()
    """The mistakes that this one is made of, if it is made of several."""


class AbilityError(_Refused):
    """The plan is valid, but this fleet or machine cannot run it; nothing was started."""


class PackageError(_Refused):
    """A part that an installed package brings to chaoslab is unusable; nothing was started.

    The message names the package and its entry point.
    """


class FleetError(ChaoslabError):
    """The environment failed: a node did not start, a disk is full, a socket is closed."""


class HarnessBug(ChaoslabError):
    """An internal rule was broken. The run is healed and stopped; the record has the traceback."""
