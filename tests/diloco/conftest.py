"""What the tests of the training share: JAX in its strictest setting, and a text to train on."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def strict_jax() -> Iterator[None]:
    """Raise where JAX would silently change a rank or a dtype."""
    import jax  # noqa: PLC0415 - most tests here need none

    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the tests of one session share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cache_folder(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It in place of the user's, for one test."""
    monkeypatch.setenv("CHAOSLAB_CACHE", str(session_cache))
    return session_cache


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Put a module of a user's where Python finds it, and name its function."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(source: str, function: str = "make") -> str:
        name = f"own_{abs(hash((source, str(tmp_path))))}"
        (tmp_path / f"{name}.py").write_text(source)
        return f"{name}:{function}"

    yield written
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
