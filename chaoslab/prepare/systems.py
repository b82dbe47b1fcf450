"""Environments of systems of others: made on demand, kept in the cache.

    chaoslab doctor systems install torchft ─► $CHAOSLAB_CACHE/systems/torchft-<digest>/
                                           its packages, and below them those of chaoslab itself

An environment belongs to one list of packages and one Python. It sees what chaoslab's own
environment has below its own packages, so that learners of all systems run the same JAX.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaoslab.core.cache import cache_folder
from chaoslab.core.errors import FleetError
from chaoslab.core.private_files import require_folder
from chaoslab.core.terminal import last_lines
from chaoslab.plan.model.systems import SYSTEMS

_FOLDER = "systems"
_READY = "ready"
"""The file that says that an environment is complete."""
_BELOW = "chaoslab_below.pth"
_INSTALL_S = 3600.0


def environment(system: str) -> Path:
    """Folder of a system's environment, which may not exist."""
    version = "{}.{}".format(*sys.version_info)
    named = "\n".join((*SYSTEMS[system].packages, version, sysconfig.get_path("purelib")))
    digest = hashlib.blake2b(named.encode(), digest_size=4).hexdigest()
    return cache_folder(_FOLDER) / f"{system}-{digest}"


def environment_python(system: str) -> Path:
    """The interpreter of that environment."""
    return environment(system) / "bin" / "python"


def is_installed(system: str) -> bool:
    """Whether its environment is there and complete."""
    return (environment(system) / _READY).is_file() and environment_python(system).exists()


def install(system: str, say: Callable[[str], object]) -> Path:
    """Make the environment of a system, unless it is there. FleetError with pip's last words.

    What an interrupted installation left is removed first.
    """
    folder = environment(system)
    with _alone(folder):
        if not is_installed(system):
            _make(system, folder, say)
    return folder


def _make(system: str, folder: Path, say: Callable[[str], object]) -> None:
    import venv  # noqa: PLC0415 - of no use to a run

    say(f"{system}: making {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise FleetError(
            f"{system}: {sys.executable} cannot make an environment (on Debian it needs the "
            f"package python3-venv): {error}"
        ) from error
    packages = SYSTEMS[system].packages
    say(f"{system}: installing {', '.join(packages)}")
    command = [str(environment_python(system)), "-m", "pip", "install", *packages]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_S,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"{system}: pip took more than {_INSTALL_S:.0f} s") from error
    if done.returncode:
        raise FleetError(f"{system} cannot be installed:\n{last_lines(done.stderr)}")
    _show_what_lies_below(folder)
    (folder / _READY).touch()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process makes or removes this environment."""
    require_folder(folder.parent)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove(system: str) -> bool:
    """Remove its environment; whether there was any. FleetError if a part of it stays."""
    folder = environment(system)
    with _alone(folder):
        if not folder.exists():
            return False
        (folder / _READY).unlink(missing_ok=True)
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise FleetError(f"{folder} cannot be removed: {error}") from error
    return True


def _show_what_lies_below(folder: Path) -> None:
    """Let the environment see the packages of ours, after its own."""
    version = "python{}.{}".format(*sys.version_info)
    own = folder / "lib" / version / "site-packages" / _BELOW
    paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    own.write_text("import site; " + "; ".join(f"site.addsitedir({p!r})" for p in paths) + "\n")
