"""Quantities of plans: durations, sizes, rates, percentages, counts, factors, as text and numbers.

    "1m30s" ── duration_s ──► 90.0 ── show_duration ──► "1m30s"

Every parser takes the text of a plan and returns base units (seconds, bytes, shares of one); every
formatter is its exact inverse. Invalid text raises a PlanError that says what to write; a number
without a unit is never a quantity.

The settings of faults and checks declare their quantity by type, so that one decoder serves all:

    within_s: Duration = 30.0       # `within: 30s` in the plan
    max_delta: Share = 0.05         # `max_delta: 5%`
    max_slowdown: Factor = 1.25     # `max_slowdown: 1.25x`
    max_gap: Bound = Relative(factor=3.0)   # `max_gap: 3x baseline` or `max_gap: 2s`
    step_time: StepTime = Pacing.OFF        # `step_time: off`, `auto` or `60ms`
    norm_limit: Limit = 8.0                 # `norm_limit: 8`, or `off`: infinite

Times and sizes use decimal arithmetic, so 0.1 stays 0.1.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from chaoslab.core.errors import PlanError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A bound that is a multiple of the run's own value before the first fault: `3x baseline`."""

    factor: float
    of: Literal["baseline"] = "baseline"

    def __str__(self) -> str:
        return f"{_plain(_exact(self.factor))}x {self.of}"


