"""A real syncer process that is killed and started again, with little learners in this process.

CrashingSyncer ── start ──► process ── lines ──► told, life by life
     │ watch ══► stdin: the point at which it is to die        │
     └─ kill ◄── phase.reached                        Account ─┴─► what must hold over all lives
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from chaoslab.core.events import Kind, read_node_line
from chaoslab.diloco.syncer.store import SyncerStore
from tests.diloco.known import TOKENS
from tests.diloco.little_learner import LittleLearner

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 60.0
NAMES = ("learner-0", "learner-1", "learner-2")
RULES = {
    "learners": NAMES, "fragments": 2, "compression": "f32", "sync_every": 4, "overlap": 2,
    "suspect_after_s": 5.0, "drop_after_s": 20.0,
}  # fmt: skip


class CrashingSyncer:
    """One syncer in one folder. Leaving the context ends its process by its own handle."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._let_in(folder / "syncer" / "tokens")
        self.address = ""
        self.told: list[tuple[int, Kind, Mapping[str, Any]]] = []
        """(life, kind, data) of every line, in order."""
        self.life = 0
        self._changed = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Its next life; returns when that is ready."""
        self.life += 1
        with (self.folder / "stderr.log").open("a") as errors:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "chaoslab.diloco.syncer", "--test-hooks",
                    "--directory", str(self.folder / "syncer"),
                    "--settings-json", json.dumps(RULES),
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process, self.life))
        self._reader.start()
        self.address = str(self.wait(Kind.SYNCER_READY)["address"])

    def _let_in(self, tokens: Path) -> None:
        """The learners of the tests, which live outside of its folder."""
        tokens.mkdir(mode=0o700, parents=True)
        for name in NAMES:
            (tokens / name).touch(mode=0o600)
            (tokens / name).write_text(TOKENS.of(name))

    def kill(self) -> None:
        """SIGKILL; returns when it is gone and all that it said was read."""
        if self._process is None or self._reader is None:
            return
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def run_loop(self, phase: str) -> None:
        """Let it stop at this point when it is next there, until it is killed."""
        assert self._process is not None
        assert self._process.stdin is not None
        word = {"do": "watch", "phase": phase, "hold_s": PATIENCE_S}
        self._process.stdin.write(json.dumps(word) + "\n")
        self._process.stdin.flush()

    def of(self, kind: Kind, *, life: int = 0) -> list[Mapping[str, Any]]:
        """What was said of a kind, in all lives or in one."""
        with self._changed:
            lines = list(self.told)
        return [data for when, said, data in lines if said is kind and life in (0, when)]

    def wait(self, kind: Kind, *, times: int = 1) -> Mapping[str, Any]:
        """That many lines of a kind in this life; the last of them."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found := self.of(kind, life=self.life)) < times:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"no {kind} in life {self.life}: {self._last_words()}"
            with self._changed:
                self._changed.wait(min(left_s, 0.05))
        return found[times - 1]

    def _read(self, process: subprocess.Popen[str], life: int) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for text in lines:
                is_whole = text.endswith("\n")
                report = read_node_line(text.rstrip("\n"), "syncer") if is_whole else None
                if report is not None:
                    with self._changed:
                        self.told.append((life, report.kind, report.data))
                        self._changed.notify_all()

    def _last_words(self) -> str:
        errors = (self.folder / "stderr.log").read_text()[-3000:]
        return f"{self.told[-12:]}\n{errors}"


