"""Event files of TensorBoard and W&B: whole, torn, damaged, and growing while they are read."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.trainers.event_files import (
    EventFiles,
    event_records,
    event_row,
    wandb_records,
    wandb_row,
)
from chaoslab.trainers.values import Names

TENSORBOARD = bytes.fromhex(
    "1800000000000000a37f4b2209e520cc9433c3da411a0d627261696e2e4576656e743a329bec36492000000000000000"
    "29eda95009329acf9433c3da41100c2a130a110a0a6c6f73732f747261696e1500005040cfd802261800000000000000"
    "a37f4b2209b4b5cf9433c3da41100c2a0b0a090a026c72156f12833ab0d8bb5f200000000000000029eda95009bfb8cf"
    "9433c3da41100d2a130a110a0a6c6f73732f747261696e150000c07f318175c2"
)
"""Written by tensorboardX 2.6.5: loss/train 3.25 and lr 0.001 of step 12, loss/train nan of 13."""


WANDB_ROW = bytes.fromhex(
    "0807126d0a0b12055f73746570820101300a0d12046c6f7373820104332e32350a0c12026c72820105302e3030310a25"
    "120a5f74696d657374616d70820116312e37393630303133373936383839323338652b30390a1812085f72756e74696d"
    "6582010b312e3232333338333036361200"
)
"""A row of an offline run, written by wandb 0.31.0."""


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, tag: str, value: bytes) -> bytes:
    record = field(2, step) + field(5, field(1, field(1, tag.encode()) + value))
    return struct.pack("<QI", len(record), 0) + record + b"crc?"


def scalar(value: float) -> bytes:
    return varint(2 << 3 | 5) + struct.pack("<f", value)


def history(step: int, **values: str) -> bytes:
    items = [
        field(1, field(1, key.encode()) + field(16, text.encode())) for key, text in values.items()
    ]
    return field(2, b"".join(items) + field(2, field(1, step)))


def in_blocks(*records: bytes) -> bytes:
    """A W&B run; checksums are not read, and here zero."""
    data = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
    for record in records:
        rest, part = record, 0
        while part not in {1, 4}:
            if (room := 32768 - len(data) % 32768) < 7:
                data += bytes(room)
                room = 32768
            now, rest = rest[: room - 7], rest[room - 7 :]
            part = (3 if rest else 4) if part else (2 if rest else 1)
            data += struct.pack("<IHB", 0, len(now), part) + now
    return data


WANDB = in_blocks(
    field(21, b""),
    history(0, loss="3.25", lr="0.001"),
    history(1, text='"' + "x" * 70_000 + '"', loss="NaN"),
    *(history(step, loss=str(step)) for step in range(2, 100)),
)


@given(st.integers(min_value=0, max_value=len(TENSORBOARD)))
@settings(max_examples=15)
def test_an_event_file_may_be_cut_anywhere_and_is_read_on_from_there(cut: int) -> None:
    first, taken = event_records(TENSORBOARD[:cut])
    rest, rest_taken = event_records(TENSORBOARD[taken:])
    assert taken + rest_taken == len(TENSORBOARD)
    rows = [event_row(record) for record in first + rest]
    assert rows[:2] == [{}, {"loss/train": 3.25, "step": 12}]
    assert rows[2]["lr"] == pytest.approx(0.001)
    assert repr(rows[3]) == repr({"loss/train": math.nan, "step": 13})


@given(st.integers(min_value=0, max_value=len(WANDB)))
@settings(max_examples=15)
def test_a_wandb_run_may_be_cut_anywhere_and_is_read_on_from_there(cut: int) -> None:
    first, taken = wandb_records(WANDB[:cut], 0)
    rest, rest_taken = wandb_records(WANDB[taken:], taken)
    assert taken + rest_taken == len(WANDB)
    rows = [wandb_row(record) for record in first + rest]
    assert rows[:2] == [{}, {"loss": 3.25, "lr": 0.001, "_step": 0}]
    assert math.isnan(float(str(rows[2]["loss"])))
    assert [row["_step"] for row in rows[1:]] == list(range(100))


def test_a_row_of_wandb_has_its_values_and_step() -> None:
    assert wandb_row(WANDB_ROW) == {
        "_step": 0, "loss": 3.25, "lr": 0.001, "_timestamp": 1796001379.6889238,
        "_runtime": 1.223383066,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (field(1, 1) + field(4, struct.pack("<f", 2.5)), 2.5),
        (field(1, 2) + field(6, struct.pack("<d", 2.5)), 2.5),
        (field(1, 1) + field(2, b"") + field(5, struct.pack("<f", 2.5)), 2.5),
        (field(1, 9) + field(4, struct.pack("<q", 2)), None),
        (field(1, 1) + field(4, struct.pack("<ff", 2.5, 1.5) + b"more"), None),
    ],
)
def test_a_scalar_may_be_a_tensor(tensor: bytes, value: float | None) -> None:
    (record,), _ = event_records(event(12, "loss", field(8, tensor)))
    assert event_row(record) == ({} if value is None else {"loss": value, "step": 12})


def test_what_is_there_at_first_is_not_read_and_a_new_file_is(tmp_path: Path) -> None:
    old = tmp_path / "run" / "events.out.tfevents.1"
    old.parent.mkdir()
    old.write_bytes(TENSORBOARD[:-4])
    source = EventFiles(tmp_path, Names(), is_wandb=False)
    assert source.read() == []
    with old.open("ab") as file:
        file.write(TENSORBOARD[-4:])
    assert [said.step for said in source.read()] == [13]
    (tmp_path / "events.out.tfevents.2").write_bytes(event(14, "loss", scalar(2.5)))
    assert [(said.step, said.loss) for said in source.read()] == [(14, 2.5)]
    assert source.read() == []


def test_tags_that_are_no_loss_count_only_if_they_are_named(tmp_path: Path) -> None:
    usual = EventFiles(tmp_path, Names(), is_wandb=False)
    named = EventFiles(tmp_path, Names(step="lr", loss="eval/loss"), is_wandb=False)
    (tmp_path / "events.out.tfevents.1").write_bytes(
        event(640, "lm loss vs samples", scalar(2.5)) * 2
        + event(12, "lr", scalar(0.5))
        + event(12, "eval/loss", scalar(2.5))
    )
    assert usual.read() == []
    assert "eval/loss" in usual.nearest
    assert [(said.step, said.loss) for said in named.read()] == [(12, None), (12, 2.5)]


def test_a_tag_that_counts_steps_and_is_never_there_is_named(tmp_path: Path) -> None:
    source = EventFiles(tmp_path, Names(step="train/setp"), is_wandb=False)
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(event(1, "loss", scalar(2.5)) * 2 + event(1, "train/step", scalar(0.5)))
    assert source.read() == []
    assert "mean train/step? It has train/step=0.5, " in source.nearest
    assert "train/setp" in source.absent


def test_a_wandb_run_in_a_folder_is_read_as_it_grows(tmp_path: Path) -> None:
    source = EventFiles(tmp_path, Names(), is_wandb=True)
    run = tmp_path / "offline-run-1" / "run-1.wandb"
    run.parent.mkdir()
    steps: list[int | None] = []
    for cut in (3, 50, 40_000, len(WANDB)):
        run.write_bytes(WANDB[:cut])
        steps += [said.step for said in source.read()]
    assert steps == list(range(100))


@pytest.mark.parametrize(
    ("name", "content", "is_wandb"),
    [
        ("a.tfevents", b"not an event file", False),
        ("a.wandb", b"not a run of W&B", True),
        ("a.wandb", WANDB[:7] + bytes(100), True),
        ("a.tfevents", struct.pack("<QI", 2, 0) + b"\x0f\xffcrc?", False),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(
    tmp_path: Path, name: str, content: bytes, is_wandb: bool
) -> None:
    source = EventFiles(tmp_path, Names(), is_wandb=is_wandb)
    (tmp_path / name).write_bytes(content)
    assert source.read() == []
    assert name in source.nearest
    assert source.read() == []
