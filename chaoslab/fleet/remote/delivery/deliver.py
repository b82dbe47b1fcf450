"""Delivery to one host: look what is there, bring what is not, and how to run it then.

look ─► code missing? unpack ─► libraries missing? build an environment ─► Program
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.remote.delivery import bootstrap
from chaoslab.fleet.remote.delivery.package import Content, code, libraries
from chaoslab.fleet.remote.protocol.reach import Reach, answer, asked

_UNPACK_S: Final = 120.0
_NO_PROGRAM: Final = (126, 127)
"""Exit codes of a shell that cannot start a program, or finds none."""
_VERSION: Final = re.compile(rb"Python ([0-9]+)\.([0-9]+)")
_BUILD_S: Final = 1800.0
"""Libraries of an accelerator are hundreds of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Command that runs chaoslab on a host; see `bootstrap`."""

    python: str
    """Interpreter that the inventory names."""
    code: str
    """SHA-256 of the code."""
    environment: str = bootstrap.OWN
    """SHA-256 of the list of libraries; `-`: those of the interpreter."""

    def command(self, *words: str) -> tuple[str, ...]:
        """A command line that runs the interpreter with these words."""
        return (*boot(self.python, "run", self.code, self.environment), *words)


async def deliver(
    reach: Reach, python: str, more: Sequence[str] = (), needs: Sequence[str] = bootstrap.NEEDED
) -> Program:
    """Bring what the host lacks. AbilityError if it cannot run chaoslab; FleetError if not now.

    `needs`: the libraries without which an environment is made, and then `more` beside them.
    """
    sent = code()
    own = Program(python=python, code=sent.digest)
    looked = await reach.run(boot(python, "look", own.code))
    if looked.code:
        await _refuse_interpreter(reach, python)
    found = answer(reach.name, looked)
    if not found["is_new_enough"]:
        raise AbilityError(_too_old(reach.name, python, str(found["python"])))
    if not found["has_code"]:
        unpack = boot(python, "unpack", own.code)
        await asked(reach, unpack, stdin=sent.data, within_s=_UNPACK_S)
    if not more and not set(needs) & set(found["missing"]):
        return own
    listed = libraries(*more, only=None if needs is bootstrap.NEEDED else frozenset(needs))
    return await _with_libraries(reach, own, str(found["python"]), listed)


async def _refuse_interpreter(reach: Reach, python: str) -> None:
    """AbilityError if there is no such interpreter, or one too old for the bootstrap program."""
    ran = await reach.run((python, "--version"))
    if ran.code in _NO_PROGRAM:
        raise AbilityError(
            f"{reach.name}: there is no interpreter {python}: name another one as `python:` in the "
            "inventory"
        )
    said = _VERSION.search(ran.stdout + ran.stderr)  # Python 2 says it on standard error
    if said and tuple(map(int, said.groups())) < bootstrap.OLDEST:
        raise AbilityError(_too_old(reach.name, python, b".".join(said.groups()).decode()))


def _too_old(name: str, python: str, version: str) -> str:
    oldest = ".".join(map(str, bootstrap.OLDEST))
    return (
        f"{name}: {python} is Python {version}, and chaoslab needs {oldest}: name another one as "
        "`python:` in the inventory"
    )


async def _with_libraries(reach: Reach, own: Program, version: str, listed: Content) -> Program:
    """Program in an environment for an interpreter of this version, made now or before."""
    minor = ".".join(version.split(".")[:2])
    environment = f"{minor}-{listed.digest[:32]}"
    build = boot(own.python, "build", environment)
    await asked(reach, build, stdin=listed.data, within_s=_BUILD_S)
    return Program(python=own.python, code=own.code, environment=environment)


def boot(python: str, *words: str) -> tuple[str, ...]:
    """A command line of the bootstrap program."""
    return (python, "-I", "-c", _text(), *words)


@cache
def _text() -> str:
    return Path(bootstrap.__file__).read_text(encoding="utf-8")
