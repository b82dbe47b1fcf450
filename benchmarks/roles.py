"""Roles of a benchmark: other processes of its file, spoken to line by line.

benchmark ── Child(role, options, address) ──► python FILE --role ROLE --address ADDRESS …
          ◄───────── line ─────── print        the options of the benchmark are passed on
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Self, TypeAlias

Roles: TypeAlias = Mapping[str, Callable[[argparse.Namespace], None]]


def add_role_options(parser: argparse.ArgumentParser, roles: Roles) -> None:
    """Add the options by which a benchmark starts its roles."""
    parser.add_argument("--role", choices=sorted(roles), help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)


class Child:
    """Another role of this benchmark, as a process that ends with the block."""

    def __init__(self, role: str, options: argparse.Namespace, address: str = "") -> None:
        given = {**vars(options), "role": role, "address": address}
        passed = [(k, v) for k, v in given.items() if not isinstance(v, bool)]
        words = [
            word for key, value in passed for word in (f"--{key}".replace("_", "-"), f"{value}")
        ]
        self._process = subprocess.Popen(
            [sys.executable, sys.argv[0], *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        self._input.write(f"{line}\n")
        self._input.flush()

    def line(self) -> str:
        """The next line that it prints."""
        line = self._output.readline().strip()
        if not line:
            raise RuntimeError("a benchmark process ended early; its error stands above")
        return line
