"""A package from outside brings a fleet, a fault and a check; a plan uses all three."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOYS = ROOT / "docs" / "examples" / "chaoslab_toys"


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """With the package as pip installs it."""
    site = tmp_path / "site"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(TOYS)),
        ],
        check=True,
    )
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}


def chaoslab(
    environment: Mapping[str, str], folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chaoslab", *words],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.gate
def test_what_a_package_brings_is_known_everywhere(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    plan = json.loads(chaoslab(environment, tmp_path, "plan", f"{TOYS}/nap.yaml", "--json").stdout)
    assert plan["fleet"] == "nice"
    schema = chaoslab(environment, tmp_path, "catalog", "schema").stdout
    for known in ("niceness", "toy.nap", "toy_rounds"):
        assert known in schema
    unknown = chaoslab(environment, tmp_path, "plan", "kill_half", "--set", "fleet.kind=nise")
    assert (unknown.returncode, "`nice`" in unknown.stderr) == (2, True)
    without = chaoslab(dict(os.environ), ROOT, "plan", f"{TOYS}/nap.yaml")
    assert without.returncode == 2
    assert "`nice`" in without.stderr


@pytest.mark.deep
def test_a_package_that_is_broken_is_named_in_one_line(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site" / "chaoslab_toys.py").write_text("import nothing_of_that_name\n")
    said = chaoslab(environment, tmp_path, "plan", "kill_half")
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1
    assert "chaoslab_toys:Nice" in said.stderr


@pytest.mark.deep
@pytest.mark.alone
def test_a_plan_that_uses_all_of_them_runs_to_a_verdict(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    said = chaoslab(environment, tmp_path, "run", f"{TOYS}/nap.yaml", "--out", "runs")
    assert said.returncode == 0, said.stdout + said.stderr
    record = tmp_path / "runs" / "nap" / "latest"
    verdict = json.loads((record / "verdict.json").read_text())
    assert verdict["outcome"] == "PASS"
    assert [(one["fault"], one["status"]) for one in verdict["injections"]] == [
        ("toy.nap", "proved")
    ]
    assert "toy_rounds" in [one["check"] for one in verdict["findings"]]
    assert "niceness: 10" in (record / "plan.resolved.yaml").read_text()


@pytest.mark.deep
def test_the_contract_kits_hold_for_them(environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TOYS)],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
