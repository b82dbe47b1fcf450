"""`python -m tests.deep [PART…]`: the deep tier, one part after the other.

All parts by default, but for the plans, which take hours.

    build/deep/COMMIT/docker.passed    ids of tests that passed: they are left out when it goes on
    build/deep/COMMIT/docker.json      result of the last run of the part

What was changed since the commit makes a folder of its own, which nothing goes on from.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import click

from chaoslab.record.provenance import git_state
from tests.tiers import PARTS

ROOT = Path(__file__).parent.parent
PLANS = "tests/test_fleet_parity.py"
WORKERS = 3
"""One for trainings, which mostly wait, and one for each core."""


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS), metavar="[PART]...")
def deep(parts: tuple[str, ...]) -> None:
    """Run parts of the deep tier; exit 1 if a test of any of them failed."""
    state = git_state(ROOT)
    if state is None:
        raise click.ClickException("not a git checkout: the results name its commit")
    folder = ROOT / "build" / "deep" / str(state["commit"])
    if state["has_changes"]:
        folder = folder.with_name(f"{folder.name}-changed")
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    codes = [_run(part, folder / f"{part}.passed") for part in parts or PARTS[1:]]
    for file in sorted(folder.glob("*.json")):
        click.echo(f"{file.relative_to(ROOT)}: {file.read_text().strip()}")
    sys.exit(max(codes))


def options(part: str, passed: Path) -> list[str]:
    """Of the pytest that runs a part; with "=", as pytest takes `docker` for the folder.

    The plans are one module, and some of its tests are of other parts, too.
    """
    which = ["-s", PLANS] if part == "plans" else ["-n", str(WORKERS), f"--part={part}"]
    return [*which, "--tier=deep", f"--passed={passed}"]


def _run(part: str, passed: Path) -> int:
    command = [sys.executable, "-m", "pytest", *options(part, passed)]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return 0 if done.returncode == 5 else done.returncode  # 5: nothing is left to run


if __name__ == "__main__":
    deep()
