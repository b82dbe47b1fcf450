"""Key files: made for their user alone, and refused where others could have read them."""

import os
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.gameday.key_file import secret_in, secret_in_or_new
from tests.sealed_day import DAY, PLAN, call, prepared

pytestmark = pytest.mark.usefixtures("folder")


def test_a_key_file_is_made_for_its_user_alone_and_read_again() -> None:
    path = Path("day.key")
    secret = secret_in_or_new(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret_in_or_new(path) == secret == secret_in(path)
    assert len(secret) == 32
    assert secret_in_or_new(Path("other.key")) != secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_file_that_others_can_read_is_refused(mode: int) -> None:
    path = Path("day.key")
    secret_in_or_new(path)
    path.chmod(mode)
    with pytest.raises(PlanError, match=r"day\.key"):
        secret_in_or_new(path)


@pytest.mark.parametrize("text", ["", "no key", "ab" * 31, "ab" * 33, "☃"])
def test_a_file_that_is_no_key_file_is_refused(text: str) -> None:
    path = Path("day.key")
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(PlanError, match=r"day\.key"):
        secret_in(path)


def test_a_key_file_is_not_followed_to_another_place_nor_made_where_nothing_can_be() -> None:
    secret_in_or_new(Path("day.key"))
    Path("link.key").symlink_to("day.key")
    os.mkfifo("pipe.key", 0o600)
    for name, said in (
        ("link.key", "cannot be read"),
        ("pipe.key", "is no regular file"),
        ("nowhere/day.key", "cannot be made"),
    ):
        with pytest.raises(PlanError, match=said):
            secret_in_or_new(Path(name))


def test_without_a_key_file_or_without_sealed_faults_nothing_starts() -> None:
    prepared()
    Path("day.txt").write_text(DAY)
    done = call("one_dies.yaml", "--script", "day.txt")
    assert done.exit_code == ExitCode.REFUSED
    assert "--key" in done.stderr
    Path("plain.yaml").write_text(PLAN.replace("gameday:", "# gameday:"))
    done = call("plain.yaml", "--charter", "--key", "day.key")
    assert done.exit_code == ExitCode.REFUSED
    assert not Path("day.key").exists()
    assert not Path("runs").exists()
    nothing = call("nowhere", "--unseal")
    assert nothing.exit_code == ExitCode.REFUSED
