"""A script of the user's own that a host agent starts: what is there of it, and where it runs.

command, folder ─► unstartable ─► why it cannot be started here, before anything is
NodeSpec ─────────► as_here ──────► the same with this host's paths, and its own environment
Reading ──────────► begin_script ─► its files are read beside it
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from chaoslab.core.spawning import find_program
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.remote.host_agent.fleet import HostedFleet
from chaoslab.fleet.remote.protocol.messages import read_as
from chaoslab.fleet.settings import Reading
from chaoslab.plan.model.script import PYTHON
from chaoslab.trainers.worker_sources import WorkerSources

_RUNS_FILES: Final = re.compile(r"(.*/)?(python[\d.]*|torchrun|accelerate|deepspeed|bash|sh)")
"""Programs whose first word that looks like a script is one."""
_SCRIPT: Final = re.compile(r"[^\s{}]+\.(py|sh)")
_OF_LOGIN: Final = MappingProxyType({"PYTHONPATH": "", "PYTHONSAFEPATH": ""})
"""Variables by which the agent finds chaoslab, as a script finds its own modules without them."""


def unstartable(workdir: str, commands: Sequence[Sequence[str]]) -> str:
    """Why one of these commands cannot be started here in this folder; empty if all can."""
    folder = os.path.expanduser(workdir)
    if not os.path.isdir(folder):
        return (
            f"there is no folder {folder}, in which the script is to be started: put it there, or "
            "name another as `workdir` in the inventory"
        )
    for program, *others in commands:
        path = os.environ.get("PATH", os.defpath)
        if program != PYTHON and find_program(program, folder, path) is None:
            return (
                f"there is no program {program!r} in {folder} or on PATH ({path}), which starts "
                "the script: write its whole path, or install it"
            )
        is_runner = program == PYTHON or _RUNS_FILES.fullmatch(program)
        script = next(filter(_SCRIPT.fullmatch, others if is_runner else ()), "")
        if script and not os.path.isfile(os.path.join(folder, script)):
            return (
                f"there is no file {os.path.join(folder, script)}, as for "
                f"`{' '.join((program, *others))}`: chaoslab brings no files of yours to hosts"
            )
    return ""


def as_here(spec: NodeSpec, words: Mapping[str, str]) -> NodeSpec:
    """A specification with what `{python}` and the like stand for on this host."""
    own = {} if spec.reads is None else _OF_LOGIN
    environment = {name: _filled(value, words) for name, value in spec.environment.items()}
    return replace(
        spec,
        command=tuple(_filled(word, words) for word in spec.command),
        environment={**own, **environment},
        workdir=os.path.expanduser(spec.workdir),
        keeps=_filled(spec.keeps, words),
        launches=tuple(as_here(one, words) for one in spec.launches),
    )


def begin_script(
    fleet: HostedFleet, words: Mapping[str, str], *, reading: Any, workdir: str
) -> None:
    """Make its folder, which is empty, and read its files there from now on."""
    folder, given = Path(words["folder"]), read_as(Reading, reading)
    folder.mkdir(exist_ok=True)
    sources = {
        name: replace(one, place=_filled(one.place, words)) for name, one in given.sources.items()
    }
    home = Path(workdir).expanduser()
    fleet.read_files(WorkerSources(sources, lambda _: home, given.saves, folder))


def _filled(word: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        word = word.replace(f"{{{name}}}", value)
    return word
