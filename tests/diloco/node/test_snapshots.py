"""Snapshots appear whole, in order, and say what is wrong with a broken one."""

import errno
import itertools
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chaoslab.diloco.node.snapshot_schedule import SnapshotSchedule
from chaoslab.diloco.node.snapshots import (
    Snapshot,
    SnapshotError,
    SnapshotFiles,
    read_snapshot,
    snapshot_paths,
    write_snapshot,
)

TENSORS = {
    "embedding": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32),
    "file": np.array([np.nan, -0.0, np.inf], np.float32),
    "scale/of.it": np.array(2.5, np.float32),
}


def snapshots_of(directory: Path) -> list[Snapshot]:
    return [read_snapshot(path) for path in snapshot_paths(directory)]


def test_a_snapshot_is_read_back_bit_for_bit(tmp_path):
    write_snapshot(tmp_path, tensors=TENSORS, round=7, committed_tokens=12_345)
    (snapshot,) = snapshots_of(tmp_path)
    assert (snapshot.round, snapshot.committed_tokens) == (7, 12_345)
    assert snapshot.tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert snapshot.tensors[name].shape == array.shape
        assert snapshot.tensors[name].tobytes() == array.tobytes()


def test_snapshots_are_read_in_order_of_tokens_and_the_last_of_equal_ones(tmp_path):
    for number, tokens in enumerate((10_000, 900, 0, 900)):
        write_snapshot(tmp_path, tensors=TENSORS, round=number, committed_tokens=tokens)
    found = [(snapshot.committed_tokens, snapshot.round) for snapshot in snapshots_of(tmp_path)]
    assert found == [(0, 2), (900, 3), (10_000, 0)]


def test_a_disk_that_refuses_any_part_of_a_snapshot_is_an_os_error_and_leaves_the_one_before(
    tmp_path,
):
    path = write_snapshot(tmp_path, tensors=TENSORS, round=1, committed_tokens=5)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in range(0, path.stat().st_size, 50):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(OSError, match=f"Errno {errno.EFBIG}"):
                write_snapshot(tmp_path, tensors=TENSORS, round=2, committed_tokens=5)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [snapshot.round for snapshot in snapshots_of(tmp_path)] == [1]
    assert list(tmp_path.iterdir()) == [path]


def with_a_changed_byte(body: bytes) -> bytes:
    at = body.index(TENSORS["embedding"].tobytes())
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


@pytest.mark.parametrize(
    "harm",
    [lambda body: b"", lambda body: body[:100], lambda body: body[:-60], with_a_changed_byte],
)
def test_a_torn_or_changed_snapshot_is_refused_by_name(tmp_path, harm):
    path = write_snapshot(tmp_path, tensors=TENSORS, round=1, committed_tokens=5)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(SnapshotError, match=path.name):
        snapshots_of(tmp_path)


def test_only_float32_is_kept(tmp_path):
    with pytest.raises(SnapshotError, match="embedding"):
        write_snapshot(tmp_path, tensors={"embedding": np.zeros(3)}, round=1, committed_tokens=5)


def test_a_folder_without_snapshots_is_refused(tmp_path):
    with pytest.raises(SnapshotError, match="snapshots"):
        snapshots_of(tmp_path / "missing")


def test_the_syncer_and_its_snapshots_need_no_jax():
    program = "import sys, chaoslab.diloco.syncer.program; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def thinned(directory: Path) -> SnapshotSchedule:
    return SnapshotSchedule(SnapshotFiles(directory), every=None, kept=10)


def train(directory, thinning, tokens):
    for committed in tokens:
        if thinning.is_due(committed):
            write_snapshot(directory, tensors=TENSORS, round=1, committed_tokens=committed)
            thinning.written(committed)
    return [int(path.stem) for path in snapshot_paths(directory)]


@pytest.mark.parametrize("rounds", [3, 20, 21, 500])
def test_snapshots_of_a_training_of_unknown_length_are_few_and_evenly_spread(tmp_path, rounds):
    step = 1024
    there = train(tmp_path, thinned(tmp_path), range(0, rounds * step, step))
    assert there[0] == 0
    assert min(rounds, 10) <= len(there) <= 20
    gaps = [later - earlier for earlier, later in itertools.pairwise(there)]
    assert max(gaps) <= max(step, 3 * rounds * step / 10)


def test_a_syncer_that_comes_back_goes_on_at_the_distance_it_had(tmp_path):
    first = train(tmp_path, thinned(tmp_path), range(0, 20_000, 100))
    again = train(tmp_path, thinned(tmp_path), range(20_000, 40_000, 100))
    assert len(again) <= 20
    assert again[-1] >= 36_000
    assert len(set(first) & set(again)) >= 2
