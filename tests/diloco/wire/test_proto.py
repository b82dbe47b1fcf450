"""The generated module says what `wire.proto` says."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

import chaoslab
from chaoslab.diloco.wire import wire_pb2

ROOT = Path(chaoslab.__file__).parent.parent
PROTO = "chaoslab/diloco/wire/wire.proto"


def test_the_generated_module_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools compiles wire.proto; install [dev]")
    out = tmp_path / "wire.bin"
    compiler = [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*compiler, "-I.", f"--descriptor_set_out={out}", PROTO], cwd=ROOT, check=True)
    (compiled,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    generated = descriptor_pb2.FileDescriptorProto()
    wire_pb2.DESCRIPTOR.CopyToProto(generated)
    for message in compiled.message_type:
        for field in message.field:
            field.ClearField("json_name")  # derived from the name, and not kept in the module
    assert generated == compiled, (
        f"run: python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. {PROTO}"
    )
