"""The syncer's disk: what was committed is there, whatever happened next; damage is found."""

import errno
import resource
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.fragments import Layout, TensorSpec, specs_to_json
from chaoslab.diloco.node.checksummed_file import CorruptState
from chaoslab.diloco.node.files import File
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.decisions import Contribution
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.store import StoredState, SyncerStore, Tensors
from chaoslab.diloco.syncer.syncer_state import SyncerState

TOO_LARGE = rf"Errno {errno.EFBIG}"
SPECS = '[{"name": "embedding"}]'
SHAPES = {
    0: {"embedding": (5, 3)},
    1: {"layer.0/w": (2, 2), "layer.1/w": (2, 2), "scale": ()},
    2: {"head": (7,)},
}


def tensors(fragment: int, seed: int) -> Tensors:
    chance = np.random.default_rng((fragment, seed))
    drawn = [
        {
            name: chance.standard_normal(shape, np.float32)
            for name, shape in SHAPES[fragment].items()
        }
        for _ in range(2)
    ]
    return Tensors(theta=drawn[0], momentum=drawn[1])


def line(round_: int, fragment: int, version: int) -> CommitRecord:
    given_ = Contribution(
        learner="learner-1", incarnation=2, epoch=5, step=10 * round_, c_steps=6, c_tokens=6144,
        weight=1.5e6, tokens_from=100, tokens_to=6244,
    )  # fmt: skip
    return CommitRecord(
        round=round_, fragment=fragment, version=version, begun=round_ + 1, contributors=(given_,),
        last_epoch=5, incarnations={"learner-1": 2}, data_positions={"learner-1": 77 * round_},
    )  # fmt: skip


def begun(directory: Path, *, durable: bool = False) -> SyncerStore:
    store = SyncerStore(directory, durable=durable)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    return store


def merge(store: SyncerStore, round_: int, versions: list[int]) -> None:
    """Round `round_` merges the next fragment in turn and moves its version on."""
    fragment = round_ % len(versions)
    versions[fragment] += 1
    version = versions[fragment]
    store.save_round(line(round_, fragment, version), tensors(fragment, version))


def trained(directory: Path, rounds: int) -> list[int]:
    store, versions = begun(directory), [0] * len(SHAPES)
    for round_ in range(1, rounds + 1):
        merge(store, round_, versions)
    store.close()
    return versions


def loaded(directory: Path) -> StoredState:
    state = SyncerStore(directory, durable=False).load()
    assert state is not None
    return state


def holds(state: StoredState, versions: list[int]) -> bool:
    """Whether it is whole: the right tensors at each fragment's version, by name and bit."""
    assert state.versions == tuple(versions)
    for fragment, version in enumerate(versions):
        wanted, found = tensors(fragment, version), state.fragments[fragment]
        for mine, theirs in ((wanted.theta, found.theta), (wanted.momentum, found.momentum)):
            assert list(mine) == list(theirs)
            for name, array in mine.items():
                assert theirs[name].dtype == np.float32
                np.testing.assert_array_equal(array, theirs[name], strict=True)
    return True


# ---------------------------------------------------------------- what was committed


def test_nothing_is_there_before_the_beginning(tmp_path: Path) -> None:
    assert SyncerStore(tmp_path / "nowhere").load() is None


@pytest.mark.parametrize("durable", [False, True])
def test_committed_merges_outlive_the_process(tmp_path: Path, durable: bool) -> None:
    versions, folder = [0, 0, 0], tmp_path / "new" / "folder"
    with closing(begun(folder, durable=durable)) as store:
        assert holds(loaded(folder), versions)
        for round_ in range(1, 9):
            merge(store, round_, versions)
            state = loaded(folder)
            assert holds(state, versions)
            assert state.commit_log[-1] == line(round_, round_ % 3, versions[round_ % 3])
    assert len(state.commit_log) == 3 + 8
    assert state.specs_json == SPECS


def test_saving_before_beginning_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SyncerStore(tmp_path).save_round(line(1, 0, 1), tensors(0, 1))


