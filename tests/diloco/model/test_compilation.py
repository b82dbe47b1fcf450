"""The compilation cache serves later processes, and no killed process can spoil it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.deep]

_PROGRAM = """
import sys
from pathlib import Path
import jax
import jax.monitoring
from chaoslab.diloco.model.compilation import enable_compilation_cache, publish_compilations

events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
enable_compilation_cache(Path(sys.argv[1]))
jax.jit(lambda x: x * 2 + 1).lower(jax.ShapeDtypeStruct((3,), "float32")).compile()
if sys.argv[2] == "killed":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
publish_compilations()
print(sum(name == "/jax/compilation_cache/cache_hits" for name in events))
"""


def start(directory: Path, ending: str = "publishes") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, str(directory), ending],
        env={**os.environ, "NPROC": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def hits(directory: Path) -> int:
    result = start(directory)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def entries(directory: Path) -> list[str]:
    found = (path for path in directory.iterdir() if path.is_file())
    return sorted(path.name for path in found if path.name[0] != ".")


@pytest.mark.gate
def test_a_later_process_compiles_nothing_again(tmp_path):
    assert hits(tmp_path) == 0
    published = entries(tmp_path)
    assert published
    assert hits(tmp_path) == 1
    assert entries(tmp_path) == published


def test_a_killed_process_publishes_nothing_and_is_tidied_up_after(tmp_path):
    assert start(tmp_path, "killed").returncode == -9
    assert entries(tmp_path) == []
    (left,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert any(left.iterdir())
    assert hits(tmp_path) == 0
    assert not left.exists()
    assert hits(tmp_path) == 1


def test_a_cache_that_cannot_be_written_warns_and_training_goes_on(tmp_path):
    program = _PROGRAM.replace(
        "publish_compilations()\nprint",
        "import shutil, warnings\nshutil.rmtree(sys.argv[1])\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    publish_compilations()\n"
        "assert 'compile again' in str(said[0].message)\nprint",
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cache"), "publishes"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
