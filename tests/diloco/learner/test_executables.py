"""Compiled functions are loaded by later processes only where they are valid and trustworthy."""

import fcntl
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import SingleDeviceSharding

from chaoslab.diloco.learner import executables
from chaoslab.diloco.learner.executables import Executables, environment
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.model import gpt
from chaoslab.diloco.model.gpt import Preset, Shape, TextTask

CACHE_SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
DEVICE = jax.local_devices()[0]
LIKE = jax.ShapeDtypeStruct((3,), np.float32, sharding=SingleDeviceSharding(DEVICE))
INPUT = np.array([1, 2, 3], np.float32)
TEXT = np.random.default_rng(0).integers(97, 123, 60_000, dtype=np.uint8)
PRESET = Preset(shape=Shape(8, 1, 1, 8), batch=2, sequence=4)


class Counted:
    """A jitted function that counts how often it is traced."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor, self.traces = factor, 0
        self.jitted = jax.jit(self._apply)

    def _apply(self, x: jax.Array) -> jax.Array:
        self.traces += 1
        return x * self.factor


def kept(folder: Path, program: str = "doubles") -> Executables:
    return Executables([DEVICE], folder=folder, program=program)


def get(folder: Path, program: str = "doubles", name: str = "double", like=LIKE):
    """What became of one function in a new process: its owner, its store, its result."""
    function, store = Counted(), kept(folder, program)
    found = store.get(name, function.jitted, (like,))
    return function, store, np.asarray(found(np.resize(INPUT, like.shape).astype(like.dtype)))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the function in it."""
    function, store, result = get(tmp_path / "executables")
    assert (function.traces, store.compiled, store.refused) == (1, ["double"], {})
    assert result.tolist() == [2, 4, 6]
    return tmp_path / "executables"


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_later_process_loads_it_without_tracing(folder):
    function, store, result = get(folder)
    assert (function.traces, store.loaded, store.compiled) == (0, ["double"], [])
    assert result.tolist() == [2, 4, 6]


def test_nothing_but_the_owner_may_read_or_write_what_was_made(folder):
    assert folder.stat().st_mode & 0o777 == 0o700
    assert only(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        {"program": "triples"},
        {"name": "triple"},
        {"like": jax.ShapeDtypeStruct((6,), np.float32, sharding=LIKE.sharding)},
        {"like": jax.ShapeDtypeStruct((3,), np.int32, sharding=LIKE.sharding)},
    ],
    ids=["program", "name", "shape", "dtype"],
)
def test_another_key_compiles_anew(folder, other):
    function, store, _ = get(folder, **other)
    assert (function.traces, store.loaded, store.refused) == (1, [], {})


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "NPROC", "JAX_DEFAULT_MATMUL_PRECISION"])
def test_an_environment_that_changes_compilation_changes_the_key(variable, monkeypatch):
    before = environment([DEVICE])
    monkeypatch.setenv(variable, "other")
    assert environment([DEVICE]) != before


def test_a_setting_of_jax_changes_the_key():
    before = environment([DEVICE])
    with jax.default_matmul_precision("highest"):
        pass
    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        assert environment([DEVICE]) != before
    finally:
        jax.config.update("jax_default_matmul_precision", None)
    assert environment([DEVICE]) == before


def test_where_compilations_are_kept_does_not_change_the_key(tmp_path):
    before = environment([DEVICE])
    was = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        assert environment([DEVICE]) == before
    finally:
        jax.config.update("jax_compilation_cache_dir", was)


@pytest.mark.parametrize("at", [0, 90, -1])
def test_a_damaged_file_is_reported_and_replaced(folder, at):
    content = bytearray(only(folder).read_bytes())
    content[at] ^= 1
    only(folder).write_bytes(content)
    function, store, result = get(folder)
    assert (function.traces, result.tolist()) == (1, [2, 4, 6])
    assert "checksum" in store.refused["double"]
    assert get(folder)[1].loaded == ["double"]


def test_an_intact_file_under_the_name_of_another_is_refused(folder):
    mine = only(folder)
    get(folder, program="triples")
    (other,) = (path for path in folder.iterdir() if path != mine)
    mine.replace(other)
    function, store, _ = get(folder, program="triples")
    assert function.traces == 1
    assert "another program" in store.refused["double"]


def test_an_intact_file_that_jax_cannot_load_is_reported(folder, monkeypatch):
    monkeypatch.setattr(executables.pickle, "dumps", lambda _: b"no pickle")
    only(folder).unlink()
    get(folder)
    monkeypatch.undo()
    function, store, result = get(folder)
    assert (function.traces, result.tolist()) == (1, [2, 4, 6])
    assert "cannot be loaded" in store.refused["double"]


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_others_may_write_is_not_unpickled(folder, which, monkeypatch):
    target = folder if which == "folder" else only(folder)
    target.chmod(target.stat().st_mode | 0o020)
    monkeypatch.setattr(executables.pickle, "loads", lambda _: pytest.fail("was unpickled"))
    function, store, _ = get(folder)
    assert function.traces == 1
    assert "others may write" in store.refused["double"]