def test_parameters_and_momentum_must_name_the_same_tensors(tmp_path: Path) -> None:
    crossed = tensors(1, 1)
    momentum = dict(reversed(crossed.momentum.items()))
    with closing(begun(tmp_path)) as store, pytest.raises(ValueError, match="tensors"):
        store.save_round(line(1, 1, 1), Tensors(theta=crossed.theta, momentum=momentum))


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    versions = [0, 0, 0]
    with closing(begun(tmp_path)) as store:
        merge(store, 1, versions)
        with pytest.raises(BlockingIOError):
            SyncerStore(tmp_path).save_round(line(2, 2, 1), tensors(2, 9))
        assert holds(loaded(tmp_path), versions)
    with closing(SyncerStore(tmp_path, durable=False)) as second:
        merge(second, 2, versions)
    assert holds(loaded(tmp_path), versions)


def test_reading_changes_no_file(tmp_path: Path) -> None:
    trained(tmp_path, 5)
    with (tmp_path / "commits.jsonl").open("ab") as commit_log:
        commit_log.write(b'{"torn')
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    loaded(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# ---------------------------------------------------------------- a crash at every point


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The disk refuses to let any file grow further (RLIMIT_FSIZE, for this process)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_leaves_the_state_before(tmp_path: Path) -> None:
    versions = trained(tmp_path, 6)
    log_bytes = (tmp_path / "commits.jsonl").stat().st_size
    with closing(SyncerStore(tmp_path, durable=False)) as store:
        store.load()
        for room in (10, log_bytes + 100):  # no room for the slot; none for the whole line
            with no_file_larger_than(room), pytest.raises(OSError, match=TOO_LARGE):
                merge(store, 7, list(versions))
            assert holds(loaded(tmp_path), versions)
        merge(store, 7, versions)
    assert holds(loaded(tmp_path), versions)


@pytest.mark.parametrize("flushes", [1, 2], ids=["in its line", "behind its line"])
def test_a_merge_whose_undo_is_refused_as_well_is_committed_once_by_a_later_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: int
) -> None:
    """`flushes`: of the slot, then of the line, before the disk refuses."""
    versions = trained(tmp_path, 6)
    accepted = [File.flush] * flushes

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def flush(file: File) -> None:
        (accepted.pop() if accepted else refuse)(file)

    with closing(SyncerStore(tmp_path)) as store:
        store.load()
        with monkeypatch.context() as disk:
            disk.setattr(File, "flush", flush)
            disk.setattr(File, "cut", refuse)
            for _ in range(2):
                with pytest.raises(OSError, match=rf"Errno {errno.EIO}"):
                    merge(store, 7, list(versions))
        merge(store, 7, versions)
        merge(store, 8, versions)
    state = loaded(tmp_path)
    assert holds(state, versions)
    assert [one.round for one in state.commit_log] == [0, 0, 0, *range(1, 9)]


def test_a_torn_line_longer_than_the_next_one_leaves_nothing_of_itself(tmp_path: Path) -> None:
    versions = trained(tmp_path, 6)
    with (tmp_path / "commits.jsonl").open("ab") as commit_log:
        commit_log.write(b'{"blake2b":"' + b"0" * 5000)
    with closing(SyncerStore(tmp_path, durable=False)) as store:
        merge(store, 7, versions)
        merge(store, 8, versions)
    assert holds(loaded(tmp_path), versions)
    log_lines = (tmp_path / "commits.jsonl").read_bytes().splitlines()
    assert len(log_lines) == len(SHAPES) + 8