class Pacing(StrEnum):
    """A step time that is no number: none, or one that the run measures."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Generic[_T]):
    """One kind of quantity: its parser, formatter, description and JSON Schema pattern."""

    name: str
    parse: Callable[[str], _T]
    show: Callable[[_T], str]
    pattern: str
    """Regular expression without anchors, also valid in JSON Schema."""
    examples: tuple[str, ...]
    bare_number: Literal["integer", "number"] | None = None
    """Kind of a number without a unit that is accepted; None: a unit is required."""

    @property
    def form(self) -> dict[str, Any]:
        """JSON Schema of its text."""
        return {
            "type": "string", "pattern": f"^{self.pattern}$", "examples": [*self.examples]
        }  # fmt: skip

    def read(self, value: object) -> _T:
        """Value of a plan's text; PlanError if it is invalid."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise PlanError(f"{value!r} is not a {self.name}: write {self.examples[0]}")
        return self.parse(value if isinstance(value, str) else repr(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Text in JSON, which plans are validated as; base units in Python."""
        from pydantic_core import core_schema  # noqa: PLC0415  # only for plans

        text = core_schema.no_info_plain_validator_function(self.read)
        return core_schema.json_or_python_schema(json_schema=text, python_schema=handler(source))

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        bare = [{"type": self.bare_number, "minimum": 0}] if self.bare_number else []
        return {"anyOf": [*bare, self.form]}


# ---------------------------------------------------------------- durations

_SECONDS: Final[Mapping[str, Decimal]] = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "us": Decimal("0.000001"),
}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_NO_LIMIT = "off"
_DURATION = rf"(?:{_NUMBER}(?:d|h|ms|m|us|s))+"


_SHOWN_S = 0.01
"""Times below it are not told apart."""
_AT_ONCE_S = 0.05
"""A shorter delay is shown as none."""


def duration_s(text: str) -> float:
    """Seconds in `250ms`, `30s`, `10m`, `1h` or `1m30s`; PlanError otherwise."""
    if not re.fullmatch(_DURATION, text):
        raise _wrong(text, "a duration", "30s", "250ms, 30s, 10m, 1h or 1m30s", units=_SECONDS)
    parts = re.findall(rf"({_NUMBER})(d|h|ms|m|us|s)", text)
    order = [list(_SECONDS).index(unit) for _, unit in parts]
    if order != sorted(set(order)):
        raise PlanError(f"{text!r} is not a duration: each unit once, larger ones first, as 1m30s")
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in parts))


def show_duration(seconds: float) -> str:
    """The shortest usual text: `250ms`, `6s`, `1m30s`, `1h`."""
    left = _exact(seconds)
    if 0 < left < 1:
        return f"{_plain(left * 1000)}ms"
    text = ""
    for unit in ("h", "m"):
        whole = left // _SECONDS[unit]
        left -= whole * _SECONDS[unit]
        text += f"{whole}{unit}" if whole else ""
    return text if text and not left else f"{text}{_plain(left)}s"


# ---------------------------------------------------------------- sizes and rates

_BYTES: Final[Mapping[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_BITS: Final[Mapping[str, int]] = {
    "bit": 1,
    "kbit": 10**3,
    "mbit": 10**6,
    "gbit": 10**9,
    "tbit": 10**12,
}
_SIZE = rf"{_NUMBER}(?:{'|'.join(_BYTES)})"
_RATE = rf"{_NUMBER}(?:(?:{'|'.join(_BYTES)})/s|(?:{'|'.join(_BITS)}))"


def size_bytes(text: str) -> int:
    """Bytes in `512B`, `1.5GB` (thousands) or `64MiB` (powers of 1024); PlanError otherwise."""
    if not re.fullmatch(_SIZE, text):
        raise _wrong(text, "a size", "64MiB", "512B, 1.5GB or 64MiB", units=_BYTES)
    number, unit = _split(text)
    size = number * _BYTES[unit]
    if size != size.to_integral_value():
        raise PlanError(f"{text!r} is not a size: it is not a whole number of bytes")
    return int(size)


def rate_bytes_per_s(text: str) -> float:
    """Bytes per second in `2MB/s`, `64MiB/s` or `80mbit` (bits per second); PlanError otherwise."""
    if not re.fullmatch(_RATE, text):
        units = {**{f"{unit}/s": 1 for unit in _BYTES}, **_BITS}
        raise _wrong(text, "a rate", "2MB/s", "2MB/s, 64MiB/s or 80mbit", units=units)
    number, unit = _split(text.removesuffix("/s"))
    return float(number * _BYTES[unit] if unit in _BYTES else number * _BITS[unit] / 8)


# ---------------------------------------------------------------- ratios and counts

_THOUSANDS: Final[Mapping[str, int]] = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def share(text: str) -> float:
    """The share of one in `50%`; PlanError otherwise. Its upper limit is checked by the caller."""
    if not re.fullmatch(rf"{_NUMBER}%", text):
        number = Decimal(text) if _is_number(text) else Decimal(50)
        hint = _plain(number if number > 1 else number * 100)
        raise PlanError(f"{text!r} is not a percentage: write {hint}%")
    return float(Decimal(text.removesuffix("%")) / 100)


def show_share(value: float) -> str:
    """The share as a percentage: `50%`."""
    return f"{_plain(_exact(value) * 100)}%"


def count(text: str | int) -> int:
    """A whole number, also as `200k`, `2M`, `1.5B` or `1T`; PlanError otherwise."""
    match = re.fullmatch(rf"({_NUMBER})([kMBT]?)", str(text))
    if re.fullmatch(rf"{_NUMBER}[eE]\+?[0-9]{{1,2}}", str(text)):
        written = COUNT.show(int(Decimal(text)))
        raise PlanError(f"{text!r} is not a count: write {written}")
    if isinstance(text, bool) or not match:
        raise _wrong(str(text), "a count", "200k", "1500, 200k, 2M or 1.5B", units=_THOUSANDS)
    number = Decimal(match[1]) * _THOUSANDS[match[2]]
    if number != number.to_integral_value():
        raise PlanError(f"{text!r} is not a count: it is not a whole number")
    return int(number)


def factor(text: str) -> float:
    """The factor in `1.25x`; PlanError otherwise."""
    if not re.fullmatch(rf"{_NUMBER}x", text):
        raise PlanError(f"{text!r} is not a factor: write {text if _is_number(text) else 1.25}x")
    return float(Decimal(text.removesuffix("x")))


def rounds(text: str) -> int:
    """The number in `12 rounds`; PlanError otherwise."""
    if not re.fullmatch(r"[0-9]+ rounds?", text):
        hint = text if re.fullmatch("[0-9]+", text) else "12"
        raise PlanError(f"{text!r} is not a number of rounds: write {hint} rounds")
    return int(text.split(maxsplit=1)[0])


def bound(text: str) -> float | Relative:
    """Seconds in `2s`, or the multiple of the baseline in `3x baseline`; PlanError otherwise."""
    match = re.fullmatch(rf"({_NUMBER}x) baseline", text)
    if match:
        return Relative(factor=factor(match[1]))
    if not re.fullmatch(_DURATION, text):
        raise PlanError(f"{text!r} is not a bound: write 2s, or 3x baseline")
    return duration_s(text)


def step_time(text: str) -> float | Pacing:
    """Seconds in `60ms`, or `auto` or `off`; PlanError otherwise."""
    if text in tuple(Pacing):
        return Pacing(text)
    if not re.fullmatch(_DURATION, text):
        raise PlanError(f"{text!r} is not a step time: write 60ms, auto or off")
    return duration_s(text)


def limit(text: str) -> float:
    """A number, or infinity for `off`; PlanError otherwise."""
    if text == _NO_LIMIT:
        return math.inf
    if not _is_number(text):
        raise PlanError(f"{text!r} is not a limit: write a number, or {_NO_LIMIT}")
    return float(text)


# ---------------------------------------------------------------- types of settings

DURATION: Final = Quantity(
    name="duration", parse=duration_s, show=show_duration, pattern=_DURATION,
    examples=("250ms", "30s", "1m30s"),
)  # fmt: skip
SIZE: Final = Quantity(
    name="size", parse=size_bytes, show=lambda size: _shortest(size, _BYTES), pattern=_SIZE,
    examples=("1.5GB", "64MiB"),
)  # fmt: skip
RATE: Final = Quantity(
    name="rate", parse=rate_bytes_per_s, show=lambda rate: f"{_shortest(rate, _BYTES)}/s",
    pattern=_RATE, examples=("2MB/s", "80mbit"),
)  # fmt: skip
SHARE: Final = Quantity(
    name="percentage", parse=share, show=show_share, pattern=rf"{_NUMBER}%", examples=("50%",)
)
COUNT: Final = Quantity(
    name="count", parse=count, show=lambda number: _shortest(number, _THOUSANDS),
    pattern=rf"{_NUMBER}[kMBT]?", examples=("200k", "2M"), bare_number="integer",
)  # fmt: skip
FACTOR: Final = Quantity(
    name="factor", parse=factor, show=lambda value: f"{_plain(_exact(value))}x",
    pattern=rf"{_NUMBER}x", examples=("1.25x",),
)  # fmt: skip
ROUNDS: Final = Quantity(
    name="number of rounds", parse=rounds, show=lambda number: f"{number} rounds",
    pattern=r"[0-9]+ rounds?", examples=("12 rounds",),
)  # fmt: skip
BOUND: Final = Quantity(
    name="bound", parse=bound,
    show=lambda value: str(value) if isinstance(value, Relative) else show_duration(value),
    pattern=rf"(?:{_DURATION}|{_NUMBER}x baseline)", examples=("2s", "3x baseline"),
)  # fmt: skip
STEP_TIME: Final = Quantity(
    name="step time", parse=step_time,
    show=lambda value: value.value if isinstance(value, Pacing) else show_duration(value),
    pattern=rf"(?:{_DURATION}|auto|off)", examples=("auto", "60ms", "off"),
)  # fmt: skip
LIMIT: Final = Quantity(
    name="limit", parse=limit,
    show=lambda value: _NO_LIMIT if math.isinf(value) else _plain(_exact(value)),
    pattern=rf"(?:{_NUMBER}|{_NO_LIMIT})", examples=("8", _NO_LIMIT), bare_number="number",
)  # fmt: skip

Duration: TypeAlias = Annotated[float, DURATION]
Bytes: TypeAlias = Annotated[int, SIZE]
BytesPerSecond: TypeAlias = Annotated[float, RATE]
Share: TypeAlias = Annotated[float, SHARE]
Count: TypeAlias = Annotated[int, COUNT]
Factor: TypeAlias = Annotated[float, FACTOR]
Rounds: TypeAlias = Annotated[int, ROUNDS]
Bound: TypeAlias = Annotated[float | Relative, BOUND]
StepTime: TypeAlias = Annotated[float | Pacing, STEP_TIME]
Limit: TypeAlias = Annotated[float, LIMIT]


# ---------------------------------------------------------------- exact decimal text


def elapsed(seconds: float) -> str:
    """A measured time as a reader wants it: less than 0.01 s, 0.31 s, 24.1 s, 412 s."""
    if 0 <= seconds < _SHOWN_S / 2:
        return f"less than {_SHOWN_S} s"
    digits = 2 if seconds < 10 else 1 if seconds < 100 else 0
    return f"{seconds:.{digits}f} s"


def delay(seconds: float, said: str = "after {}", *, soon: str = "at once") -> str:
    """How much later something came, as part of a sentence: `after 0.31 s`, `at once`.

    `said` has another place for the time (`within {}`, `{} later`), `soon` other words for none.
    """
    return soon if seconds < _AT_ONCE_S else said.format(elapsed(seconds))


def plural(number: int, one: str, many: str = "") -> str:
    """A number with what it counts: `1 line`, `1,204 lines`; `many` for other plurals than -s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _exact(value: float) -> Decimal:
    if not 0 <= value < float("inf"):
        raise PlanError(f"{value!r} is not a quantity: it must be finite and at least 0")
    return Decimal(repr(value + 0))  # -0.0 + 0 is 0.0


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _split(text: str) -> tuple[Decimal, str]:
    """The number and the unit of a text that matched a pattern above."""
    unit = text.lstrip("0123456789.")
    return Decimal(text.removesuffix(unit)), unit


def _shortest(amount: float, units: Mapping[str, int]) -> str:
    """The shortest exact text; among equals that with the unit listed first."""
    number = _exact(amount)
    texts = [f"{_plain(number / scale)}{unit}" for unit, scale in units.items() if number >= scale]
    parsed = [text for text in texts if _split(text)[0] * units[_split(text)[1]] == number]
    return min(parsed, key=len, default=f"{_plain(number)}{next(iter(units))}")


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text) is not None


def _wrong(
    text: str, what: str, example: str, examples: str, *, units: Mapping[str, object]
) -> PlanError:
    """PlanError for a text that is not `what`, with the most likely correction."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(\S*)\s*", text)
    if match and not match[2]:
        unit = _split(example)[1]
        return PlanError(f"{text!r} has no unit, so it is not {what}: write {match[1]}{unit}")
    if match:
        unit = next((unit for unit in units if unit.lower() == match[2].lower()), "")
        if unit:
            return PlanError(f"{text!r} is not {what}: write {match[1]}{unit}")
    return PlanError(f"{text!r} is not {what}: write for example {examples}")
