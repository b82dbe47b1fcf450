"""Messages between a harness and the host agents of its fleet: JSON lines over a Unix socket.

    harness ── attach: after which number ─────────────────────────────────────────► agent
            ── call: id, verb, arguments ──────────────────────────────────────────►
            ── renew: the lease, and what need not be kept any more ───────────────►
            ◄── hello: its name ── answer: id, value or error ── seen: number, observation ──

Each line is a JSON object with one of these words as its only key. Decoding is strict.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args

import msgspec

from chaoslab.core.errors import AbilityError, ChaoslabError, FleetError, HarnessBug, PlanError
from chaoslab.core.events import Json, Observation, decode
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Node, NodeSpec
from chaoslab.fleet.settings import Reading
from chaoslab.fleet.stressors import Stressor

LINE_BYTES_MOST: Final = 16 << 20
"""A longer line is refused: no command line and no certificate is this long."""
_Given = TypeVar("_Given")
_STRESSORS: Final[Mapping[str, type[Stressor]]] = {one.kind: one for one in get_args(Stressor)}
_ERRORS: Final = {
    one.__name__: one for one in (KeyError, FleetError, PlanError, AbilityError, HarnessBug)
}


class Garbled(FleetError):
    """A line that is no message of this protocol."""


def read_line(line: bytes) -> Mapping[str, Any]:
    """Message of a line; Garbled if there is none."""
    try:
        found = decode(line.decode())
    except ValueError as error:
        raise Garbled(f"{line[:200]!r} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Garbled(f"{line[:200]!r} is no JSON object")
    return found


# ---------------------------------------------------------------- nodes and stressors


def as_json(given: NodeSpec | Node | Stressor | Found | Reading) -> dict[str, Json]:
    """The same as JSON, secrets included: a specification travels on private channels only."""
    shown: dict[str, Json] = msgspec.to_builtins(given, enc_hook=_pattern_of)
    return shown


def read_as(kind: type[_Given], shown: Any) -> _Given:
    """What `as_json` has made of something of this kind; Garbled if it is malformed."""
    try:
        return msgspec.convert(shown, kind, dec_hook=lambda _, pattern: re.compile(pattern))
    except (msgspec.ValidationError, re.error) as error:
        raise Garbled(f"{error}") from error


def _pattern_of(value: object) -> str:
    """The text of a regular expression, the only value that JSON has no form for."""
    if not isinstance(value, re.Pattern):
        raise HarnessBug(f"{value!r} is not sent to hosts")
    return str(value.pattern)


def from_stressor(stressor: Stressor) -> Json:
    """A stressor as JSON: its kind and its settings."""
    return {"kind": stressor.kind, **as_json(stressor)}


def to_stressor(shown: Any) -> Stressor:
    """Stressor of a message; Garbled if there is none of this kind."""
    kind = _STRESSORS.get(str(shown.get("kind"))) if isinstance(shown, dict) else None
    if kind is None:
        raise Garbled(f"{shown!r} is no stressor")
    return read_as(kind, shown)


# ---------------------------------------------------------------- observations


def from_observation(seen: Observation) -> dict[str, Json]:
    """An observation as JSON."""
    shown: dict[str, Json] = {"source": seen.source, "kind": seen.kind.value, "data": seen.data}
    return shown if seen.node_s is None else {**shown, "node_s": seen.node_s}


def to_observation(shown: Any) -> Observation:
    """Observation of a message; Garbled if it is malformed."""
    try:
        return Observation.read(shown)
    except ValueError as error:
        raise Garbled(f"{shown!r} is no observation: {error}") from error


# ---------------------------------------------------------------- errors


def from_error(error: KeyError | ChaoslabError) -> Json:
    """An error of a verb as JSON: the nearest of those that a verb promises, and its words."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in _ERRORS), HarnessBug.__name__)
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return {"kind": kind, "message": words}


def to_error(shown: Any, host: str) -> Exception:
    """The error again, to be raised here; its words name the host."""
    kind = _ERRORS.get(str(shown.get("kind")), HarnessBug)
    words = str(shown.get("message"))
    return kind(words) if kind is KeyError else kind(f"{words} (on {host})")
