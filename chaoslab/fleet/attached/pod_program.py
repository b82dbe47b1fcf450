"""Program that runs in a pod of an attached training: finds its node, signals it, shows its state.

    python3 -I -S -c SOURCE find                      {"nodes": [{"pid", "ticks", "words", …}]}
                            find main                 the same of a program that is not chaoslab's
                            show PID TICKS            {"state", "cpu_ticks", "pages", "stopped"}
                            send PID TICKS NAME all   the same, and "is_dead"; to all of its tree
                            send PID TICKS NAME main  {"is_sent"}: not if it would die of it

It prints one line of JSON. A process is known by its pid and its start in ticks of the kernel, so
that another one, in a container that was started again, is never met: {"is_gone": true}. It imports
nothing of chaoslab, because its source is sent to the pod. Failures are {"refused": why}.
"""

import json
import os
import signal
import sys
import time

MODULES = ("chaoslab.diloco.syncer", "chaoslab.diloco.learner")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
_TRIES, _PAUSE_S = 200, 0.005
_DYING_TRIES, _DYING_S = 60, 0.005
_STOPPED = "Tt"
_HAS_HANDLER = ("USR1", "USR2")
"""Signals that a node takes, and that would end another program."""


def main(words: list[str]) -> int:
    """Do what the words say; exit status 0."""
    try:
        if words[0] == "find":
            said: dict[str, object] = {"nodes": find_main() if words[1:] else find()}
        else:
            said = _of_one(words)
    except OSError as error:
        said = {"refused": str(error)}
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


def _of_one(words: list[str]) -> dict[str, object]:
    do, pid, ticks, *more = words
    node = int(pid)
    seen = stat(node)
    if not is_it(seen, ticks):
        return {"is_gone": True}
    if do == "show":
        return shown(node)
    name, scope = more
    if scope == "main":
        return {"is_sent": send_to_main(node, name)}
    send_to_all(node, name)
    is_dead = name == "KILL" and dies(node, ticks)
    return {"stopped": [], "is_dead": True} if is_dead else {**shown(node), "is_dead": False}


def shown(pid: int) -> dict[str, object]:
    """State of a process, and what of its tree is stopped."""
    seen = stat(pid)
    if not seen:
        return {"stopped": []}
    return {"state": seen[0], "cpu_ticks": int(seen[11]) + int(seen[12]), "pages": int(seen[21]),
            "stopped": stopped(pid)}  # fmt: skip


def find() -> list[object]:
    """Processes of this container that run a node's program; not what starts one, nor its parts."""
    every = {pid: cmdline(pid) for pid in pids() if not is_elsewhere(pid)}
    nodes = {pid: words for pid, words in every.items() if set(words) & set(MODULES)}
    found: list[object] = []
    for pid, words in nodes.items():
        parent = every.get(parent_of(pid), [])
        begun = [other for child, other in nodes.items() if parent_of(child) == pid]
        is_starter = any(words != other and words[-len(other) :] == other for other in begun)
        if parent != words and not is_starter:
            found += described(pid, words)
    return found


def find_main() -> list[object]:
    """The first program of this container that does not only wait for another one."""
    every = {pid: words for pid in pids() if not is_elsewhere(pid) and (words := cmdline(pid))}
    roots = [pid for pid in every if parent_of(pid) not in every and os.getpid() not in tree(pid)]
    oldest = sorted((int(seen[19]), pid) for pid in roots if (seen := stat(pid)))
    if not oldest:
        return []
    main_pid = oldest[0][1]
    while True:
        below = [pid for pid in every if parent_of(pid) == main_pid]
        if len(below) != 1 or not only_waits(every[main_pid], every[below[0]]):
            return described(main_pid, every[main_pid])
        main_pid = below[0]


def only_waits(words: list[str], inner: list[str]) -> bool:
    """Whether a command is a shell's, or ends with the one that it has started."""
    return os.path.basename(words[0]).lstrip("-") in SHELLS or (
        len(words) > len(inner) and words[-len(inner) :] == inner
    )


def described(pid: int, words: list[str]) -> list[object]:
    """A process for `find`; none if it is gone."""
    seen = stat(pid)
    if not seen:
        return []
    return [{"pid": pid, "ticks": int(seen[19]), "words": words, "stopped": stopped(pid)}]


def send_to_main(pid: int, name: str) -> bool:
    """Signal this one process; whether it was sent."""
    number = signal.Signals["SIG" + name]
    if name in _HAS_HANDLER and not handles(pid, number):
        return False
    os.kill(pid, number)
    return True


def send_to_all(pid: int, name: str) -> None:
    """Signal a process and all that descends from it, until it shows that it stopped or goes on."""
    number = signal.Signals["SIG" + name]
    for _ in range(_TRIES):
        members = tree(pid)
        for member in members:
            try:
                os.kill(member, number)
            except ProcessLookupError:
                continue
        still = len(stopped(pid))
        if not (name == "CONT" and still) and not (name == "STOP" and still < len(tree(pid))):
            break
        time.sleep(_PAUSE_S)


def dies(pid: int, ticks: str) -> bool:
    """Whether it is dead soon; not waited for longer, because this program may die with it."""
    for _ in range(_DYING_TRIES):
        if not is_it(stat(pid), ticks):
            return True
        time.sleep(_DYING_S)
    return False


def tree(pid: int) -> list[int]:
    """A process and all that descends from it, the living."""
    parents = {child: parent_of(child) for child in pids()}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return [one for one in found if stat(one)[:1] not in ([], ["Z"])]


def stopped(pid: int) -> list[int]:
    """Stopped processes of its tree."""
    return [one for one in tree(pid) if (stat(one) or "R")[0] in _STOPPED]


def is_it(seen: list[str], ticks: str) -> bool:
    """Whether this is the process that began then, and not dead."""
    return bool(seen) and seen[19] == ticks and seen[0] != "Z"


def is_elsewhere(pid: int) -> bool:
    """Whether it is in another container, whose processes a pod may share."""
    mounts = mount_namespace(pid)
    is_other = mounts not in ("", mount_namespace(os.getpid()))
    return is_other and read(f"/proc/{pid}/cgroup") != read("/proc/self/cgroup")


def mount_namespace(pid: int) -> str:
    """Its mount namespace by the kernel's name; empty if it is gone, or another user's."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; none if it is gone."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    """Pid of its parent; 0 if it has none here, or is gone."""
    return int((stat(pid) or ["", "0"])[1])


def cmdline(pid: int) -> list[str]:
    """Its command line."""
    return read(f"/proc/{pid}/cmdline").split("\0")[:-1]


def pids() -> list[int]:
    """All processes here."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(file: str) -> str:
    """A file of /proc; empty if its process is gone."""
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
