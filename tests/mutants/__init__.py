"""Nodes with one thing wrong, to see whether the harness notices.

Each module wraps the real syncer or learner, takes the same flags and is started in its place:
`python -m tests.mutants.<name> …`. The product knows of none of them.
"""

import sys
from types import ModuleType
from typing import NoReturn

VICTIM = "learner-1"
"""Whom a mutant wrongs, where it wrongs one learner of several."""
OTHER_VICTIM = "learner-2"


def start(module: ModuleType, **replaced: object) -> NoReturn:
    """Run a node with parts of its module replaced; a part that it does not have is an error."""
    for name, part in replaced.items():
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name} any more: mend the mutant")
        setattr(module, name, part)
    sys.exit(module.main())
