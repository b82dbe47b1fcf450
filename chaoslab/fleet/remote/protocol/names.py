"""Names that a harness, its undo log and its host agents have in common; light to import."""

import re
from typing import Final

AGENT: Final = "chaoslab.fleet.remote.host_agent"
"""Module that is run on a host."""
ADOPTS: Final = "--adopts"
"""Its flag for nodes of a training that runs there already."""
END_AGENT: Final = "end_agent"
"""Undo verb: end the agent of a run on a host."""
_PYTHON: Final = re.compile(r"[\w./][\w./+-]*")


def is_interpreter(word: str) -> bool:
    """Whether this can be the name or the path of an interpreter on a host."""
    return _PYTHON.fullmatch(word) is not None
