"""What the tests of the training share: JAX in its strictest setting, and a text to train on."""

from collections.abc import Iterator
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