class Adopter(LittleLearner):
    """A little learner that remembers what it adopted, and can call for help in mid-push."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(address, name, pause_s=0.05)
        self.adopted: list[tuple[int, int, str]] = []
        """(fragment, version, digest)"""
        self.at_push: Callable[[], None] | None = None
        self.on_push = self._pushing

    def _pushing(self) -> None:
        asked, self.at_push = self.at_push, None
        if asked is not None:
            asked()

    def _adopt(self) -> None:
        self.adopted += [
            (index, adoption.version, adoption.digest)
            for index, adoption in self.inbox.adoptions.items()
        ]
        super()._adopt()


def must_hold(syncer: CrashingSyncer, learners: list[Adopter]) -> int:
    """Everything that no crash may break; the number of merges on the tape."""
    merged = _merged(syncer)
    seen = [(one["fragment"], one["version"], one["digest"]) for one in merged]
    seen += [entry for learner in learners for entry in learner.adopted]
    _one_digest_each(seen)
    _versions_rise_by_one(merged)
    _nothing_is_forgotten(syncer, learners)
    epochs = [joined["epoch"] for joined in syncer.of(Kind.MEMBER_JOINED)]
    assert epochs == sorted(set(epochs)), "an epoch was given twice"
    rounds = [one["round"] for one in merged]
    rounds += [one["round"] for one in syncer.of(Kind.ROUND_ABANDONED)]
    assert len(rounds) == len(set(rounds)), "a round number was used twice"
    return _tape_is_sound(syncer, merged)


def _merged(syncer: CrashingSyncer) -> list[Mapping[str, Any]]:
    """Every merge once: what is said again about a known one must be the same."""
    known: dict[int, Mapping[str, Any]] = {}
    for one in syncer.of(Kind.ROUND_MERGED):
        first = known.setdefault(one["round"], one)
        if first is not one:
            assert one.get("is_restated"), f"round {one['round']} was merged twice"
            for key in ("fragment", "version", "digest", "momentum_digest", "contributors"):
                assert first[key] == one[key], f"{key} of round {one['round']} changed"
    return list(known.values())


def _one_digest_each(seen: list[tuple[int, int, str]]) -> None:
    digests: dict[tuple[int, int], str] = {}
    for fragment, version, digest in seen:
        first = digests.setdefault((fragment, version), digest)
        assert first == digest, f"version {version} of fragment {fragment} is two things"


def _versions_rise_by_one(merged: list[Mapping[str, Any]]) -> None:
    last: dict[int, int] = {}
    for one in merged:
        assert one["version"] == last.get(one["fragment"], 0) + 1, one
        last[one["fragment"]] = one["version"]


def _nothing_is_forgotten(syncer: CrashingSyncer, learners: list[Adopter]) -> None:
    """Each life begins with all that was published before, momentum included."""
    published: dict[str, int] = {}
    digests: dict[tuple[str, int], tuple[str, str]] = {}
    for _, kind, data in syncer.told:
        if kind is Kind.ROUND_MERGED:
            place = str(data["fragment"]), data["version"]
            published[place[0]] = max(place[1], published.get(place[0], 0))
            digests[place] = (data["digest"], data["momentum_digest"])
        if kind is Kind.SYNCER_READY and data["versions"]:
            for fragment, version in published.items():
                held = data["versions"][fragment]
                assert version <= held <= version + 1, (fragment, version, held)
                if held == version:
                    found = data["digests"][fragment], data["momentum_digests"][fragment]
                    assert found == digests[fragment, held], (fragment, held)
    for learner in learners:
        for fragment, version, _ in learner.adopted:
            assert version <= published.get(str(fragment), 0), "a version came from nowhere"


def _tape_is_sound(syncer: CrashingSyncer, merged: list[Mapping[str, Any]]) -> int:
    """No token of a learner is in a fragment twice, and the tape is what was said, or one more."""
    stored = SyncerStore(syncer.folder / "syncer" / "state").load()
    assert stored is not None
    made = [line for line in stored.commit_log if line.version]
    said = [(one["round"], one["fragment"], one["version"]) for one in merged]
    taped = [(line.round, line.fragment, line.version) for line in made]
    assert said in (taped, taped[:-1])
    ends: dict[tuple[str, int], int] = {}
    for line in made:
        for given in line.contributors:
            end = ends.get((given.learner, line.fragment), 0)
            assert given.tokens_from >= end, f"{given} gives again what was merged up to {end}"
            assert given.tokens_to - given.tokens_from == given.c_tokens
            ends[given.learner, line.fragment] = given.tokens_to
    return len(made)
