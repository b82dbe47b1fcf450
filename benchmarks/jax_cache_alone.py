"""Learner that keeps no compiled functions beside JAX's compilation cache, for `learner_start`."""

import sys
from typing import Any

import chaoslab.diloco.learner.__main__  # noqa: F401  # imports all as the learner's program does
from chaoslab.diloco.learner.inner_steps import Inner
from chaoslab.diloco.learner.program import main


class JaxCacheAlone(Inner):
    """Traces and lowers every function; JAX's cache spares the compilation."""

    def __init__(self, *arguments: Any, executables: object = None, **settings: Any) -> None:
        del executables
        super().__init__(*arguments, **settings)


if __name__ == "__main__":
    sys.exit(main(inner=JaxCacheAlone))
