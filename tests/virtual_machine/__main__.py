"""A command on this machine's files under Debian's kernel, in QEMU: for what the kernel here lacks.

    / of the host ── virtiofs ──► read-only layer ┐
                                 memory: written ─┴► root ─► COMMAND in this folder ─► exit code
    ~/.cache/chaoslab/virtual_machine/shared ◄── virtiofs ──► the same path, CHAOSLAB_CACHE there

    python -m tests.virtual_machine -- .venv/bin/python -m pytest tests/links
    python -m tests.virtual_machine --seconds 1800 -- .venv/bin/chaoslab run PLAN --out DIR

The kernel has netem, nftables and cgroup v2 with its controllers. Whatever the command writes is
gone with the machine, but what it writes to $SHARED, which is kept. There is no network but
loopback. Without `--accel kvm` the processor is emulated: ten to thirty times slower than this one.
Needs root and apt; installs QEMU and BusyBox if they are missing. Ends with the command's exit
code, 124 if it took too long, 125 if the machine ended without a word.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Final

_CACHE: Final = Path(os.environ.get("CHAOSLAB_CACHE") or Path.home() / ".cache" / "chaoslab")
_PLACE: Final = _CACHE.resolve() / "virtual_machine"
_SHARED: Final = _PLACE / "shared"
_HERE: Final = Path(__file__).resolve().parent
_VIRTIOFSD: Final = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
_FIRST_MODULES: Final = ("virtio_pci", "virtiofs", "overlay")
_MEMORY_MIB: Final = 8192
_PROCESSORS: Final = 2


def main() -> int:
    """Run the command; its exit code."""
    wanted = argparse.ArgumentParser(prog="python -m tests.virtual_machine")
    wanted.add_argument("--seconds", type=float, default=600, help="end the machine after so long")
    wanted.add_argument("--accel", choices=["tcg", "kvm"], default="tcg")
    wanted.add_argument("command", nargs="+")
    asked = wanted.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    kernel = _kernel()
    _SHARED.mkdir(exist_ok=True)
    shutil.copy(_HERE / "start", _SHARED)
    folder, caches = shlex.quote(str(Path.cwd())), shlex.quote(str(_SHARED / "cache"))
    (_SHARED / "command").write_text(
        f"export CHAOSLAB_CACHE={caches} SHARED={shlex.quote(str(_SHARED))} HOME=/root "
        f"PATH={shlex.quote(os.environ['PATH'])} PYTHONDONTWRITEBYTECODE=1\n"
        f"cd {folder} && {shlex.join(asked.command)}\n"
    )
    exit_code = _SHARED / "exit_code"
    exit_code.unlink(missing_ok=True)
    try:
        _boot(kernel, asked.accel, asked.seconds)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"ended after {asked.seconds:g} s\n")
        return 124
    return int(exit_code.read_text()) if exit_code.exists() else 125


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _boot(kernel: Path, accel: str, seconds: float) -> None:
    """Returns when the machine has switched itself off."""
    programs = [one for one in _VIRTIOFSD if Path(one).exists()]
    with tempfile.TemporaryDirectory() as scratch:
        socket = f"{scratch}/socket"
        files = (
            programs[0],
            "-f",
            f"--socket-path={socket}",
            "-o",
            "source=/,sandbox=chroot,cache=always,xattr",
            "-o",
            "log_level=err",
        )
        words = f"console=ttyS0 quiet panic=-1 kernel={kernel} shared={_SHARED}"
        machine = (
            "qemu-system-x86_64", "-M", "q35,memory-backend=memory", "-cpu", "max",
            "-accel", f"{accel}{',thread=multi' if accel == 'tcg' else ''}",
            "-smp", str(_PROCESSORS), "-m", f"{_MEMORY_MIB}M",
            "-object", f"memory-backend-memfd,id=memory,size={_MEMORY_MIB}M,share=on",
            "-chardev", f"socket,id=files,path={socket}",
            "-device", "vhost-user-fs-pci,chardev=files,tag=host",
            "-kernel", str(kernel / "vmlinuz"), "-initrd", str(kernel / "initrd"), "-append", words,
            "-display", "none", "-serial", "stdio", "-nic", "none", "-no-reboot",
        )  # fmt: skip
        ended = ("setpriv", "--pdeathsig", "KILL")
        with subprocess.Popen((*ended, *files), stdin=subprocess.DEVNULL) as server:
            try:
                while not Path(socket).exists():
                    if server.poll() is not None:
                        sys.exit("virtiofsd cannot share the files of this machine")
                subprocess.run(
                    (*ended, *machine), check=True, timeout=seconds, stdin=subprocess.DEVNULL
                )
            finally:
                server.kill()


# ---------------------------------------------------------------- what is made once


def _kernel() -> Path:
    """A folder with vmlinuz, initrd and lib/modules, of the newest kernel that was fetched."""
    needed = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static"}
    missing = [package for name, package in needed.items() if shutil.which(name) is None]
    found = sorted(_PLACE.glob("kernel/*/initrd"))
    if found and not missing:
        return _with_init(found[-1].parent)
    _apt("update", "-qq")
    if missing:
        _apt("install", "-y", "-qq", "--no-install-recommends", *missing)
    said = _said_by("apt-cache", "depends", "linux-image-cloud-amd64")
    package = re.search(r"Depends: (linux-image-\S+)", said)
    if package is None:
        sys.exit("apt knows no package linux-image-cloud-amd64")
    with tempfile.TemporaryDirectory() as scratch:
        _apt("download", package[1], folder=scratch)
        (archive,) = Path(scratch).glob("*.deb")
        made = _PLACE / "kernel" / package[1]
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        subprocess.run(("dpkg-deb", "-x", archive, made), check=True)
    (image,) = (made / "boot").glob("vmlinuz-*")
    version = image.name.removeprefix("vmlinuz-")
    image.rename(made / "vmlinuz")
    subprocess.run(("busybox", "depmod", "-b", made, version), check=True)
    return _with_init(made)


def _with_init(kernel: Path) -> Path:
    """The initial RAM disk: BusyBox, `init`, and the modules that reach the host's files."""
    (modules,) = (kernel / "lib" / "modules").iterdir()
    depends = dict(line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
    named = {Path(one).stem: one for one in depends}
    order: list[str] = []
    for first in _FIRST_MODULES:
        for one in (*reversed(depends[named[first]].split()), named[first]):
            if one not in order:
                order.append(one)
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for folder in ("bin", "dev"):
            (tree / folder).mkdir()
        busybox = shutil.which("busybox") or ""
        shutil.copy(busybox, tree / "bin" / "busybox")
        for name in _said_by("busybox", "--list").split():
            if name != "busybox":
                (tree / "bin" / name).symlink_to("busybox")
        for one in order:
            shutil.copy(modules / one, tree)
        (tree / "modules").write_text("".join(f"/{Path(one).name}\n" for one in order))
        shutil.copy(_HERE / "init", tree / "init")
        (tree / "init").chmod(0o755)
        names = "\n".join(str(one.relative_to(tree)) for one in sorted(tree.rglob("*")))
        with (kernel / "initrd").open("wb") as made:
            subprocess.run(
                ("busybox", "cpio", "-o", "-H", "newc"),
                input=names.encode(), stdout=made, cwd=tree, check=True,
            )  # fmt: skip
    return kernel


def _apt(*words: str, folder: str | None = None) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ("apt-get", *words), check=True, cwd=folder, env=quiet, stdout=subprocess.DEVNULL
    )


def _said_by(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
