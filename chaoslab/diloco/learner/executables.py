"""Compiled functions on disk: a later process with the same code loads them without tracing.

    Executables.get(name, function, arguments)
        ├─ <folder>/<key>: intact, and only this user can have written it ─► loaded
        └─ else: traced, lowered, compiled ─► serialized, renamed into place

The key covers whatever a compiled function depends on: its program, the versions of Python, JAX,
jaxlib and NumPy, JAX's settings, environment variables that XLA reads, the processor, the devices,
and the structure, shapes, dtypes and shardings of the arguments. The maker of an `Executables` says
what the program is; without such a text every process compiles.

A file holds machine code and a pickle: a program that can write it can run code here. So files are
read only if they and their folder belong to this user (or root) and no other user can write to
them. The checksum detects damage, not intent. A file that is damaged, foreign or unusable is
reported in `refused`, and the function is compiled.
"""

import fcntl
import hashlib
import os
import pickle
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
import numpy as np
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from chaoslab.core.events import encode
from chaoslab.core.payloads import LearnerCompiled, LifeFields
from chaoslab.diloco.node.checksummed_file import CorruptState, checked, write_checksummed
from chaoslab.diloco.node.files import File, make_folder, remove

_FORMAT = 2
_KEPT = 256
"""Files in a folder; those that were not used for longest are removed."""
_OTHERS_MAY_WRITE = 0o022
_PATIENCE_S, _AGAIN_S = 120.0, 0.02
_VARIABLES = ("JAX_", "XLA_", "TF_XLA_", "LIBTPU_", "NPROC", "OMP_", "CUDA_")
"""Environment variables that begin so may change what is compiled."""
_OWN_PATHS = ("jax_compilation_cache", "jax_persistent_cache", "jax_enable_compilation_cache")
"""Settings of JAX that only say where compilations are kept."""
_UNUSABLE = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError,
             RuntimeError, TypeError, ValueError)  # fmt: skip
"""Errors of JAX for a serialized executable that it cannot load; XLA's are RuntimeErrors."""


class _Refused(Exception):
    """A file that is not used; the message says why."""


class Executables:
    """Compiled functions of one program on some devices."""

    def __init__(
        self, devices: Sequence[jax.Device], *, folder: Path | None = None, program: str = ""
    ) -> None:
        """`folder`: on a local file system; made when something is stored; None: keep nothing.

        `program` is a text of all code and constants that the functions depend on; if it is empty,
        nothing is kept.
        """
        self._devices = tuple(devices)
        self._folder = folder if program else None
        self._dependencies = (_FORMAT, program, environment(devices)) if program else ()
        self.loaded: list[str] = []
        """Names of the functions that were loaded."""
        self.compiled: list[str] = []
        """Names of those that were compiled."""
        self.refused: dict[str, str] = {}
        """Why a file was not used, or could not be written, by name of the function."""
        self.took_s = 0.0
        """Time that loading and compiling took."""

    def get(self, name: str, function: Any, arguments: Sequence[Any]) -> Any:
        """The jitted `function` compiled for `arguments`, a pytree of ShapeDtypeStructs."""
        began_s = time.monotonic()
        found = self._load(name, arguments)
        if found is None:
            with nullcontext() if self._folder is None else _compiling_alone(self._folder):
                found = self._load(name, arguments)
                if found is None:
                    found = self._made(name, function, arguments)
        self.took_s += time.monotonic() - began_s
        return found

    def report(self, whose: LifeFields) -> LearnerCompiled:
        """Origin of all functions."""
        return LearnerCompiled(
            **whose,
            loaded=len(self.loaded),
            compiled=len(self.compiled),
            took_s=round(self.took_s, 6),
            refused=tuple(self.refused.values()),
        )

    # ------------------------------------------------------------ files

    def _load(self, name: str, arguments: Sequence[Any]) -> Any:
        """The function as an earlier process compiled it; None if it is not to be had."""
        if self._folder is None:
            return None
        key = self._key(name, arguments)
        path = self._folder / _file_name(key)
        try:
            found = self._unpickled(_body(path, key))
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, CorruptState, _Refused) as error:
            self.refused[name] = str(error)
            return None
        except _UNUSABLE as error:
            self.refused[name] = f"{path}: cannot be loaded: {error!r}"
            return None
        self.loaded.append(name)
        return found

    def _made(self, name: str, function: Any, arguments: Sequence[Any]) -> Any:
        self.compiled.append(name)
        if self._folder is None:
            return function.lower(*arguments).compile()
        with _without_jax_cache():
            made = function.lower(*arguments).compile()
        self._store(name, arguments, made)
        return made

    def _unpickled(self, body: memoryview) -> Any:
        serialized, in_tree, out_tree = pickle.loads(body)  # noqa: S301 - see `_own_content`
        return serialize_executable.deserialize_and_load(
            serialized, in_tree, out_tree, execution_devices=self._devices
        )

    def _store(self, name: str, arguments: Sequence[Any], compiled: Any) -> None:
        if self._folder is None:
            return
        key = self._key(name, arguments)
        try:
            body = pickle.dumps(serialize_executable.serialize(compiled))
            _write(self._folder / _file_name(key), key, body)
        except (OSError, *_UNUSABLE) as error:  # training needs no such file
            self.refused[name] = f"{self._folder}: nothing can be kept: {error!r}"

    def _key(self, name: str, arguments: Sequence[Any]) -> str:
        leaves, tree = jax.tree.flatten(tuple(arguments))
        shapes = [(leaf.shape, str(leaf.dtype), str(leaf.sharding)) for leaf in leaves]
        return repr((*self._dependencies, name, str(tree), shapes))


