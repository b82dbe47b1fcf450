"""A whole round in the syncer: its time against a memory copy, and its hold of the main thread.

    python benchmarks/round.py [--learners 8] [--floats 16000000] [--repeat 9] [--json] [--no-fail]

    ratio: payloads ─► arrivals ─► merge ─► publication       SyncerState and its threads alone
           one copy of all pushes, as floats                  np.copyto, one thread, right before
    hold:  learners process ═ pushes in int8 ══► syncer process: Syncer, Hub, threads, disk
                                                 └─► longest time between two looks into its inbox

A round takes in the pushes of all learners (decoded, checked, norms), merges them by rda, makes the
outer step, encodes the result in bf16, and computes both digests. The disk is left out of the
ratio: `durability.py` measures it. It is in the hold, without fsync.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter

import numpy as np
from figures import Cell, Figure, MachineLoad, Result, add_options, finish, quantile
from roles import Child, add_role_options

from chaoslab.core.events import Payload
from chaoslab.core.payloads import NodeFields, RoundMerged
from chaoslab.diloco.model.codec import encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import FloatArray, TensorSpec, specs_to_json
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.pushes import DecodedUpdate
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer import Syncer
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.training_state import MergeInput
from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Tokens, claimed_by
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Received
from chaoslab.diloco.wire.streams import Limits

RATIO_TARGET = 2.5
"""Most time of a round, in times of a copy of its pushes as floats."""
HOLD_TARGET_MS = 5.0
"""Longest time in which the main thread looks at no message."""
CODECS = (Codec.F32, Codec.INT8)
EVERY = 24
TOKENS = 10
WITHIN_S = 120.0


def main() -> int:
    """Measure and print; the exit code says whether the targets are met."""
    options = _options()
    if options.role:
        ROLES[options.role](options)
        return 0
    load = MachineLoad()
    rounds = {codec: _rounds(options, codec) for codec in CODECS}
    held = _held(options)
    return finish([_result(options, rounds, held, load.place())], options)


def _result(
    options: argparse.Namespace,
    rounds: Mapping[Codec, list[dict[str, float]]],
    held: Mapping[str, float],
    place: Mapping[str, Cell],
) -> Result:
    figures = [
        Figure(
            name=f"a round of {codec} pushes / a copy",
            observed=median(row["round"] / row["copy"] for row in rows),
            at_most=RATIO_TARGET,
            samples=len(rows),
        )
        for codec, rows in rounds.items()
    ]
    figures += [
        Figure(
            name="longest hold of the main thread",
            observed=held["longest_ms"],
            unit="ms",
            at_most=HOLD_TARGET_MS,
            samples=round(held["turns"]),
        ),
        Figure(name="pull to publication, the wire and the disk included: median",
               observed=held["sync_ms"], unit="ms", samples=round(held["rounds"])),
    ]  # fmt: skip
    steps = list(next(iter(rounds.values()))[0])
    return Result(
        number=2,
        name="round",
        what=f"one round of a fragment of {options.floats:,} floats from {options.learners} "
        "learners, against a memory copy of all its pushes as floats",
        command="python benchmarks/round.py",
        figures=tuple(figures),
        rows=tuple(
            {
                "pushes": codec.value,
                **{f"{step} (ms)": 1e3 * median(row[step] for row in rows) for step in steps},
            }
            for codec, rows in rounds.items()
        ),
        place=place,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--learners", type=int, default=8)
    parser.add_argument("--floats", type=int, default=16_000_000, help="floats of the fragment")
    parser.add_argument("--tensors", type=int, default=8, help="tensors in the fragment")
    parser.add_argument("--repeat", type=int, default=9)
    add_options(parser)
    add_role_options(parser, ROLES)
    options = parser.parse_args()
    if min(options.learners, options.repeat, options.tensors) < 1:
        parser.error("--learners, --repeat and --tensors are at least 1")
    if options.floats < options.tensors:
        parser.error("--floats is at least --tensors: a tensor has at least one float")
    return options


# ---------------------------------------------------------------- the ratio


def _rounds(options: argparse.Namespace, codec: Codec) -> list[dict[str, float]]:
    """Seconds of each step of each round, and of the copy before it."""
    with _state(options) as state:
        deltas = [_normals(options.floats, seed) for seed in range(options.learners)]
        payloads = [encode(delta, codec) for delta in deltas]
        copies = [np.ones_like(delta) for delta in deltas]
        has_ended = Event()
        work = Work(has_ended.set)

        def copy() -> None:
            for source, target in zip(deltas, copies, strict=True):
                np.copyto(target, source)

        try:
            rows = [
                {
                    "copy": _seconds(copy),
                    **_one_round(state, work, has_ended, codec, payloads, number),
                }
                for number in range(1, options.repeat + 2)
            ]
        finally:
            run_now(work.close())
    return rows[1:]  # the first one warms up caches and buffers


def _one_round(
    state: SyncerState,
    work: Work,
    has_ended: Event,
    codec: Codec,
    payloads: list[memoryview],
    number: int,
) -> dict[str, float]:
    began_s = perf_counter()
    updates = _examined(state, work, has_ended, codec, payloads)
    arrived_s = perf_counter()
    given = _given(state, updates, number)
    merged, _ = state.merge(0, given)
    merged_s = perf_counter()
    state.adopt(0, merged)
    state.publication(0, version=number, round_=number)
    ended_s = perf_counter()
    return {
        "round": ended_s - began_s,
        "arrivals": arrived_s - began_s,
        "merge and outer step": merged_s - arrived_s,
        "publication": ended_s - merged_s,
    }


def _examined(
    state: SyncerState,
    work: Work,
    has_ended: Event,
    codec: Codec,
    payloads: list[memoryview],
) -> dict[int, DecodedUpdate]:
    """The updates of all pushes, by epoch, decoded on the threads of the syncer."""
    found: dict[int, DecodedUpdate] = {}

    async def take(epoch: int, update: DecodedUpdate) -> None:
        found[epoch] = update

    for epoch, payload in enumerate(payloads):
        work.at_once(
            partial(state.pushes.examine, state.fragment(0), codec, payload), partial(take, epoch)
        )
    while len(found) < len(payloads):
        has_ended.wait(WITHIN_S)
        has_ended.clear()
        run_now(work.finish())
    return found


def _given(
    state: SyncerState, updates: Mapping[int, DecodedUpdate], number: int
) -> MergeInput[DecodedUpdate]:
    for epoch, update in updates.items():
        state.pushes.keep(number, epoch, update)
    contributions = tuple(
        Contribution(
            learner=f"learner-{epoch}", incarnation=1, epoch=epoch, step=EVERY * number,
            c_steps=EVERY, c_tokens=EVERY * TOKENS, weight=1.0 + epoch, tokens_from=0,
            tokens_to=EVERY * TOKENS,
        )
        for epoch in updates
    )  # fmt: skip
    return state.pushes.of(
        Merge(
            round=number, fragment=0, base_version=number - 1, contributions=contributions,
            missed=(), quorum_s=0.0, grace_s=0.0, pulled_s=0.0, fragment_tokens=0,
        )
    )  # fmt: skip


@contextmanager
def _state(options: argparse.Namespace) -> Iterator[SyncerState]:
    """A syncer's state with one fragment, as it is at the start of a training."""
    with TemporaryDirectory(prefix="chaoslab-benchmark-") as folder:
        store = SyncerStore(Path(folder), durable=False)
        state = SyncerState(_settings(options), store, snapshots=None)
        state.set_specs(_specs(options))
        state.take_initial(0, encode(_normals(options.floats, 99), Codec.F32))
        state.begin()
        yield state
        state.close()


