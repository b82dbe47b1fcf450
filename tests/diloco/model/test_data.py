"""Which learner sees which bytes, in which order, from which files."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.diloco.model.data import (
    WINDOWS_PER_BLOCK,
    DataError,
    batches,
    held_out,
    open_text,
    shuffled,
    split,
)

SEQUENCE = 16
BLOCK = WINDOWS_PER_BLOCK * SEQUENCE + 1


def stream(text: np.ndarray, count: int, *, shard=(0, 1), seed=7, position=0, batch=8):
    endless = batches(
        text, sequence=SEQUENCE, batch=batch, shard=shard, seed=seed, position=position
    )
    return list(itertools.islice(endless, count))


def starts_of(text: np.ndarray, windows: np.ndarray) -> set[int]:
    """Where each window lies in a text whose windows all differ."""
    places = {text[start : start + SEQUENCE + 1].tobytes(): start for start in range(len(text))}
    return {places[window.tobytes()] for window in windows}


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    """Forty-one blocks of random bytes: no two windows are alike."""
    return np.random.default_rng(0).integers(0, 256, 41 * BLOCK + 5, dtype=np.uint8)


@settings(max_examples=25)
@given(count=st.integers(1, 400), seed=st.integers(0, 2**63))
def test_a_shuffle_is_a_permutation(count, seed):
    assert sorted(shuffled(np.arange(count), count, seed)) == list(range(count))


def test_a_shuffle_is_the_same_in_every_version_and_process():
    assert shuffled(np.arange(8), 8, 7).tolist() == [1, 6, 3, 2, 7, 4, 5, 0]


def test_blocks_do_not_overlap_and_every_twentieth_is_held_out(text):
    blocks = split(len(text), SEQUENCE)
    assert len(blocks.held_out) == 2
    starts = sorted([*blocks.held_out, *blocks.training])
    assert starts == [place * BLOCK for place in range(41)]


def test_a_batch_resumes_exactly_at_any_position(text):
    whole = stream(text, 40)
    for position in (1, 13, 39):
        assert np.array_equal(stream(text, 1, position=position)[0], whole[position])


def test_an_epoch_shows_every_window_once_and_the_next_in_another_order(text):
    per_epoch = 39 * WINDOWS_PER_BLOCK // 8
    both = stream(text, 2 * per_epoch)
    first, second = np.concatenate(both[:per_epoch]), np.concatenate(both[per_epoch:])
    assert len(starts_of(text, first)) == per_epoch * 8
    assert starts_of(text, first) == starts_of(text, second)
    assert not np.array_equal(first, second)


def test_shards_are_disjoint_and_none_sees_the_held_out_part(text):
    epoch = 10 * WINDOWS_PER_BLOCK // 8
    seen = [
        starts_of(text, np.concatenate(stream(text, epoch, shard=(shard, 4)))) for shard in range(4)
    ]
    evaluated = starts_of(text, held_out(text, sequence=SEQUENCE, windows=64))
    assert len(evaluated) == 64
    for one, other in itertools.combinations([*seen, evaluated], 2):
        reach = {start + step for start in one for step in range(SEQUENCE)}
        assert not reach & other


def test_another_seed_trains_in_another_order_but_holds_out_the_same(text):
    assert not np.array_equal(stream(text, 1, seed=1)[0], stream(text, 1, seed=2)[0])
    evaluated = held_out(text, sequence=SEQUENCE, windows=8)
    assert np.array_equal(evaluated, held_out(text, sequence=SEQUENCE, windows=8))


@pytest.mark.parametrize(
    ("blocks", "shards", "batch"), [(3, 4, 8), (2, 1, 40), (1, 1, 1), (0, 1, 1)]
)
def test_too_little_text_says_how_much_is_needed(blocks, shards, batch):
    text = np.zeros(blocks * BLOCK, np.uint8)
    with pytest.raises(DataError) as error:
        stream(text, 1, shard=(0, shards), batch=batch)
    needed = int(str(error.value).split("at least ")[1].split(" ")[0].replace(",", ""))
    enough = np.zeros(needed, np.uint8)
    for shard in range(shards):
        assert stream(enough, 1, shard=(shard, shards), batch=batch)[0].shape == (batch, 17)


# ---------------------------------------------------------------- where the bytes come from


@pytest.fixture
def books(tmp_path: Path) -> Path:
    for name, words in {"b.txt": "two", "a.txt": "one", "more/c.md": "three"}.items():
        path = tmp_path / "books" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words)
    return tmp_path / "books"


def test_the_standard_library_is_text_enough_on_every_machine(cache_folder):
    text = open_text("stdlib")
    assert len(text) > 5_000_000
    assert b"import itertools" in text[:].tobytes()
    assert b"class TestCase(unittest.TestCase)" not in text[:].tobytes()


@pytest.mark.parametrize(
    ("source", "text"),
    [("a.txt", b"one"), ("", b"one\ntwo\nthree\n"), ("**/*.txt", b"one\ntwo\n")],
    ids=["file", "folder", "glob"],
)
def test_a_text_is_a_file_or_all_files_in_order(cache_folder, books, source, text):
    (books / ".hidden").write_text("secret")
    assert open_text(f"{books}/{source}".rstrip("/")).tobytes() == text


def test_joined_text_is_made_once_and_again_when_a_file_changes(cache_folder, books):
    first = open_text(str(books)).filename
    assert open_text(str(books)).filename == first
    (books / "a.txt").write_text("uno")
    os.utime(books / "a.txt", ns=(1, 1))
    changed = open_text(str(books))
    assert changed.tobytes() == b"uno\ntwo\nthree\n"
    assert changed.filename != first


def test_a_build_that_was_killed_leaves_nothing_that_is_read(cache_folder, books):
    path = Path(open_text(str(books)).filename)
    path.rename(path.parent / f".{path.stem}-1.partial")
    assert open_text(str(books)).tobytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("source", ["no/such/file.txt", "no/such/*.txt", "folder", "empty.txt"])
def test_a_source_without_text_is_refused(cache_folder, tmp_path, source):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DataError, match="data '"):
        open_text(str(tmp_path / source))
