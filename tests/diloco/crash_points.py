"""Every file operation of a syncer and of a learner as the moment at which the power fails.

    real store ── files, recorded ─► operations ─► PowerCut ─► states of the disk ─► real recovery
              └── what it promised to others, and when ─────────────────────────────► Outcome

    python -m tests.diloco.crash_points          prints the tables; docs/protocol.md has sums

The recovery is that of the product: `Books.restore` with a policy, `LearnerStore.load_newest`. What
was promised is what somebody else may have seen: a version once `save_round` returned or a syncer
came back with it, a number once it was given, a checkpoint once it was said to be saved.
"""

import argparse
import logging
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from chaoslab.core.payloads import CheckpointFound, Payload
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.model.fragments import Layout, TensorSpec, specs_to_json
from chaoslab.diloco.node import files
from chaoslab.diloco.node.checksummed_file import CorruptState
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.decisions import Contribution
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.store import StoredState, SyncerStore, Tensors
from chaoslab.diloco.syncer.syncer_state import SyncerState
from tests.diloco.disk_model import Killed, Operation, PowerCut, Recorder, State, lay_out
from tests.diloco.known import WHOSE
from tests.memory_folder import in_memory

SPECS = (
    TensorSpec(name="embed", shape=(40, 9), is_averaged=False),
    TensorSpec(name="head", shape=(300,), is_averaged=False),
)
RULES = Settings(learners=("learner-0",), fragments=2, compression="f32")
_FRAGMENTS = Layout.balance(SPECS, RULES.fragments).fragments
_NODE = "node"
_FOLDER = Path(_NODE, "kept")
_PAYLOAD_BYTES = 3000