def test_what_belongs_to_another_user_is_not_unpickled(folder, monkeypatch):
    if os.geteuid():
        pytest.skip("needs root, to give a file away")
    os.chown(only(folder), 65534, -1)
    monkeypatch.setattr(executables.pickle, "loads", lambda _: pytest.fail("was unpickled"))
    assert "belongs to user 65534" in get(folder)[1].refused["double"]


def test_a_link_is_not_followed(folder, tmp_path):
    path = only(folder)
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    assert get(folder)[1].loaded == []


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "executables").write_bytes(b"no folder")
    function, store, result = get(tmp_path / "executables")
    assert (function.traces, result.tolist()) == (1, [2, 4, 6])
    assert "nothing can be kept" in store.refused["double"]


def test_without_a_program_nothing_is_kept(tmp_path):
    get(tmp_path / "executables", program="")
    assert not (tmp_path / "executables").exists()


def test_files_that_were_not_used_for_longest_go(folder, monkeypatch):
    monkeypatch.setattr(executables, "_KEPT", 2)
    oldest = only(folder)
    os.utime(oldest, (1, 1))
    get(folder, program="triples")
    get(folder, program="halves")
    assert oldest not in list(folder.iterdir())
    assert len(list(folder.iterdir())) == 2


# ---------------------------------------------------------------- the learner's functions


def inner(folder: Path, task=None, **settings) -> Inner:
    made = Inner(task or TextTask(PRESET, TEXT), InnerSettings(**settings), executables=folder)
    made.compile()
    return made


@pytest.mark.gate
def test_a_loaded_step_gives_the_same_bits(tmp_path):
    first, second = inner(tmp_path / "kept"), inner(tmp_path / "kept")
    assert (first.executables.compiled, second.executables.loaded) == (["step"], ["step"])
    batch = next(TextTask(PRESET, TEXT).batches(0, 1, seed=0, position=0))
    results = [one.step(one.init(0), batch) for one in (first, second)]
    for left, right in zip(*map(jax.tree.leaves, results), strict=True):
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


@pytest.mark.deep
def test_a_step_that_jax_has_in_its_own_cache_is_kept_whole(tmp_path):
    """JAX cannot serialize again what it loaded from there."""
    was = {name: getattr(jax.config, name) for name in CACHE_SETTINGS}
    try:
        for name, value in CACHE_SETTINGS.items():
            jax.config.update(name, str(tmp_path / "jax") if value is None else value)
        compilation_cache.reset_cache()
        Inner(TextTask(PRESET, TEXT)).compile()
        assert list((tmp_path / "jax").glob("jit__advance-*"))
        jax.clear_caches()
        inner(tmp_path / "kept")
        again = inner(tmp_path / "kept")
        batch = next(TextTask(PRESET, TEXT).batches(0, 1, seed=0, position=0))
        assert again.executables.loaded == ["step"]
        assert np.isfinite(again.step(again.init(0), batch)[1])
        assert jax.config.jax_enable_compilation_cache
    finally:
        for name, value in was.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@pytest.mark.deep
def test_other_settings_of_the_optimizer_are_another_program(tmp_path):
    inner(tmp_path / "kept", lr=1e-3)
    assert inner(tmp_path / "kept", lr=2e-3).executables.loaded == []


@pytest.mark.deep
def test_other_code_is_another_program(tmp_path, monkeypatch):
    inner(tmp_path / "kept")
    other = tmp_path / "gpt.py"
    other.write_text("# other code")
    monkeypatch.setattr(gpt, "__file__", str(other))
    assert inner(tmp_path / "kept").executables.loaded == []


@pytest.mark.deep
def test_a_subclass_of_unknown_code_keeps_nothing(tmp_path):
    class Other(Inner):
        pass

    class OtherTask(TextTask):
        pass

    for made in (
        Other(TextTask(PRESET, TEXT), executables=tmp_path / "kept"),
        Inner(OtherTask(PRESET, TEXT), executables=tmp_path / "kept"),
    ):
        made.compile()
    assert not (tmp_path / "kept").exists()


def test_what_another_process_is_compiling_is_waited_for_and_loaded(folder, tmp_path, monkeypatch):
    other, asked, is_locked = tmp_path / "other", threading.Event(), executables._is_locked

    def told(handle: int) -> bool:
        asked.set()
        return is_locked(handle)

    other.mkdir(mode=0o700)
    handle = os.open(other, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(executables, "_is_locked", told)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(get, other)
        assert asked.wait(60)
        shutil.copy2(only(folder), other)
        os.close(handle)
        function, store, _ = waiting.result(60)
    assert (function.traces, store.loaded) == (0, ["double"])
