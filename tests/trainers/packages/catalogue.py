"""The trainings of packages, and the environment of each.

`python -m tests.trainers.packages.catalogue [NAME…]` installs them, gigabytes, below
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

    packages: tuple[str, ...]
    script: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `training.script`; `{bin}` is the folder of its programs, `{here}` that of ours."""
    kill: str = "PASS"
    """Outcome of a run in which it is killed, and what finds it out if it is none."""

    def folder(self, name: str) -> Path:
        """Of its environment."""
        return cache_folder("trainers") / name

    def keys(self, name: str) -> Mapping[str, Any]:
        """Of its script, in a plan."""
        text = json.dumps(self.script)
        return json.loads(  # type: ignore[no-any-return]
            text.replace("{bin}", str(self.folder(name) / "bin")).replace("{here}", str(HERE))
        )


_TORCH = "torch==2.15.0"
_HF = (_TORCH, "transformers==5.24.0", "accelerate==1.15.0")
PACKAGES: Mapping[str, Package] = MappingProxyType(
    {
        "hf": Package(
            packages=_HF,
            script={"command": "{bin}/python {here}/hf_train.py {folder}", "preset": "hf-trainer"},
        ),
        "torchrun": Package(
            packages=_HF,
            script={
                "command": "{bin}/torchrun --standalone --nproc-per-node 2 "
                "{here}/hf_train.py {folder}",
                "preset": "hf-trainer",
                "workers": 2,
            },
        ),
        "lightning": Package(
            packages=(_TORCH, "lightning==2.6.6"),
            script={
                "command": "{bin}/python {here}/lightning_train.py {folder}",
                "from": {"csv": "{folder}/lightning_logs/version_*/metrics.csv"},
                "checkpoints": "*step=*.ckpt",
            },
            kill="divergence",
        ),
        "composer": Package(
            packages=("mosaicml==0.32.1",),
            script={
                "command": "{bin}/python {here}/composer_train.py {folder}",
                "preset": "composer",
                "checkpoints": "ep*-ba*-rank0.pt",
            },
        ),
        "keras": Package(
            packages=("keras==3.15.1", "jax==0.10.0"),
            script={
                "command": "{bin}/python {here}/keras_train.py {folder}",
                "progress": r"batch (?P<step>\d+) loss (?P<loss>\S+)",
                "checkpoints": "backup/training_metadata*.json",
            },
            kill="resume",
        ),
    }
)
"""By name. Lightning begins the data of an epoch again and Keras its steps as well: that is what
they do, and a run says so."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(PACKAGES)))
def install(names: tuple[str, ...]) -> None:
    """Make the environments that are missing."""
    for name in names or tuple(PACKAGES):
        folder = PACKAGES[name].folder(name)
        if (folder / "ready").exists():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        click.echo(f"{name}: {', '.join(PACKAGES[name].packages)} into {folder}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = (str(folder / "bin" / "pip"), "install", "--quiet", *PACKAGES[name].packages)
        subprocess.run(pip, check=True)
        (folder / "ready").touch()


if __name__ == "__main__":
    install()
