"""Damage that suits any text of lines and any JSON: what `plan_files` and `journals` share."""

import random
from collections.abc import Callable
from typing import Any, Final

HUGE: Final = 10**400
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2, 7, 1 << 31, 1 << 63, -(1 << 63), 10**90, HUGE, 0.5, -0.0,
    1e-308, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), "", "x", "NaN", "-Infinity",
    "é", "\ud800", "\0", "a\nb", "\u2028", "x" * 3000, "1e999", "0x1f", "learner-0", "learner-1",
    [], {}, [[]], [None], {"": {}}, {"a": None}, ["learner-0", "learner-0"],
)  # fmt: skip
"""Values that stand for none that are expected anywhere."""


def damaged_value(chance: random.Random, value: Any, odd: tuple[Any, ...] = ODD) -> Any:
    """A copy of a JSON value in which one part is replaced, renamed, repeated, nested or gone."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return _replaced(chance, value, odd)
    if isinstance(value, list):
        return _damaged_list(chance, value, odd)
    found = dict(value)
    key = chance.choice(list(found))
    draw = chance.random()
    if draw < 0.1:
        del found[key]
    elif draw < 0.2:
        found[str(chance.choice(odd))[:50]] = found.pop(key)
    elif draw < 0.25:
        found[key] = found[chance.choice(list(found))]
    else:
        found[key] = damaged_value(chance, found[key], odd)
    return found


def _damaged_list(chance: random.Random, value: list[Any], odd: tuple[Any, ...]) -> list[Any]:
    found = list(value)
    at = chance.randrange(len(found))
    draw = chance.random()
    if draw < 0.15:
        del found[at]
    elif draw < 0.3:
        found.insert(at, chance.choice(found))
    else:
        found[at] = damaged_value(chance, found[at], odd)
    return found


def _replaced(chance: random.Random, value: Any, odd: tuple[Any, ...]) -> Any:
    draw = chance.random()
    if draw < 0.05:
        return _nested(value, chance.choice((1, 60, 300)))
    if draw < 0.2 and isinstance(value, int | float):
        return value * chance.choice((-1, 10, 1000, 10**9))
    return chance.choice(odd)


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def damaged_bytes(chance: random.Random, data: bytes) -> bytes:
    """The same with one to three changes, each to bytes or to lines."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(_WAYS)(chance, data)
    return data


def _flip(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _splice(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((0, 0, 1, 4, 40)))
    return data[:start] + chance.choice(_TOKENS) + data[end:]


def _cut(chance: random.Random, data: bytes) -> bytes:
    if chance.random() < 0.3:
        return data[: -chance.randrange(1, 4)]
    return data[: chance.randrange(len(data) + 1)]


def _lines(chance: random.Random, data: bytes) -> bytes:
    """One line is gone, repeated, moved or exchanged."""
    lines = data.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    draw = chance.randrange(4)
    if draw == 0:
        del lines[one]
    elif draw == 1:
        lines.insert(other, lines[one])
    elif draw == 2:
        lines.insert(other, lines.pop(one))
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


_TOKENS: Final = (
    b"", b" ", b"\n", b"\r", b"\r\n", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8",
    b"{", b"}", b"[", b"]", b":", b": ", b",", b"- ", b"? ", b"#", b"'", b'"', b"|\n", b">\n",
    b"&a ", b"*a", b"<<: *a", b"!!python/object/apply:os.abort []", b"!!binary ", b"---\n",
    b"...\n", b"%YAML 1.1\n", b"~", b"null", b"NaN", b".nan", b".inf", b"1e400", b"-1", b"9" * 5000,
    b'"\\ud800"', b"${vars.x}", b"${env:FUZZ_SECRET}", b"[" * 3000,
    b'{"a":' * 3000, b"\xef\xbb\xbf",
)  # fmt: skip
_WAYS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (_flip, _splice, _cut, _lines)
