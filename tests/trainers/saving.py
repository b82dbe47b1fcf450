# ruff: noqa: T201 - a trainer prints
"""A training of the standard library alone that saves its checkpoint in one of several ways.

    atomic   written beside it, synchronized, renamed over it
    in_place overwritten: a kill leaves an empty or a cut file, which cannot be loaded
    emptied  the same, but what cannot be loaded is taken for none
    mapped   overwritten as mapped memory, which no call shows
    early    the old one is deleted before the new one is complete
    logged   as atomic, beside a log that is opened at each step

By the training itself, a thread or a child. Saves every third step.
"""

import json
import mmap
import os
import sys
import threading
from pathlib import Path


def atomic(folder: Path, text: str) -> None:
    partial = folder / "state.json.tmp"
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / "state.json")


def in_place(folder: Path, text: str) -> None:
    with (folder / "state.json").open("w") as file:
        file.write(text[:9])
        file.flush()
        file.write(text[9:])


def mapped(folder: Path, text: str) -> None:
    with (folder / "state.json").open("w+b") as file:
        file.truncate(64)
        with mmap.mmap(file.fileno(), 64) as memory:
            memory[:] = text.ljust(64).encode()


def early(folder: Path, text: str) -> None:
    (folder / "state.json").unlink(missing_ok=True)
    atomic(folder, text)


def save(how: str, where: str, folder: Path, step: int) -> None:
    act = {"atomic": atomic, "early": early, "mapped": mapped, "logged": atomic}.get(how, in_place)
    text = json.dumps({"step": step})
    if where == "thread":
        thread = threading.Thread(target=act, args=(folder, text))
        thread.start()
        thread.join()
    elif where == "child":
        if not (child := os.fork()):
            act(folder, text)
            os._exit(0)
        os.waitpid(child, 0)
    else:
        act(folder, text)


def load(how: str, folder: Path) -> int:
    try:
        return int(json.loads((folder / "state.json").read_text())["step"])
    except FileNotFoundError:
        return 0
    except ValueError:
        if how == "emptied":
            return 0
        raise


def main(how: str, where: str, folder: Path) -> None:
    step = load(how, folder)
    if step:
        print(f"resumed from step {step}")
    while step < 14:
        step += 1
        print(f"step {step} loss {1 / step:.3f}")
        if how == "logged":
            with (folder / "log").open("a") as file:
                file.write(f"{step}\n")
        if step % 3 == 0:
            save(how, where, folder, step)
            print(f"saved step {step}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
