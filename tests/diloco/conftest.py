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
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of its own for this session, in place of the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAOSLAB_CACHE", str(folder))
        yield folder
