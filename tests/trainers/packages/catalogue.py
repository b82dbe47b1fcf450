"""The trainings of packages, and the environment of each.

`python -m tests.trainers.packages.catalogue [ENVIRONMENT…]` installs them, gigabytes, below
$CHAOSLAB_CACHE/trainers.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from chaoslab.core.cache import cache_folder

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A training whose loop is a package's."""

    title: str
    environment: str
    """Key of `ENVIRONMENTS`."""
    script: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `training.script`; `{bin}` is the folder of its programs, `{here}` that of ours."""
    fails: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Check and code of what it does not survive, by fault; the others are PASS."""

    without: tuple[str, ...] = ()
    """Faults on what it does not have."""
    victim: Mapping[str, Any] = field(default_factory=lambda: {"workers": 1})
    """Target of the faults."""
    is_exact: bool = True
    """Whether its losses after a resume are exactly those of its twin."""

    @property
    def is_installed(self) -> bool:
        return (folder(self.environment) / "ready").exists()

    def has(self, fault: str, broken: str = "") -> bool:
        """Whether it has what the fault damages, and checkpoints for a resume that is `broken`."""
        return fault not in self.without and not (broken and "lost" in self.without)

    def keys(self) -> Mapping[str, Any]:
        """Of its script, in a plan."""
        text = json.dumps(self.script).replace("{here}", str(HERE))
        return json.loads(  # type: ignore[no-any-return]
            text.replace("{bin}", str(folder(self.environment) / "bin"))
        )


_DIES = ("unasked", "unexpected_exit")
ENVIRONMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hf": ("torch==2.15.0", "transformers==5.24.0", "accelerate==1.15.0"),
        "lightning": ("torch==2.15.0", "lightning==2.6.6"),
        "torchft": ("torch==2.15.0", "torchft==0.2.0"),
        "composer": ("mosaicml==0.32.1",),
        "keras": ("keras==3.15.1", "jax==0.10.0"),
    }
)
"""Packages, by the name of the environment in which they are installed."""
PACKAGES: Mapping[str, Package] = MappingProxyType(
    {
        "hf": Package(
            title="HF Trainer 5.24.0",
            environment="hf",
            script={"command": "{bin}/python {here}/hf_train.py {folder}", "preset": "hf-trainer"},
            fails={"half": _DIES, "disk": _DIES},
        ),
        "torchrun": Package(
            title="HF Trainer below torchrun, two ranks",
            environment="hf",
            script={
                "command": "{bin}/torchrun --standalone --nproc-per-node 2 "
                "{here}/hf_train.py {folder}",
                "preset": "hf-trainer",
                "workers": 2,
            },
            fails={"half": _DIES, "disk": _DIES},
        ),
        "lightning": Package(
            title="Lightning 2.6.6",
            environment="lightning",
            script={
                "command": "{bin}/python {here}/lightning_train.py {folder}",
                "from": {"csv": "{folder}/lightning_logs/version_*/metrics.csv"},
                "checkpoints": "*.ckpt",
            },
            fails={"half": _DIES, "lost": ("resume", "began_anew"), "disk": _DIES},
        ),
        "composer": Package(
            title="Composer 0.32.1",
            environment="composer",
            script={
                "command": "{bin}/python {here}/composer_train.py {folder}",
                "preset": "composer",
                "checkpoints": "ep*-ba*-rank0.pt",
            },
            fails={"half": _DIES, "lost": _DIES, "disk": _DIES},
        ),
        "torchft": Package(
            title="torchft 0.2.0, two replicas",
            environment="torchft",
            script={
                "command": "{bin}/python {here}/torchft_train.py {rank} {workers}",
                "preset": "torchft",
                "workers": 2,
            },
            without=("lost", "half", "disk"),
            victim={"workers": ["worker-1"]},
            is_exact=False,
        ),
        "keras": Package(
            title="Keras 3.15.1 on JAX",
            environment="keras",
            script={
                "command": "{bin}/python {here}/keras_train.py {folder}",
                "progress": r"step (?P<step>\d+) loss (?P<loss>\S+)",
                "checkpoints": "backup*/training_metadata.json",
            },
            fails={"disk": ("evidence", "not_used")},
        ),
    }
)
"""By name. torchft has no checkpoints, and its worker-0 the lighthouse; a worker that comes back
finds the others with what they trained without it. Keras overwrites its files, which a full disk
allows. Within an epoch Lightning begins its data again,
and Keras its steps as well: theirs end with each checkpoint."""


def folder(environment: str) -> Path:
    return cache_folder("trainers") / environment


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(ENVIRONMENTS)))
def install(names: tuple[str, ...]) -> None:
    """Make the environments that are missing."""
    for name in names or tuple(ENVIRONMENTS):
        place = folder(name)
        if (place / "ready").exists():
            continue
        shutil.rmtree(place, ignore_errors=True)
        click.echo(f"{name}: {', '.join(ENVIRONMENTS[name])} into {place}")
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = (str(place / "bin" / "pip"), "install", "--quiet", *ENVIRONMENTS[name])
        subprocess.run(pip, check=True)
        (place / "ready").touch()


if __name__ == "__main__":
    install()