def _settings(options: argparse.Namespace) -> Settings:
    names = tuple(f"learner-{number}" for number in range(options.learners))
    return Settings(
        learners=names, fragments=1, sync_every=EVERY, quorum=len(names), compression="int8",
        stop_rounds=options.repeat + 2, start_patience_s=WITHIN_S,
        suspect_after_s=WITHIN_S / 2, drop_after_s=WITHIN_S,
    )  # fmt: skip


def _specs(options: argparse.Namespace) -> tuple[TensorSpec, ...]:
    sizes = [len(part) for part in np.array_split(np.empty(options.floats, "?"), options.tensors)]
    return tuple(
        TensorSpec(name=f"tensor-{index:03d}", shape=(size,), is_averaged=False)
        for index, size in enumerate(sizes)
    )


def _normals(floats: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(floats, dtype=np.float32)


def _seconds(call: Callable[[], object]) -> float:
    began_s = perf_counter()
    call()
    return perf_counter() - began_s


# ---------------------------------------------------------------- the hold


def _held(options: argparse.Namespace) -> Mapping[str, float]:
    """What the syncer process says of a training of a few rounds."""
    with Child("syncer", options) as syncer, Child("learners", options, syncer.line()):
        said: Mapping[str, float] = json.loads(syncer.line())
        return said


def syncer(options: argparse.Namespace) -> None:
    """The real syncer; prints its address, and at the end how long its main thread was held."""
    settings, sync_s = _settings(options), list[float]()
    about: NodeFields = {"node": "syncer", "learner": "", "incarnation": 1}

    def emit(said: Payload) -> None:
        if isinstance(said, RoundMerged) and said.sync_s is not None:
            sync_s.append(said.sync_s)

    with TemporaryDirectory(prefix="chaoslab-benchmark-") as folder:
        tokens = Tokens(settings.learners)
        hub = Hub("127.0.0.1:0", tokens=tokens)
        turns_s = _timed(hub)
        store = SyncerStore(Path(folder), durable=False)
        state = SyncerState(settings, store, snapshots=None)
        work = Work(hub.arrivals.wake)
        began = Syncer(hub, state, work, emit=emit, now=time.monotonic, phases=Phases(emit, about))
        print(hub.start(), *(tokens.of(name) for name in settings.learners), flush=True)
        run_now(began.run(hub.address))
        hub.stop()
        state.close()
    counted = turns_s[len(turns_s) // (options.repeat + 2) :]  # after the start and a first round
    print(
        json.dumps({
            "longest_ms": 1e3 * max(counted),
            "p99_ms": 1e3 * quantile(counted, 0.99),
            "turns": len(counted),
            "sync_ms": 1e3 * median(sync_s[1:]),
            "rounds": len(sync_s) - 1,
        }),
        flush=True,
    )  # fmt: skip


def _timed(hub: Hub) -> list[float]:
    """Seconds from each return of the inbox to the next look into it; grows while it is used."""
    turns_s: list[float] = []
    take, began_s = hub.arrivals.get, perf_counter()

    def get(timeout: float | None = None) -> Arrival[pb.FromLearner]:
        nonlocal began_s
        turns_s.append(perf_counter() - began_s)
        try:
            return take(timeout)
        finally:
            began_s = perf_counter()

    hub.arrivals.get = get  # type: ignore[method-assign]  # of this one object
    return turns_s


def learners(options: argparse.Namespace) -> None:
    """Learners without a model: they answer every pull with the same outer gradient."""
    address, *tokens = options.address.split()
    payloads = {
        True: encode(_normals(options.floats, 1), Codec.F32),
        False: encode(_normals(options.floats, 2), Codec.INT8),
    }
    specs = specs_to_json(_specs(options))
    threads = [Thread(target=_learner, args=(address, token, specs, payloads)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _learner(address: str, token: str, specs: str, payloads: Mapping[bool, memoryview]) -> None:
    connection = Connection(address, token=token, limits=Limits())
    connection.open()
    hello = pb.Hello(learner=claimed_by(token), incarnation=1, specs_json=specs)
    connection.send(pb.FromLearner(hello=hello))
    epoch = step = 0
    while True:
        event = connection.arrivals.get(timeout=WITHIN_S).event
        if isinstance(event, Closed):
            return
        message = event.message if isinstance(event, Received) else pb.ToLearner()
        match message.WhichOneof("body"):
            case "welcome":
                epoch = message.epoch
                if message.welcome.source == "initial":
                    push = pb.Push(fragment=0, base_version=-1, codec="f32")
                    initial = pb.FromLearner(epoch=epoch, push=push)
                    connection.send_payload(initial, payloads[True], key="initial")
            case "fragment":
                for c_steps in (1, EVERY):  # only a step beyond the first report is progress
                    report = _progress(step + c_steps, c_steps, message.fragment.version)
                    connection.send(pb.FromLearner(epoch=epoch, progress=report))
                step += EVERY
            case "pull":
                push = _answer(message.pull, step)
                connection.send_payload(
                    pb.FromLearner(epoch=epoch, push=push), payloads[False], key=step
                )
            case "stop":
                connection.close(pb.FromLearner(epoch=epoch, goodbye=pb.Goodbye(reason="stop")))
                return


def _progress(step: int, c_steps: int, version: int) -> pb.Progress:
    """Counters of a learner that has made `c_steps` steps since it adopted this version."""
    return pb.Progress(
        step=step, tokens=TOKENS * step, c_steps=[c_steps], c_tokens=[TOKENS * c_steps],
        versions=[version], loss=1.0, step_s=0.001, data_position=step,
    )  # fmt: skip


def _answer(pull: pb.Pull, step: int) -> pb.Push:
    since = TOKENS * (step - EVERY)
    return pb.Push(
        round=pull.round, fragment=pull.fragment, base_version=pull.base_version, step=step,
        c_steps=EVERY, c_tokens=TOKENS * EVERY, tokens_from=since, tokens_to=TOKENS * step,
        codec="int8",
    )  # fmt: skip


ROLES = {"syncer": syncer, "learners": learners}

if __name__ == "__main__":
    sys.exit(main())