def test_momentum_belongs_to_a_tensor_by_name_whatever_the_order(tmp_path: Path) -> None:
    """Slots that name their tensors in another order than the model's layout."""
    specs = [
        TensorSpec(name=name, shape=(3,), is_averaged=False) for name in ("alpha", "beta", "gamma")
    ]
    momentum = {spec.name: np.full(3, 10 + i, np.float32) for i, spec in enumerate(specs)}
    theta = {spec.name: np.full(3, i, np.float32) for i, spec in enumerate(specs)}
    backwards = Tensors(
        theta=dict(reversed([*theta.items()])), momentum=dict(reversed([*momentum.items()]))
    )
    SyncerStore(tmp_path, durable=False).begin(specs_to_json(specs), {0: backwards})
    rules = Settings(learners=("learner-0",), fragments=1)
    syncer_state = SyncerState(rules, SyncerStore(tmp_path, durable=False), snapshots=None)
    policy = Policy(rules)
    syncer_state.restore(policy, 0.0)
    (fragment,) = Layout.balance(specs, 1).fragments
    assert syncer_state.ready(policy, "here").momentum_digests == {
        "0": digest(fragment.flatten(momentum))
    }


# ---------------------------------------------------------------- damage


def slot_of(directory: Path, fragment: int, version: int) -> Path:
    return directory / f"fragment-{fragment}.{'ab'[version % 2]}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(at=st.integers(0, 10_000), is_slot=st.booleans())
def test_a_damaged_byte_anywhere_is_found_and_named(tmp_path: Path, at: int, is_slot: bool) -> None:
    directory = tmp_path / "state"
    shutil.rmtree(directory, ignore_errors=True)
    versions = trained(directory, 4)
    damaged = slot_of(directory, 1, versions[1]) if is_slot else directory / "commits.jsonl"
    content = bytearray(damaged.read_bytes())
    content[at % (len(content) - 1)] ^= 0x40  # without its last newline a line is torn
    damaged.write_bytes(content)
    with pytest.raises(
        CorruptState, match=str(damaged) if is_slot else r"commits\.jsonl: line \d+"
    ):
        loaded(directory)


def test_a_missing_or_exchanged_slot_is_named(tmp_path: Path) -> None:
    versions = trained(tmp_path, 6)
    current = slot_of(tmp_path, 1, versions[1])
    older = slot_of(tmp_path, 1, versions[1] - 1)
    shutil.copy(older, current)
    with pytest.raises(CorruptState, match=f"{current} .*1.*2"):
        loaded(tmp_path)
    shutil.copy(slot_of(tmp_path, 0, versions[0]), current)
    with pytest.raises(CorruptState, match=f"{current} .*fragment 0"):
        loaded(tmp_path)
    current.unlink()
    with pytest.raises(CorruptState, match=str(current)):
        loaded(tmp_path)


def test_merges_of_another_process_are_never_cut_off(tmp_path: Path) -> None:
    first = SyncerStore(tmp_path, durable=False)
    versions = trained(tmp_path, 3)
    first.load()
    second = SyncerStore(tmp_path, durable=False)
    merge(second, 4, versions)
    second.close()
    with pytest.raises(CorruptState):
        merge(first, 4, list(versions))
    assert holds(loaded(tmp_path), versions)


# ---------------------------------------------------------------- any history


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(
    lives=st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), max_size=5),
            st.sampled_from(["quietly", "before the line", "in the line"]),
            st.integers(1, 100),
        ),
        max_size=5,
    )
)
def test_any_history_of_merges_and_crashes_keeps_what_was_committed(
    tmp_path: Path, lives: list[tuple[list[int], str, int]]
) -> None:
    directory = tmp_path / "state"
    shutil.rmtree(directory, ignore_errors=True)
    begun(directory).close()
    versions, round_ = [0, 0, 0], 0
    for merges, death, bytes_lost in lives:
        store = SyncerStore(directory, durable=False)
        assert holds(loaded(directory), versions)
        store.load()
        for fragment in merges:
            round_ += 1
            versions[fragment] += 1
            version = versions[fragment]
            store.save_round(line(round_, fragment, version), tensors(fragment, version))
        store.close()
        if death != "quietly" and merges:
            versions[merges[-1]] -= 1
            commit_log = directory / "commits.jsonl"
            size = len(commit_log.read_bytes().splitlines(keepends=True)[-1])
            with commit_log.open("r+b") as file:
                cut = size if death == "before the line" else min(bytes_lost, size)
                file.truncate(commit_log.stat().st_size - cut)
    assert holds(loaded(directory), versions)