@contextmanager
def _compiling_alone(folder: Path) -> Iterator[None]:
    """While no other process compiles for this folder: learners that start together need the same
    functions, and the others wait until one has made them.

    A process that does not finish, as one that was stopped, is waited for no longer than
    `_PATIENCE_S`.
    """
    with ExitStack() as held:
        with suppress(OSError):  # a folder that cannot be had costs only time
            _make_private(folder)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, handle)
            until_s = time.monotonic() + _PATIENCE_S
            while not _is_locked(handle) and time.monotonic() < until_s:
                time.sleep(_AGAIN_S)
        yield


def _is_locked(handle: int) -> bool:
    """Whether this process has the lock now; it ends with the handle."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _without_jax_cache() -> Iterator[None]:
    """Compile anew meanwhile: what JAX has loaded from its own cache lacks, once it is serialized
    again, the functions that it consists of, and fails when it is executed (CPU, jax 0.10).
    """
    # jax adds its settings as attributes at run time
    was = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # it asks for the setting once
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", was)
        compilation_cache.reset_cache()


def environment(devices: Sequence[jax.Device]) -> str:
    """All but the program that a compiled function depends on, as text."""
    return repr(
        (
            [
                platform.python_version(),
                jax.__version__,
                jaxlib.version.__version__,
                np.__version__,
            ],
            [(d.id, d.platform, d.device_kind, d.client.platform_version) for d in devices],
            jax.process_index(),
            _processor(),
            len(os.sched_getaffinity(0)),  # XLA's threads, unless NPROC says
            sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES)),
            sorted(_settings()),
        )
    )


def _settings() -> Iterator[tuple[str, str]]:
    """JAX's settings, except where it keeps compilations."""
    for name, value in jax.config.values.items():
        if not name.startswith(_OWN_PATHS):
            yield name, repr(value)


@cache
def _processor() -> str:
    """Architecture and instruction sets: machine code for others may end in SIGILL."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"


def _file_name(key: str) -> str:
    return f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.executable"


def _body(path: Path, key: str) -> memoryview:
    """Stored executable of this key; CorruptState, _Refused or OSError if it cannot be read."""
    head, body = checked(_own_content(path), path)
    if head.decode() != encode({"key": key}):
        raise _Refused(f"{path}: belongs to another program")
    return body


def _own_content(path: Path) -> bytes:
    """The content of a file that only this user or root can have written; _Refused otherwise."""
    at = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_own(at, path.parent)
        handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        with open(handle, "rb") as file:
            _require_own(handle, path)
            return file.read()
    finally:
        os.close(at)


def _require_own(handle: int, path: Path) -> None:
    status = os.fstat(handle)
    if status.st_uid not in (os.geteuid(), 0):
        raise _Refused(f"{path}: belongs to user {status.st_uid}, so it is not trusted")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise _Refused(f"{path}: others may write to it, so it is not trusted; chmod go-w")


def _write(path: Path, key: str, body: bytes) -> None:
    """Rename a complete file into place, and remove what was not used for longest."""
    handle, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    os.close(handle)
    try:
        with closing(File(Path(partial), is_new=True)) as file:
            write_checksummed(file, {"key": key}, [body])
        os.replace(partial, path)
    except BaseException:
        remove(Path(partial))
        raise
    for old in _least_recently_used(path.parent):
        remove(old)


def _make_private(folder: Path) -> None:
    if not folder.is_dir():
        make_folder(folder, durable=False)
        folder.chmod(0o700)


def _least_recently_used(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if path.is_file()]
    return sorted(files, key=_used_s, reverse=True)[_KEPT:]


def _used_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return 0.0
