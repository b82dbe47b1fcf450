"""Cache: the folder of files that can be made again, such as compiled steps and tools."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder under $CHAOSLAB_CACHE or ~/.cache/chaoslab, which may not exist yet."""
    home = os.environ.get("CHAOSLAB_CACHE") or Path.home() / ".cache" / "chaoslab"
    return Path(home).absolute() / name
