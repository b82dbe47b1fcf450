"""First plan for a training of the user's own that runs already, from what it has printed.

nodes ─► their files of output ─► prepare.script_lines.recognized ─┬─► keys of `training.script`
                                                                   └─► what they lack
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chaoslab.cli.commands.init_script import filled, quoted
from chaoslab.cli.commands.output import warn
from chaoslab.core.errors import PlanError
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Role
from chaoslab.prepare.attach import Target
from chaoslab.prepare.script_lines import recognized

_TEMPLATE: Final = "attached_gate.yaml"
_KILLED: Final = "process.kill               # SIGKILL to the whole process tree"
_EVICTED: Final = """pod.delete                 # no signal from inside ends a first process
    how: evict                        # its owner makes another pod once this one has ended"""


def write_attached_gate(target: Target, nodes: Sequence[Found], file: Path) -> None:
    """Write the plan, and say what it lacks. PlanError if nothing that the training has printed is
    progress, or if there is such a file.
    """
    workers = sum(node.role is Role.LEARNER for node in nodes)
    found = recognized(target.settings.printed(nodes), workers)
    keys = {"workers": workers, **found.keys}
    has_first = any(node.is_first for node in nodes)
    text = filled(
        _TEMPLATE,
        {
            "TARGET": target.words,
            "FILE": shlex.quote(str(file)),
            "NAME": re.sub(r"\W", "_", file.stem) or "gate",
            "SCRIPT": "\n".join(
                f"    {key}: {quoted(one) if isinstance(one, str) else json.dumps(one)}"
                for key, one in keys.items()
            ),
            "ALIVE": str(max(0, workers - 1)),
            "FAULT": _EVICTED if has_first else _KILLED,
            "RESTARTS": "supervisor" if target.kind == "namespace" else "chaoslab",
        },
    )
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        raise PlanError(f"{file} cannot be written: {error.strerror}") from error
    for doubt in found.doubts:
        warn(doubt)


def refuse_gate(target: Target, file: Path) -> None:
    """PlanError, before anything is looked at, if the training is chaoslab's own, or if there is
    such a file.
    """
    if not target.is_script:
        raise PlanError(f"--write is for a training of your own, and {target.words} is chaoslab's: "
                        "name a plan such as kill_half")  # fmt: skip
    if file.exists():
        raise PlanError(f"{file} is there already: name another one, or move it away")
