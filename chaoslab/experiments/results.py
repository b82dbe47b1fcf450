"""Results of an experiment on disk: one line for each cell and seed, so that it can be resumed.

    results.jsonl    {"key": digest of settings and simulator, "seed": 3, "values": {"goodput": …}}

A line counts for a cell only if its settings and the source of the simulator are the same: after a
change of either, cells are simulated again and old lines are left unread. A line that was cut off
by a crash is left unread, too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self, TypeAlias

import chaoslab
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.experiments.file import Cell
from chaoslab.experiments.kinds import KINDS
from chaoslab.plan.file.writing import written

Values: TypeAlias = Mapping[str, float]


@cache
def simulator_digest(kind: str) -> str:
    """Digest of the source and the data that decide what a kind of cell measures."""
    root = Path(chaoslab.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for source in KINDS[kind].sources:
        place = root / source
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in {".py", ".csv"}:
                name = path.relative_to(root).as_posix().encode()
                digest.update(name + b"\0" + path.read_bytes())
    return digest.hexdigest()


def key_of(kind: str, cell: Cell) -> str:
    """Key of everything on which the results of a cell depend, besides the seed."""
    settings = json.dumps(written(cell.settings), sort_keys=True)
    text = "\0".join((kind, simulator_digest(kind), settings))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(slots=True)
class ResultsFile:
    """The file, read when it is opened; `add` appends to it."""

    path: Path
    found: dict[tuple[str, int], Values] = field(default_factory=dict)
    """Measures by key and seed."""

    @classmethod
    def open(cls, path: Path, *, is_fresh: bool = False) -> Self:
        """Open the results; with `is_fresh` the file is begun anew."""
        results = cls(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if is_fresh or not path.exists():
                path.write_bytes(b"")
            lines = path.read_bytes().splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):
                path.write_bytes(b"".join(lines[:-1]))  # cut off by a crash
        except OSError as error:
            raise FleetError(f"{path}: {error}") from error
        results.found.update(_parsed(line, path) for line in lines if line.endswith(b"\n"))
        return results

    def add(self, key: str, seed: int, values: Values) -> None:
        """Keep one result."""
        line: Json = {"key": key, "seed": seed, "values": dict(values)}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise FleetError(f"{self.path}: {error}") from error
        self.found[key, seed] = values


def _parsed(line: bytes, path: Path) -> tuple[tuple[str, int], Values]:
    try:
        one = json.loads(line)
        values = {str(name): float(value) for name, value in one["values"].items()}
        return (str(one["key"]), int(one["seed"])), values
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FleetError(
            f"{path}: {line[:60]!r} is not a result: remove the file, or use --fresh"
        ) from error
