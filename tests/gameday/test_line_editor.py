"""The line that is being typed, key by key."""

import pytest

from chaoslab.gameday.line_editor import LineEditor
from chaoslab.gameday.orders import Names, completed

NAMES = Names(faults=("half-dies", "half-hangs"), nodes=())


@pytest.fixture
def editor() -> LineEditor:
    return LineEditor(lambda line: completed(line, NAMES))


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (b"go half-dies\n", ["go half-dies"]),
        (b"go half-dies\r", ["go half-dies"]),
        (b"goo\x7f half-dix\x08es\r", ["go half-dies"]),
        (b"abort\x15note calm\r", ["note calm"]),
        (b"note a\rnote b\r", ["note a", "note b"]),
        (b"\r \r", []),
        (b"g\to\r", ["go o"]),
        (b"go half-d\t\r", ["go half-dies"]),
        ("note läuft ☃\r".encode(), ["note läuft ☃"]),
        (b"go\x1b[D\x1b[1;5C\x1bOP\x1b[3~\r", ["go"]),
        (b"no\x00\x01\x04te x\r", ["note x"]),
        (b"note \xff\xfe!\r", ["note !"]),
    ],
)
def test_keys_make_lines(editor: LineEditor, keys: bytes, lines: list[str]) -> None:
    assert list(editor.feed(keys)) == lines
    assert editor.text == ""


def test_keys_make_the_same_lines_one_by_one(editor: LineEditor) -> None:
    keys = "note ☃ä\x1b[A\x7f!\r".encode()
    assert [line for key in keys for line in editor.feed(bytes([key]))] == ["note ☃!"]


def test_up_brings_earlier_lines_and_down_goes_back(editor: LineEditor) -> None:
    list(editor.feed(b"go\rgo\rheal\rnote"))
    seen = []
    for key in (b"\x1b[A", b"\x1bOA", b"\x1b[A", b"\x1b[B", b"\x1b[B"):
        list(editor.feed(key))
        seen.append(editor.text)
    assert seen == ["heal", "go", "go", "heal", "note"]
    assert list(editor.feed(b"\x1b[A\r")) == ["heal"]
    assert list(editor.feed(b"\x1b[B\r")) == []


def test_choices_stay_until_the_next_key(editor: LineEditor) -> None:
    list(editor.feed(b"go h\t"))
    assert editor.text == "go half-"
    assert list(editor.choices) == ["half-dies", "half-hangs"]
    list(editor.feed(b"d"))
    assert list(editor.choices) == []


def test_a_line_has_an_end(editor: LineEditor) -> None:
    list(editor.feed(b"x" * 10_000))
    assert len(editor.text) == 2000
