"""The package as users get it: built, installed into an empty environment, and the tutorial there.

checkout ─► sdist ─► wheel ─► environment of its own ─► chaoslab run kill_half, docs/ci.md
"""

import email
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import chaoslab
from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "ci.md"
SHOWN = {"yaml": "fault_plans/first_gate.yaml", "python": "tests/test_resilience.py"}
"""Files that the tutorial shows parts of, by the language of these."""

pytestmark = [pytest.mark.xdist_group("package"), pytest.mark.timeout(1200)]


def blocks(language: str) -> list[str]:
    """Those of the page's first section, which is the tutorial."""
    _, tutorial, *_ = TUTORIAL.read_text(encoding="utf-8").split("\n## ")
    return re.findall(rf"^```{language}\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)


def lines() -> Iterator[str]:
    """Commands of the tutorial, in order."""
    for block in blocks("sh"):
        yield from block.splitlines()


def call(
    command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    done = call((sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder), ROOT)
    assert done.returncode == 0, done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
    done = call((*pip, "--no-deps", "--no-build-isolation", "-w", folder, sdist), folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_each_dependency_has_a_version_in_the_lock_that_its_bounds_allow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    pins = map(Requirement, (ROOT / ".ci" / "constraints.txt").read_text("utf-8").splitlines())
    locked = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}
    for one in map(Requirement, asked):
        name = canonicalize_name(one.name)
        assert name == "chaoslab" or one.specifier.contains(locked[name]), one


@pytest.mark.gate
def test_the_wheel_has_all_that_runs_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(about))
    assert metadata["Version"] == chaoslab.__version__
    sources = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("chaoslab/**/*.py")}
    plans = {f"chaoslab/fault_plans/{path.name}" for path in ROOT.glob("fault_plans/*.yaml")}
    assert sources | plans | {"chaoslab/py.typed", "chaoslab/docker/Dockerfile"} <= names
    tops = {name.split("/")[0].partition("-")[0] for name in names}
    assert tops == {"chaoslab"}


@pytest.mark.gate
def test_the_sdist_has_sources_and_documents_and_no_leftovers(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for needed in ("LICENSE", "mkdocs.yml", "docs/ci.md", "tests/test_package.py"):
        assert needed in names
    assert [name for name in names if name.startswith((".venv", "build", "runs", ".cache"))] == []


def variables_of(folder: Path) -> Mapping[str, str]:
    """Those of an activated environment, and nothing of this one; what others left in the folder
    for temporary files is none of its business.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    (temporary := folder.with_name("temporary")).mkdir(exist_ok=True)
    own = {"VIRTUAL_ENV": str(folder), "TMPDIR": str(temporary)}
    return {**kept, **own, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


@pytest.mark.gate
def test_the_installed_package_runs_kill_half_far_from_the_checkout(
    built: Path, tmp_path: Path
) -> None:
    """In an environment that has the wheel, and finds what that needs in this one's folder.

    Simulated, with its twin: on processes, the installed package runs the plan of the tutorial.
    """
    folder, work = tmp_path / "environment", tmp_path / "work"
    work.mkdir()
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))  # without what that adds
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install")
    done = call((*pip, "--quiet", "--no-deps", "--no-index", wheel), folder)
    assert done.returncode == 0, done.stderr
    variables = variables_of(folder)
    where = call(("python", "-c", "import chaoslab; print(chaoslab.__file__)"), work, variables)
    assert where.stdout.startswith(str(site)), where.stderr
    done = call(("chaoslab", "run", "kill_half", "--fleet", "sim"), work, variables)
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr


@pytest.mark.deep
@pytest.mark.alone
def test_the_tutorial_works_as_it_is_written(built: Path, tmp_path: Path) -> None:
    """Each of its commands but those that install; only the learner with a defect ends in FAIL."""
    folder, work = tmp_path / "environment", tmp_path / "work"
    work.mkdir()
    venv.create(folder, with_pip=True)
    (wheel,) = built.glob("*.whl")
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
    installed = call((*pip, "--disable-pip-version-check", wheel, "pytest"), folder)
    assert installed.returncode == 0, installed.stderr
    done = {}
    for line in lines():
        program, *words = shlex.split(line)
        if program in {"chaoslab", "python"}:
            done[line] = call((program, *words), work, variables_of(folder))
    said = "\n".join(f"$ {line}\n{it.stdout}{it.stderr}" for line, it in done.items())
    failed = [line for line, it in done.items() if it.returncode]
    (expected,) = (line for line in done if "crashing_rejoiner" in line)
    assert failed == [expected], said
    assert done[expected].returncode == ExitCode.FAIL, said


def test_the_tutorial_shows_what_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (init,) = (shlex.split(line) for line in lines() if line.startswith("chaoslab init"))
    done = CliRunner().invoke(main, init[1:])
    assert done.stdout in blocks("text")
    for language, name in SHOWN.items():
        shown, written = blocks(language), (tmp_path / name).read_text(encoding="utf-8")
        assert shown
        assert [part for part in shown if part not in written] == []
