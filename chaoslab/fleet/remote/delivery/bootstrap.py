"""First program on a host: only the standard library, so that any Python can run it by its text.

    look CODE ──────────────────────────── what is there, as JSON
    unpack CODE ◄── tar.gz ─────────────── ~/.chaoslab/code/CODE, if its SHA-256 is CODE
    build ENVIRONMENT ◄── requirements ─── ~/.chaoslab/environments/ENVIRONMENT
    run CODE ENVIRONMENT WORD… ─────────── python WORD…, with that code and that environment

It is passed to the interpreter as `python3 -I -c TEXT COMMAND …`. ENVIRONMENT `-` is the
interpreter's own libraries. Code is unpacked under another name first, and an environment, which
cannot be moved, has a file `complete` when it is.
"""

import fcntl
import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import site
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

OWN = "-"
OLDEST = (3, 11)
NEEDED = ("click", "grpc", "jax", "msgspec", "numpy", "optax", "psutil", "pydantic", "xxhash")
"""Libraries by which one knows whether an interpreter has them all."""


def home() -> Path:
    """The folder of chaoslab on this host, for this user only."""
    folder = Path(os.path.expanduser("~")) / ".chaoslab"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def code_folder(code: str) -> Path:
    return home() / "code" / code


def interpreter(environment: str) -> Path:
    if environment == OWN:
        return Path(sys.executable)
    return home() / "environments" / environment / "bin" / "python"


def look(code: str) -> "dict[str, object]":
    """Presence of this code, and of the libraries that it needs."""
    if sys.prefix == sys.base_prefix:
        site.addsitedir(site.getusersitepackages())  # `-I` leaves it out, and `run` does not
    return {
        "python": platform.python_version(),
        "is_new_enough": sys.version_info[:2] >= OLDEST,
        "missing": [name for name in NEEDED if importlib.util.find_spec(name) is None],
        "has_code": code_folder(code).is_dir(),
    }


def unpack(code: str, archive: bytes) -> "dict[str, object]":
    """The code in its folder; ValueError if it is another one."""
    if hashlib.sha256(archive).hexdigest() != code:
        raise ValueError("the code arrived damaged: its SHA-256 is another one")
    final = code_folder(code)
    final.parent.mkdir(mode=0o700, exist_ok=True)
    new = tempfile.mkdtemp(dir=str(final.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            # Python 3.11.2, of Debian 12, has no filters yet; the archive is our own, by its hash
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(new)  # noqa: S202 - see above
        if not final.is_dir():
            os.rename(new, str(final))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return {}


def build(environment: str, requirements: bytes) -> "dict[str, object]":
    """The environment, made of this interpreter unless it is there; one at a time."""
    final = home() / "environments" / environment
    final.parent.mkdir(mode=0o700, exist_ok=True)
    with open(str(final) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (final / "complete").exists():
            return {"built": False}
        shutil.rmtree(str(final), ignore_errors=True)
        with tempfile.NamedTemporaryFile(suffix=".txt") as listed:
            listed.write(requirements)
            listed.flush()
            try:
                _checked(sys.executable, "-m", "venv", str(final))
                python = str(final / "bin" / "python")
                options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
                _checked(python, "-m", "pip", "install", *options, "-r", listed.name)
                (final / "complete").touch()
            except ValueError:
                shutil.rmtree(str(final), ignore_errors=True)
                raise
    return {"built": True}


def run(code: str, environment: str, words: "list[str]") -> None:
    """Become that program."""
    python = str(interpreter(environment))
    for used in (code_folder(code), home() / "environments" / environment):
        if used.is_dir():
            os.utime(str(used))  # what is not used for long is removed
    changed = {"PYTHONPATH": str(code_folder(code)), "PYTHONSAFEPATH": "1"}
    os.execve(python, [python, *words], {**os.environ, **changed})  # noqa: S606 - its purpose


def _checked(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        words = done.stdout.decode(errors="replace").strip()[-1500:]
        raise ValueError(f"{' '.join(command[:4])} failed: {words}")


def main(arguments: "list[str]") -> int:
    """Run one command; 1 if it fails, with the reason as JSON on standard error."""
    command, code, *others = arguments
    try:
        if command == "run":
            run(code, others[0], others[1:])
        elif command == "look":
            found = look(code)
        elif command == "unpack":
            found = unpack(code, sys.stdin.buffer.read())
        else:
            found = build(code, sys.stdin.buffer.read())
    except (OSError, ValueError, tarfile.TarError) as error:
        sys.stderr.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
