"""Files that a user names: one that is far too large is refused before it is read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoslab.cli.commands.gameday import _text_of
from chaoslab.core.errors import PlanError
from chaoslab.core.regular_files import WRITTEN_MOST_BYTES, read_written
from chaoslab.experiments.file import load as load_experiment
from chaoslab.fleet.remote.inventory import load as load_inventory
from chaoslab.links.traces import read_trace
from chaoslab.plan.file import Kinds
from chaoslab.plan.file import load as load_plan
from chaoslab.sim.costs import Costs


def sparse(folder: Path, size: int) -> Path:
    """A file of this size that takes no room."""
    path = folder / "large"
    path.touch()
    os.truncate(path, size)
    return path


def test_a_file_may_be_as_large_as_the_limit_and_a_pipe_too(tmp_path: Path) -> None:
    assert len(read_written(sparse(tmp_path, WRITTEN_MOST_BYTES))) == WRITTEN_MOST_BYTES
    with pytest.raises(OSError, match=r"4\.2 MB"):
        read_written(sparse(tmp_path, WRITTEN_MOST_BYTES + 1))
    read_end, write_end = os.pipe()
    os.write(write_end, b"version: 1")
    os.close(write_end)
    assert read_written(Path(f"/dev/fd/{read_end}")) == b"version: 1"
    os.close(read_end)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: load_plan(path, Kinds()),
        load_inventory,
        load_experiment,
        Costs.read,
        read_trace,
        lambda path: _text_of(str(path)),
    ],
    ids=["plan", "inventory", "experiment", "costs", "trace", "script"],
)
def test_what_is_far_too_large_is_refused_with_its_name_and_size(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = sparse(tmp_path, 60 * 10**6)
    with pytest.raises(PlanError) as refused:
        read(path)
    assert all(word in str(refused.value) for word in (str(path), "60.0 MB", "4.2 MB"))