class Outcome(StrEnum):
    """What a start after the power cut found."""

    KEPT = "kept"
    """All that was promised, and nothing else."""
    AHEAD = "kept, and one unpublished"
    """All that was promised, and a merge or checkpoint that nobody had heard of yet."""
    LOST = "lost"
    """Less than was promised."""
    REPEATED = "repeated"
    """A round or an epoch that was given can be given again."""
    MIXED = "mixed"
    """Bytes that were never saved together, or a file that is torn under its own name."""
    REFUSED = "refused"
    """The recovery does not start, though nothing was damaged but by the power cut."""

    @property
    def is_right(self) -> bool:
        """Whether a power cut may lead to it."""
        return self in {Outcome.KEPT, Outcome.AHEAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What others may rely on: for a syncer its versions and numbers, for a learner its step."""

    versions: tuple[int, ...] = ()
    round: int = 0
    epoch: int = 0
    step: int = 0


@dataclass(slots=True)
class Account:
    """What was promised, and after how many operations."""

    recorder: Recorder
    promises: list[tuple[int, Promise]] = field(default_factory=lambda: [(0, Promise())])
    saved: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(fragment, version) -> the seeds of what was saved as that."""
    seed: int = 0

    def promise(self, promise: Promise) -> None:
        """From now on."""
        self.promises.append((len(self.recorder.operations), promise))

    @property
    def last(self) -> Promise:
        """The newest one."""
        return self.promises[-1][1]

    def promised(self, operations: int) -> Promise:
        """What had been promised when so many operations were done."""
        return [what for after, what in self.promises if after <= operations][-1]


# ---------------------------------------------------------------- lives that are recorded


@contextmanager
def recorded(root: Path) -> Iterator[Account]:
    """In the block, `chaoslab.diloco.node.files` tells an account what it does below `root`."""
    real, recorder = files.os, Recorder(root)
    files.os = recorder  # type: ignore[assignment]  # it has all that files asks of os
    try:
        yield Account(recorder)
    finally:
        files.os = real


def live(account: Account, life: Callable[[], None], *, until: int | None = None) -> None:
    """A life, killed before operation `until`; the files stay as the kernel has them."""

    def before(number: int) -> None:
        if until is not None and number >= until:
            raise Killed

    account.recorder.before = before
    try:
        life()
    except Killed:
        return
    assert until is None, "the life ended before it was to be killed"


def syncer_life(account: Account, root: Path, merges: int, *, durable: bool) -> None:
    """Take up what is there, or begin; then merge so many times, each fragment in its turn."""
    files.make_folder(root / _NODE, durable=True)
    store = SyncerStore(root / _FOLDER, durable=durable)
    syncer_state, policy = SyncerState(RULES, store, snapshots=None), Policy(RULES)
    try:
        syncer_state.restore(policy, 0.0)
        versions = list(policy.versions)
        if not versions:
            versions = [0] * RULES.fragments
            store.begin(
                specs_to_json(SPECS), {f: _made(account, f, 0) for f in range(RULES.fragments)}
            )
        account.promise(replace(account.last, versions=tuple(versions)))
        for number in range(policy.rounds.begun + 1, policy.rounds.begun + 1 + merges):
            epoch = policy.membership.last_epoch + 1
            account.promise(Promise(versions=tuple(versions), round=number, epoch=epoch))
            fragment = number % RULES.fragments
            line = _line(number, fragment, versions[fragment] + 1, epoch)
            store.save_round(line, _made(account, fragment, line.version))
            versions[fragment] += 1
            account.promise(Promise(versions=tuple(versions), round=number, epoch=epoch))
    finally:
        store.close()


def learner_life(account: Account, root: Path, saves: int, *, durable: bool) -> None:
    """Look for a checkpoint, then save so many."""
    files.make_folder(root / _NODE, durable=True)
    store = LearnerStore(root / _FOLDER, WHOSE, durable=durable)
    found = store.load_newest()
    step = found.step if found else 0
    account.promise(Promise(step=step))
    for step_ in range(step + 1, step + 1 + saves):
        run_now(store.save(step=step_, data_position=7 * step_, payload=_payload(step_)))
        account.promise(Promise(step=step_))


def _made(account: Account, fragment: int, version: int) -> Tensors:
    account.seed += 1
    account.saved.setdefault((fragment, version), []).append(account.seed)
    return _tensors(fragment, account.seed)


def _tensors(fragment: int, seed: int) -> Tensors:
    chance, (spec,) = np.random.default_rng(seed), _FRAGMENTS[fragment].tensors
    theta, momentum = (chance.standard_normal(spec.shape, np.float32) for _ in range(2))
    return Tensors(theta={spec.name: theta}, momentum={spec.name: momentum})


def _line(number: int, fragment: int, version: int, epoch: int) -> CommitRecord:
    given = tuple(
        Contribution(
            learner=f"learner-{which}", incarnation=1, epoch=epoch, step=number, c_steps=6,
            c_tokens=6144, weight=1.5e6, tokens_from=100, tokens_to=6244,
        )
        for which in range(4)
    )  # fmt: skip
    return CommitRecord(
        round=number, fragment=fragment, version=version, begun=number, contributors=given,
        last_epoch=epoch,
    )  # fmt: skip


def _payload(step: int) -> bytes:
    return random.Random(step).randbytes(_PAYLOAD_BYTES)


# ---------------------------------------------------------------- starts after the power cut


def syncer_starts(root: Path, account: Account, promise: Promise) -> Outcome:
    """The syncer's recovery, one merge more, and what is on the disk then."""
    store = SyncerStore(root / _FOLDER, durable=False)
    syncer_state, policy = SyncerState(RULES, store, snapshots=None), Policy(RULES)
    try:
        syncer_state.restore(policy, 0.0)
        found = store.load()
    except (CorruptState, ValueError, KeyError, OSError):
        return Outcome.REFUSED
    if policy.rounds.begun < promise.round or policy.membership.last_epoch < promise.epoch:
        return Outcome.REPEATED
    if found is None:
        return Outcome.LOST if promise.versions else Outcome.KEPT
    ahead = [mine - theirs for mine, theirs in zip(found.versions, promise.versions, strict=False)]
    if any(count < 0 for count in ahead):
        return Outcome.LOST
    if not _is_whole(found, account):
        return Outcome.MIXED
    if not _goes_on(store, policy, found, root):
        return Outcome.REFUSED
    return Outcome.AHEAD if any(ahead) or not promise.versions else Outcome.KEPT


def _is_whole(found: StoredState, account: Account) -> bool:
    """Whether parameters and momentum of each fragment are those that were saved together."""
    for fragment, version in enumerate(found.versions):
        held = found.fragments[fragment]
        made = [_tensors(fragment, seed) for seed in account.saved[fragment, version]]
        if not any(
            np.array_equal(held.theta[name], one.theta[name])
            and np.array_equal(held.momentum[name], one.momentum[name])
            for one in made
            for name in one.theta
        ):
            return False
    return True


def _goes_on(store: SyncerStore, policy: Policy, found: StoredState, root: Path) -> bool:
    number = policy.rounds.begun + 1
    line = _line(number, 0, found.versions[0] + 1, policy.membership.last_epoch + 1)
    store.save_round(line, _tensors(0, 0))
    store.close()
    again = SyncerStore(root / _FOLDER, durable=False).load()
    return again is not None and again.commit_log == (*found.commit_log, line)


def learner_starts(root: Path, _account: Account, promise: Promise) -> Outcome:
    """The learner's recovery, and one save more."""
    told: list[Payload] = []
    store = LearnerStore(root / _FOLDER, WHOSE, durable=False, emit=told.append)
    found = store.load_newest()
    step = found.step if found else 0
    (first,) = told
    assert isinstance(first, CheckpointFound)
    if found is not None and (found.payload != _payload(step) or first.refused):
        return Outcome.MIXED
    if step < promise.step:
        return Outcome.LOST
    run_now(store.save(step=step + 1, data_position=0, payload=_payload(step + 1)))
    again = LearnerStore(root / _FOLDER, WHOSE, durable=False).load_newest()
    if again is None or again.step != step + 1:
        return Outcome.REFUSED
    return Outcome.AHEAD if step > promise.step else Outcome.KEPT


# ---------------------------------------------------------------- every point of every life


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is tried: how it lives, and how it starts again."""

    name: str
    live: Callable[..., None]
    starts: Callable[[Path, Account, Promise], Outcome]
    first: int
    """Merges or saves of the first life."""
    again: int
    """Of the second one."""


SYNCER = Subject(name="syncer", live=syncer_life, starts=syncer_starts, first=5, again=3)
LEARNER = Subject(name="learner", live=learner_life, starts=learner_starts, first=4, again=3)


@dataclass(slots=True)
class Tally:
    """By kind of the last operation before the power cut: crash points, and what was found."""

    points: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Where it was not right, in words."""

    @property
    def states(self) -> int:
        """Disks from which something was started."""
        return self.outcomes.total()


def try_out(
    subject: Subject,
    folder: Path,
    *,
    durable: bool = True,
    limit: int = 64,
    kills: Callable[[int], range] = range,
) -> Tally:
    """Cut the power at every operation of a life, and of lives that began after a kill.

    `kills` chooses at which operations of the first life its process is killed, the power staying
    on: what it had not flushed is what the second life reads, and may still be lost with that.
    """
    tally = Tally()
    with recorded(_fresh(folder)) as account:
        live(account, lambda: subject.live(account, folder, subject.first, durable=durable))
    _cut_everywhere(subject, account, tally, folder.parent, since=0, limit=limit)
    for until in kills(len(account.recorder.operations)):
        with recorded(_fresh(folder)) as killed:
            live(
                killed,
                lambda: subject.live(killed, folder, subject.first, durable=durable),
                until=until,
            )
            live(killed, lambda: subject.live(killed, folder, subject.again, durable=durable))
        _cut_everywhere(subject, killed, tally, folder.parent, since=until, limit=limit)
    return tally


def _cut_everywhere(
    subject: Subject, account: Account, tally: Tally, place: Path, *, since: int, limit: int
) -> None:
    disk, operations = PowerCut(limit=limit), account.recorder.operations
    for done, operation in enumerate(operations, start=1):
        disk.follow(operation)
        if done <= since:
            continue
        tally.points[operation.kind] += 1
        for state in disk.states():
            outcome = _start(subject, account, place, state, done)
            tally.outcomes[operation.kind, outcome] += 1
            if not outcome.is_right:
                tally.wrong.append(f"{outcome} {_where(done, operation)}, killed before {since}")


def _start(subject: Subject, account: Account, place: Path, state: State, done: int) -> Outcome:
    with TemporaryDirectory(dir=place) as root:
        lay_out(state, Path(root))
        return subject.starts(Path(root), account, account.promised(done))


def _where(done: int, operation: Operation) -> str:
    return f"after operation {done - 1} ({operation.kind} {operation.path})"


def _fresh(folder: Path) -> Path:
    """The folder, without what an earlier life left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# ---------------------------------------------------------------- the table


def table(tally: Tally) -> str:
    """In Markdown."""
    heads = ["power fails after", "points", "states", *Outcome]
    rows = [heads, ["---", *("---:" for _ in heads[1:])]]
    for kind in sorted(tally.points):
        counts = [tally.outcomes[kind, outcome] for outcome in Outcome]
        rows.append([kind, *map(_count, (tally.points[kind], sum(counts), *counts))])
    totals = [sum(tally.outcomes[kind, one] for kind in tally.points) for one in Outcome]
    rows.append(["all", *map(_count, (tally.points.total(), tally.states, *totals))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _never(_operations: int) -> range:
    return range(0)


def _count(number: int) -> str:
    return f"{number:,}"


def main(arguments: list[str]) -> int:
    """Print the tables; 1 if a durable store is not right everywhere."""
    flags = argparse.ArgumentParser(description="Cut the power at every file operation.")
    flags.add_argument("--limit", type=int, default=64, help="states for each crash point")
    limit = flags.parse_args(arguments).limit
    wrong: list[str] = []
    logging.disable()  # what is passed over is counted here
    with in_memory() as place:
        for subject in (SYNCER, LEARNER):
            for durable in (True, False):
                kills = range if durable else _never
                tally = try_out(subject, place / "live", durable=durable, limit=limit, kills=kills)
                how = "as it is" if durable else "with its durability switched off"
                sys.stdout.write(f"## The {subject.name}, {how}\n\n{table(tally)}\n\n")
                wrong += tally.wrong if durable else []
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
