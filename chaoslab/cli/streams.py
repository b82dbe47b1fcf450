"""Standard streams of a command, which no reader, disk or shell turns into another exit code.

    closed by the shell (>&-) ─────► /dev/null takes its place
    its reader is gone (| head) ───► what is written from then on goes nowhere
    cannot encode a sign ──────────► `?`

A full disk behind stdout is an error of the command, which `commands.output` reports; stderr has
progress and messages alone, so nothing that happens to it stops a command.
"""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NO_READER = frozenset({errno.EPIPE})
_ANY = frozenset(errno.errorcode)


def prepare_streams() -> None:
    """Do all of it to stdin, stdout and stderr of this process.

    Where something else stands in the place of one, as in a test, only its signs are replaced.
    """
    _open_missing()
    sys.stdout = _forgiving(sys.stdout, sys.__stdout__, _NO_READER)
    sys.stderr = _forgiving(sys.stderr, sys.__stderr__, _ANY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _open_missing() -> None:
    """Otherwise a closed descriptor would be the next file's, and what a child prints would go
    there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, so that stream's
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", closefd=False))


def _forgiving(stream: TextIO, own: io.TextIOWrapper | None, passed_over: frozenset[int]) -> TextIO:
    """The stream that the process began with, now without these errors of writing."""
    if own is None or stream is not own:
        return stream
    raw = _Descriptor(own.fileno(), passed_over)
    return io.TextIOWrapper(
        raw if own.write_through else io.BufferedWriter(raw),  # as with `python -u`
        encoding=own.encoding,
        line_buffering=own.line_buffering,
        write_through=own.write_through,
    )


class _Descriptor(io.FileIO):
    """A descriptor that counts as written what it cannot write for certain reasons."""

    def __init__(self, number: int, passed_over: frozenset[int]) -> None:
        super().__init__(number, "w", closefd=False)
        self._passed_over = passed_over

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in self._passed_over:
                raise
            return memoryview(data).nbytes
