"""Nodes and fleets with one thing wrong each, to see whether the harness notices.

    a plan's fleet.programs ─► python -m chaoslab.selftest.mutants.deaf_syncer ─► the real syncer,
                                                                                 one part replaced
    selftest ─► chaoslab.selftest.mutants.idle_kill:FLEET ─► in place of the fleet of processes

A mutant of a node takes the flags of the program that it stands in for, and says of itself what
that says: it differs in nothing but its `MUTANT`. No other part of chaoslab knows of any of them.
"""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

VICTIM = "learner-1"
"""Whom a mutant wrongs, or which one of several it is."""
OTHER_VICTIM = "learner-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A name of a module, and what takes its place: the real thing with something wrong."""

    module: ModuleType
    name: str
    wrong: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A program of chaoslab's with parts of it replaced."""

    program: ModuleType
    """It has a `main`."""
    parts: tuple[Part, ...]

    def start(self) -> NoReturn:
        """Run it; a part that is not there any more is an error, or the mutant would be none."""
        for part in self.parts:
            if not hasattr(part.module, part.name):
                raise AttributeError(
                    f"{part.module.__name__} has no {part.name} any more: mend the mutant"
                )
            setattr(part.module, part.name, part.wrong)
        sys.exit(self.program.main())


def flag(name: str) -> str:
    """What the command line of this process says after a flag; empty without it."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""
