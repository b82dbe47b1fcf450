"""The lock of an attached training: whose it is, and that a dead harness has none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached import lock

HOLDER = """
import sys
from pathlib import Path
from chaoslab.fleet.attached import lock
kept = lock.take("a", Path("its run"))
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path))
    return tmp_path


def test_a_harness_that_is_killed_gives_it_back(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        with pytest.raises(FleetError, match=f"process {holder.pid} .*its run"):
            lock.take("a", tmp_path)
        lock.take("b", tmp_path)()  # another training
        holder.kill()
    lock.take("a", tmp_path)()


def test_a_holder_that_has_not_said_its_name_is_another_run(cache: Path) -> None:
    give_back = lock.take("a", cache)
    (file,) = (cache / "attached").iterdir()
    file.write_text("")
    with pytest.raises(FleetError, match="another run"):
        lock.take("a", cache)
    give_back()


def test_it_is_for_its_user_alone(cache: Path) -> None:
    lock.take("a", cache)()
    (file,) = (cache / "attached").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o666)
    with pytest.raises(FleetError, match=re.escape(str(file))):
        lock.take("a", cache)


def test_where_no_file_can_be_made_it_says_what_to_set(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").write_text("")
    monkeypatch.setenv("CHAOSLAB_CACHE", str(cache / "file"))
    with pytest.raises(FleetError, match="CHAOSLAB_CACHE"):
        lock.take("a", cache)
