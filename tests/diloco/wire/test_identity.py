"""Tokens and their files, and what is said of strangers."""

import stat
from pathlib import Path

import pytest

from chaoslab.diloco.wire.identity import RefusalReason, Refusals, Tokens, read_token


def test_a_token_is_good_for_its_own_learner_of_its_own_training_only() -> None:
    one, other = Tokens(["a", "b"]), Tokens(["a", "b"])
    assert one.owner(one.of("a")) == "a"
    assert one.owner(other.of("a")) is None
    secret = one.of("b").partition(":")[2]
    for wrong in (f"a:{secret}", "a:", ":", "", "a", "nobody:", one.of("a")[:-1], "\ud7ff:é"):
        assert one.owner(wrong) is None, wrong


def test_tokens_are_made_once_and_nobody_else_may_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "tokens"
    first = Tokens.load_or_create(folder, ["a"])
    again = Tokens.load_or_create(folder, ["a", "b"])
    assert again.of("a") == first.of("a")
    assert sorted(file.name for file in folder.iterdir()) == ["a", "b"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600
    assert read_token(folder / "b") == again.of("b")


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    Tokens.load_or_create(tmp_path, ["a"])
    (tmp_path / "a").chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        read_token(tmp_path / "a")
    with pytest.raises(ValueError, match="chmod 600"):
        Tokens.load_or_create(tmp_path, ["a"])


def test_a_file_that_holds_no_token_says_what_one_is(tmp_path: Path) -> None:
    empty = tmp_path / "a"
    empty.touch(mode=0o600)
    with pytest.raises(ValueError, match="NAME:SECRET"):
        read_token(empty)


@pytest.mark.parametrize("name", ["../a", "a/b", ".", "..", ""])
def test_a_learner_whose_name_is_no_file_name_gets_no_token(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no file name"):
        Tokens.load_or_create(tmp_path / "tokens", [name])


def test_a_flood_of_strangers_is_counted_and_said_in_few_lines() -> None:
    away, lines = Refusals(), []
    for number in range(1000):
        away.note(RefusalReason.NO_TOKEN, f"peer-{number}", claimed="x" * 1000)
        lines += away.due(number / 100)
    lines += away.due(float("inf"))
    assert sum(line.count for line in lines) == 1000
    assert len(lines) == 3, "at 0 s, at 5 s, and at the end"
    assert len(lines[-1].claimed) == 64
    assert away.totals == {"no_token": 1000}
    assert away.due(float("inf")) == []
