"""Provenance of a run, besides its plan: versions, the host, the state of the work tree.

Kept in run.json. Nothing here identifies the machine or the person: no host name, user or address.
"""

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chaoslab import __version__
from chaoslab.core.events import Json

_LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "grpcio")
_VERSION: Final = re.compile(r"^Version: *(.+?) *$", re.MULTILINE)


def versions() -> Mapping[str, str | None]:
    """Versions of Python, chaoslab and the libraries that compute; null for one not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "chaoslab": __version__}
    for library in _LIBRARIES:
        try:
            there = importlib.metadata.distribution(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = None
            continue
        said = _VERSION.search(there.read_text("METADATA") or "")  # five times as fast as an email
        found[library] = said[1] if said else there.version
    return found


def requirement() -> str | None:
    """Requirement by which pip installs this chaoslab on another machine.

    The name alone if it came from a package index, else the address that it came from, with the
    commit; None for a folder or file of this machine, or if it was not installed.
    """
    try:
        said = importlib.metadata.distribution("chaoslab").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    if said is None:
        return "chaoslab"
    source = json.loads(said)
    url, vcs = str(source["url"]), source.get("vcs_info")
    if url.startswith("file:"):
        return None
    if vcs:
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    folder = source.get("subdirectory")
    return f"chaoslab @ {url}" + (f"#subdirectory={folder}" if folder else "")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def host() -> Mapping[str, Json]:
    """Facts that decide how fast a run is here; nothing that identifies the machine or its user."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cores": cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def git_state(folder: Path) -> Mapping[str, Json] | None:
    """Commit of the work tree around `folder` and whether it has changes; None outside of one."""
    if (git := shutil.which("git")) is None:
        return None
    words = (git, "-C", str(folder), "status", "--porcelain=v2", "--branch")
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, *lines = done.stdout.removeprefix("# branch.oid ").splitlines()
    if commit == "(initial)":
        return None
    return {"commit": commit, "has_changes": any(not line.startswith("#") for line in lines)}
