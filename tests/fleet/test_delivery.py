"""Code and libraries brought to a host: once for the same content, whole or not at all."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chaoslab
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.remote.adopting import LIBRARIES
from chaoslab.fleet.remote.delivery import bootstrap, package
from chaoslab.fleet.remote.delivery import deliver as delivering
from chaoslab.fleet.remote.delivery.deliver import Program, boot, deliver
from chaoslab.fleet.remote.protocol.names import AGENT
from chaoslab.fleet.remote.protocol.reach import RUN_S, Ran, asked
from tests.fleet.direct_hosts import DirectReach, home_folder


class Counting(DirectReach):
    """Remembers what was run."""

    def __init__(self, home: Path) -> None:
        super().__init__("host-0", home)
        self.commands: list[str] = []

    async def run(self, command, *, stdin: bytes = b"", within_s: float = RUN_S) -> Ran:
        self.commands.append(command[4])
        return await super().run(command, stdin=stdin, within_s=within_s)


@pytest.fixture
def reach() -> Iterator[Counting]:
    with home_folder() as home:
        yield Counting(home)


def test_the_same_files_are_the_same_content_whenever_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "chaoslab"
    (folder / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(chaoslab, "__file__", str(folder / "__init__.py"))
    (folder / "__init__.py").write_text("one = 1\n")
    pack = package.code.__wrapped__
    first = pack()
    os.utime(folder / "__init__.py", (1.0, 1.0))
    (folder / "__pycache__" / "one.pyc").write_bytes(b"compiled")
    assert pack() == first
    (folder / "__init__.py").write_text("one = 2\n")
    assert pack().digest != first.digest


def test_libraries_are_pinned_with_what_they_need_in_turn() -> None:
    lines = package.libraries("extra==1").data.decode().splitlines()
    names = {line.partition("==")[0] for line in lines}
    assert {"jax", "jaxlib", "numpy", "pydantic-core", "extra"} <= names
    assert all("==" in line for line in lines)
    assert not {"chaoslab", "pytest", "docker"} & names


def test_a_host_that_trains_nothing_of_chaoslabs_gets_few_libraries() -> None:
    lines = package.libraries(only=frozenset(LIBRARIES)).data.decode().splitlines()
    assert tuple(line.partition("==")[0] for line in lines) == LIBRARIES


@pytest.mark.gate
def test_code_is_brought_once_and_runs_from_its_folder(reach: Counting) -> None:
    program = asyncio.run(deliver(reach, sys.executable))
    again = asyncio.run(deliver(reach, sys.executable))
    assert program == again == Program(python=sys.executable, code=package.code().digest)
    assert reach.commands == ["look", "unpack", "look"]
    where = ("-c", "import chaoslab, json; print(json.dumps({'at': chaoslab.__file__}))")
    found = asyncio.run(asked(reach, program.command(*where)))
    assert str(found["at"]).startswith(str(reach.home / ".chaoslab/code" / program.code))
    assert asyncio.run(asked(reach, program.command("-m", AGENT, "facts")))["boot_id"]


@pytest.mark.deep
def test_damaged_code_is_refused_and_leaves_nothing(reach: Counting) -> None:
    with pytest.raises(FleetError):
        asyncio.run(asked(reach, boot(sys.executable, "unpack", "0" * 64), stdin=b"no archive"))
    assert not list((reach.home / ".chaoslab").glob("code/*"))


OLD = {"python": "3.9.2", "is_new_enough": False, "missing": [], "has_code": True}


@pytest.mark.parametrize(
    ("ran", "kind", "told"),
    [
        (Ran(code=127, stdout=b"", stderr=b"sh: not found"), AbilityError, "the-python"),
        (Ran(code=2, stdout=b"", stderr=b"Python 2.7.18\n"), AbilityError, r"2\.7.* 3\.11"),
        (
            Ran(code=0, stdout=json.dumps(OLD).encode(), stderr=b""),
            AbilityError,
            r"3\.9\.2.* 3\.11",
        ),
        (Ran(code=1, stdout=b"No such account.\n", stderr=b""), FleetError, "No such account"),
    ],
)
def test_a_host_that_does_not_run_our_python_is_refused_with_what_it_says(
    reach: Counting, monkeypatch: pytest.MonkeyPatch, ran: Ran, kind: type[Exception], told: str
) -> None:
    async def run(*_: object, **__: object) -> Ran:
        return ran

    monkeypatch.setattr(delivering, "code", lambda: package.Content.of(b"code"))
    monkeypatch.setattr(reach, "run", run)
    with pytest.raises(kind, match=rf"host-0: .*{told}"):
        asyncio.run(deliver(reach, "the-python"))


@pytest.mark.deep
def test_an_environment_is_built_whole_or_not_at_all(reach: Counting) -> None:
    name = "3.11-" + "0" * 32
    folder = reach.home / ".chaoslab/environments"
    build = boot(sys.executable, "build", name)
    with pytest.raises(FleetError):
        asyncio.run(asked(reach, build, stdin=b"no such requirement!\n"))
    assert [one.name for one in folder.iterdir()] == [f"{name}.lock"]
    assert asyncio.run(asked(reach, build, stdin=b"")) == {"built": True}
    assert asyncio.run(asked(reach, build, stdin=b"")) == {"built": False}
    (folder / name / "complete").unlink()  # as after a kill in the middle
    assert asyncio.run(asked(reach, build, stdin=b"")) == {"built": True}


def test_the_bootstrap_program_needs_only_the_standard_library(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", bootstrap.__file__, "look", "0" * 64],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(tmp_path)},
    )
    assert json.loads(done.stdout)["has_code"] is False
