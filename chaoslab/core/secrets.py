"""Secrets of a plan: values from the environment that must not appear in any file of a run.

    {"data": "s3://key@host", "steps": 4} ─ hide ─► {"data": "s3://${env:KEY}@host", "steps": 4}

Texts within a structure are hidden before it is encoded; keys and numbers are not. A value that is
too short, or that looks like a word of a record, cannot be hidden reliably; the plan that names it
is refused.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, encode

LEAST_CHARACTERS = 8
_LONGEST_WORD = 24
_WORD = re.compile(r"[A-Za-z]+([._-][A-Za-z]+)*[._-]?\d*")
"""Words such as completed, no_progress, learner-12."""


def why_not_hidden(value: str) -> str:
    """Why a value cannot be hidden reliably; empty if it can be a secret."""
    if len(value) < LEAST_CHARACTERS:
        return f"is shorter than {LEAST_CHARACTERS} characters"
    if len(value) < _LONGEST_WORD and _WORD.fullmatch(value):
        return "looks like a word that records contain"
    return ""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values to hide, by the name of their environment variable; none by default."""

    values: Mapping[str, str] = field(default_factory=dict)
    _names: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """Name of the variable by each form in which its value may appear."""
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {form: name for name, value in self.values.items() for form in _forms(value)}
        longest_first = sorted(names, key=len, reverse=True)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_pattern", re.compile("|".join(map(re.escape, longest_first))))

    def text(self, text: str) -> str:
        """The text with each secret replaced by `${env:NAME}`."""
        if not self._names:
            return text
        return self._pattern.sub(lambda found: reference(self._names[found[0]]), text)

    def hide(self, value: Json) -> Json:
        """The value with every text in it hidden; keys and numbers are unchanged."""
        if not self._names:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self.data(value)
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def data(self, data: Mapping[str, Json]) -> Mapping[str, Json]:
        """The mapping with every text in its values hidden."""
        return {key: self.hide(item) for key, item in data.items()} if self._names else data

    def lines(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, each one JSON value, with every text hidden."""
        return (encode(self.hide(json.loads(line))) if self._names else line for line in lines)

    def rewrite(self, path: Path) -> None:
        """Hide the secrets in a text file, line by line; FleetError if the disk refuses."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            with (
                path.open(encoding="utf-8", errors="surrogateescape", newline="") as old,
                partial.open("w", encoding="utf-8", errors="surrogateescape", newline="") as new,
            ):
                new.writelines(map(self.text, old))
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise FleetError(f"{path}: secrets could not be removed: {error}") from error


def reference(name: str) -> str:
    """The placeholder of a secret in plans and records."""
    return f"${{env:{name}}}"


def _forms(value: str) -> Iterator[str]:
    """The value as it is, as JSON, Python and a shell quote it, and each of its long lines."""
    lines = [line for line in value.splitlines() if len(line) >= LEAST_CHARACTERS]
    for part in (value, *lines):
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        yield shlex.quote(part)
