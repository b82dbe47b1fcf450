"""Every exception the harness raises, each with the exit code that the command line returns for it.

    PlanError    the user    2   what was written, why it cannot work, what to write
    AbilityError the place   2   the plan needs something this fleet or machine lacks
    PackageError a package   2   what it brings to chaoslab cannot be used
    FleetError   the world   4   a process, a socket or a disk did not do its part
    HarnessBug   us          4   an internal rule was broken; please report

Exit codes are the whole contract with CI: 0 pass, 1 fail, 2 refused, 3 unknown, 4 harness broke,
130 interrupted.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `chaoslab` returns to the shell."""

    PASS = 0
    FAIL = 1
    REFUSED = 2
    UNKNOWN = 3
    BROKEN = 4
    INTERRUPTED = 130


class ChaoslabError(Exception):
    """Base of all errors that are meant to be read by a person."""

    exit_code = ExitCode.BROKEN


class _Refused(ChaoslabError):
    """Nothing was started. `where` is `file:line:column` when known."""

    exit_code = ExitCode.REFUSED

    def __init__(self, message: str, *, where: str = "", key: str = "") -> None:
        super().__init__(": ".join(filter(None, (where, key, message))))
        self.message = message
        self.where = where
        self.key = key
        """The dotted key below what is being built, where one value alone is wrong."""


class PlanError(_Refused):
    """The plan, an override or an argument cannot work; nothing was started.

    The message names the key and what to write instead.
    """


class AbilityError(_Refused):
    """The plan is sound, but this fleet or machine cannot carry it out; nothing was started."""


class PackageError(_Refused):
    """What an installed package brings to chaoslab cannot be loaded or used; nothing was started.

    The message names the package and its entry point.
    """


class FleetError(ChaoslabError):
    """The world did not do its part: a node did not start, a disk is full, a socket is gone."""


class HarnessBug(ChaoslabError):
    """An internal rule was broken. The run is healed and stopped; the record says where."""
