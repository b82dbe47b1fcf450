"""Lint, format and types, so that the one test command covers them; all three are in `dev`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TOOLS = {
    "lint": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "types": ("mypy",),
}


@pytest.mark.parametrize("name", TOOLS)
def test_the_code_keeps_to_the_style(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *TOOLS[name]], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, f"make format may repair it\n{done.stdout}{done.stderr}"
