"""First plan for a training of the user's own that runs already, from what it has printed.

nodes ─► their files of output ─► prepare.script_sample.recognized ─► keys of `training.script`
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chaoslab.cli.commands.init_script import filled, quoted
from chaoslab.core.errors import PlanError
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.attached.script_search import printed
from chaoslab.fleet.base import Role
from chaoslab.prepare.attach import Target
from chaoslab.prepare.script_sample import recognized

_TEMPLATE: Final = "attached_gate.yaml"


def write_attached_gate(found: Target, nodes: Sequence[Found], target: str, file: Path) -> None:
    """Write the plan. PlanError if the training is chaoslab's own, if nothing that it has printed
    is progress, or if there is such a file.
    """
    if not found.is_script:
        raise PlanError(f"--write is for a training of your own, and {target} is chaoslab's: "
                        "name a plan such as kill_half")  # fmt: skip
    workers = sum(node.role is Role.LEARNER for node in nodes)
    keys = {"workers": workers, **recognized(printed(nodes), workers)}
    text = filled(
        _TEMPLATE,
        {
            "TARGET": shlex.quote(target),
            "FILE": shlex.quote(str(file)),
            "NAME": re.sub(r"\W", "_", file.stem) or "gate",
            "SCRIPT": "\n".join(
                f"    {key}: {quoted(one) if isinstance(one, str) else json.dumps(one)}"
                for key, one in keys.items()
            ),
            "ALIVE": str(max(0, workers - 1)),
        },
    )
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        raise PlanError(f"{file} cannot be written: {error.strerror}") from error
