"""Nodes and fleets with one defect each, to test whether the harness notices.

    fleet.programs.syncer: chaoslab.selftest.mutants.syncer deaf_syncer   the real syncer, parts
                                                                         of it replaced
    trial.fleet: idle_kill ─► fleets.FLEETS ─► in place of the fleet of processes

A mutant of a node takes the flags of the program that it replaces and reports what that reports.
`syncer` and `learner` are programs: the name of a mutant, then the node's flags.
"""

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, NoReturn

VICTIM = "learner-1"
"""The learner that a mutant wrongs, or the one of several that is a mutant."""
OTHER_VICTIM = "learner-2"


class Part(NamedTuple):
    """A name in a module, and what replaces it."""

    module: ModuleType
    name: str
    wrong: object


def start(program: ModuleType, parts: Sequence[Part]) -> NoReturn:
    """Run a program with parts of it replaced. AttributeError if it has no such part any more."""
    for part in parts:
        if not hasattr(part.module, part.name):
            raise AttributeError(f"{part.module.__name__} has no {part.name}: correct the mutant")
        setattr(part.module, part.name, part.wrong)
    sys.exit(program.main())


def start_named(program: ModuleType, mutants: Mapping[str, Sequence[Part]]) -> NoReturn:
    """Run the mutant that the first argument of this process names."""
    start(program, mutants[sys.argv.pop(1)])


def flag(name: str) -> str:
    """The value of a flag of this process; empty without it."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""
