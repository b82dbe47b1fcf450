"""A learner in NumPy and grpcio, written from docs/protocol.md: how another framework takes part.

    fleet: {programs: {learner: numpy_learner, evaluator: numpy_evaluator}}

    syncer ◄═► Stream ── inbox ──► take: welcome, fragments, pulls, stop
                 ▲                   │
                 └─ push, progress ──┴─ step ─► report ─► answer      one thread, no waiting

Of chaoslab it uses the messages of wire.proto alone. Not here, so that faults and checks of these
find no evidence: TLS, checkpoints on disk, reports of the link, `blocking`, signals but SIGTERM,
and hooks but `pace`.
"""

import argparse
import json
import math
import queue
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy_model as model
from numpy_model import Floats, Params
from numpy_wire import Stream, decode, digest, pb

RATE, MOMENTUM = np.float32(0.05), np.float32(0.9)
SAMPLE_S = 0.25  # between two learner.step events
DRAIN_S = 15.0  # for the last versions, after Stop
BORN_S = time.monotonic()


# ---------------------------------------------------------------- fragments


@dataclass(slots=True)
class Fragment:
    """One fragment: what was adopted of it, and what became of the work on it."""

    names: list[str]
    base: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # Θ, flat
    version: int = -1
    c_steps: int = 0
    tokens_from: int = 0  # raw tokens at the adoption
    committed: int = 0
    discarded: int = 0


def cut(params: Params, count: int) -> list[Fragment]:
    """Largest tensor first, each into the smallest fragment so far."""
    fragments, sizes = [Fragment([]) for _ in range(count)], [0] * count
    for name in sorted(params, key=lambda name: (-params[name].size, name)):
        smallest = sizes.index(min(sizes))  # the first of them
        fragments[smallest].names.append(name)
        sizes[smallest] += params[name].size
    for fragment in fragments:
        fragment.names.sort()
    return fragments


def flat(params: Params, fragment: Fragment) -> Floats:
    return np.concatenate([params[name].ravel() for name in fragment.names])


def unflatten(params: Params, fragment: Fragment, values: Floats) -> None:
    start = 0
    for name in fragment.names:
        size = params[name].size
        params[name] = values[start : start + size].reshape(params[name].shape).copy()
        start += size


def by_fragment(values: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values)}


# ---------------------------------------------------------------- a step time


class Pace:
    """Ends steps on a grid, as on a chip with this step time; without one, at once."""

    def __init__(self, step_time_s: float | None, speed: float) -> None:
        self._given_s, self._speed = step_time_s, speed
        self.period_s, self.overruns = None, 0
        self._due_s: float | None = None
        self.set(step_time_s)

    def set(self, step_s: float | None) -> None:
        """None: that of the command line."""
        step_s = step_s or self._given_s
        self.period_s = step_s / self._speed if step_s else None

    def rest(self, began_s: float) -> None:
        period_s = self.period_s
        if period_s is None:
            self._due_s = None
            return
        due_s = (self._due_s or began_s) + period_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        lost = max(0, math.floor((time.monotonic() - due_s) / period_s))
        self.overruns += lost
        self._due_s = due_s + lost * period_s

    def listen(self) -> None:
        """The hook {"do": "pace", "step_s": 0.06}, one JSON object per line."""
        for line in sys.stdin:
            asked = json.loads(line)
            if asked.pop("do", "") == "pace":
                self.set(asked.get("step_s"))


# ---------------------------------------------------------------- the learner


class Learner:
    """The main thread: parameters θ, momentum, fragments, and the counters of one incarnation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.token = options.token_file.read_text().strip()
        self.text = model.trained(model.read(options.data), options.shard, options.shards)
        self.params = model.init(options.seed)
        self.velocity = {name: np.zeros_like(values) for name, values in self.params.items()}
        self.fragments: list[Fragment] = []
        self.step = self.tokens = self.data_position = 0
        self.loss = self.step_s = 0.0
        self.pace = Pace(options.step_time, options.speed)
        self.sampled_s, self.sampled_step = time.monotonic(), 0
        self.process = secrets.randbits(63)
        self.stream: Stream | None = None
        self.epoch = 0
        self.dial_s, self.pause_s = 0.0, 0.2
        self.source, self.donor = "", ""
        self.is_joined = self.is_leaving = False
        self.pulls: dict[int, Any] = {}
        self.requests: dict[int, Any] = {}
        self.stop: Any = None

    def run(self) -> None:
        while not self.is_leaving and self.stop is None:
            self.keep_stream()
            self.take(0.0 if self.is_joined else 0.5)
            if self.is_joined and self.stop is None:
                self.train()
                self.report()
                self.answer()
        if self.is_joined:
            self.sample() if self.stop is None else self.finish()
        self.leave("asked" if self.stop is None else "stopped")

    def emit(self, kind: str, **data: Any) -> None:
        source = {"learner": self.options.name, "incarnation": self.options.incarnation}
        line = {"kind": kind, "node_s": time.monotonic() - BORN_S, "data": {**source, **data}}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    @property
    def versions(self) -> list[int]:
        return [fragment.version for fragment in self.fragments]

    # ------------------------------------------------------------ the stream

    def keep_stream(self) -> None:
        """Dial if there is no stream and the pause is over; called once a step."""
        if self.stream is not None:
            return
        if time.monotonic() < self.dial_s:
            time.sleep(0.0 if self.is_joined else 0.05)
            return
        shapes = [
            {"name": name, "shape": values.shape, "is_averaged": name == "embedding"}
            for name, values in self.params.items()
        ]
        hello = pb.Hello(
            learner=self.options.name,
            incarnation=self.options.incarnation,
            process=self.process,
            specs_json=json.dumps(shapes),
        )
        if self.is_joined:
            hello.versions[:] = self.versions
            hello.step, hello.tokens = self.step, self.tokens
            hello.data_position = self.data_position
        self.stream = Stream(self.options.syncer, self.token)
        self.stream.send("hello", hello)

    def lose_stream(self, reason: str) -> None:
        if self.stream is None:
            return
        if self.stream.epoch:
            self.emit("learner.fenced", epoch=self.epoch, reason=reason)
        self.stream.close()
        self.stream = None
        self.pulls.clear()
        self.requests.clear()
        self.dial_s = time.monotonic() + self.pause_s * random.uniform(0.1, 1.0)
        self.pause_s = min(2 * self.pause_s, 2.0)

    def take(self, timeout_s: float) -> None:
        """Handle all that has arrived; wait at most this long for the first of it."""
        while self.stream is not None:
            try:
                arrived = self.stream.inbox.get(timeout=timeout_s)
            except queue.Empty:
                return
            timeout_s = 0.0
            if arrived is None:
                self.lose_stream("the stream ended")
            else:
                self.handle(*arrived)

    def handle(self, message: Any, payload: bytes) -> None:
        body = message.WhichOneof("body")
        if body == "refused":
            sys.exit(f"{self.options.name} was refused: {message.refused.reason}")
        if body == "welcome":
            self.stream.epoch = self.epoch = message.epoch
            self.join(message.welcome)
        elif message.epoch != self.epoch:
            return
        elif body == "fragment":
            self.adopt(message.fragment, payload)
        elif body == "checkpoint":
            self.take_over(message.checkpoint, payload)
        elif body == "pull":
            self.pulls[message.pull.fragment] = message.pull
        elif body == "checkpoint_request":
            self.requests[message.checkpoint_request.request] = message.checkpoint_request
        elif body == "stop":
            self.stop = message.stop
        elif body == "fenced":
            self.lose_stream(message.fenced.reason)

    # ------------------------------------------------------------ joining

    def join(self, welcome: Any) -> None:
        self.pause_s = 0.2
        self.source = welcome.source
        if self.is_joined:
            self.say_joined({})  # it kept its own parameters, with work on top
            return
        if not self.fragments:
            self.fragments = cut(self.params, json.loads(welcome.settings_json)["fragments"])
        self.step = self.sampled_step = welcome.step
        self.data_position = welcome.data_position
        if self.source == "initial":
            for number, fragment in enumerate(self.fragments):
                push = pb.Push(fragment=number, base_version=-1, codec="f32")
                self.stream.send("push", push, flat(self.params, fragment).tobytes())
        self.begin_if_whole()  # if no donor is left after all fragments came

    def take_over(self, header: Any, payload: bytes) -> None:
        """Continue from a donor's Θ, momentum and step, without its work."""
        bases, velocities = np.frombuffer(payload, "<f4").reshape(2, -1)
        start = 0
        for fragment, version in zip(self.fragments, header.versions, strict=True):
            end = start + flat(self.params, fragment).size
            unflatten(self.velocity, fragment, velocities[start:end])
            if version > fragment.version:
                self.overwrite(fragment, version, bases[start:end])
            start = end
        self.donor = header.donor
        self.step = self.sampled_step = header.step
        self.begin_if_whole()

    def begin_if_whole(self) -> None:
        if self.is_joined or min(self.versions) < 0:
            return
        if self.source == "donor" and not self.donor:
            return  # the checkpoint comes, or another welcome
        self.is_joined = True
        self.say_joined(by_fragment([digest(flat(self.params, f)) for f in self.fragments]))
        self.sampled_s = time.monotonic()

    def say_joined(self, digests: dict[str, str]) -> None:
        self.emit(
            "learner.joined", epoch=self.epoch, source=self.source,
            donor=self.donor if self.source == "donor" else None, step=self.step,
            data_position=self.data_position, versions=by_fragment(self.versions), digests=digests,
        )  # fmt: skip

    # ------------------------------------------------------------ training

    def train(self) -> None:
        """One step of gradient descent with momentum, on `batch` x `sequence` guesses."""
        began_s, options = time.monotonic(), self.options
        chance = np.random.default_rng([options.seed, options.shard, self.data_position])
        count = options.batch * options.sequence
        batch = model.draw(self.text, count, chance)
        self.loss, gradients = model.loss_and_gradients(self.params, batch)
        for name, gradient in gradients.items():
            self.velocity[name] = MOMENTUM * self.velocity[name] + gradient
            self.params[name] = self.params[name] - RATE * self.velocity[name]
        self.pace.rest(began_s)
        took_s = time.monotonic() - began_s
        self.step_s += (took_s - self.step_s) * (0.1 if self.step_s else 1.0)
        self.step += 1
        self.data_position += 1
        self.tokens += count
        for fragment in self.fragments:
            fragment.c_steps += 1
        if time.monotonic() - self.sampled_s >= SAMPLE_S:
            self.sample()

    def sample(self) -> None:
        now_s, steps = time.monotonic(), self.step - self.sampled_step
        self.emit(
            "learner.step", epoch=self.epoch, step=self.step, steps=steps,
            step_s=(now_s - self.sampled_s) / steps if steps else 0.0, loss=self.loss,
            period_s=self.pace.period_s, overruns=self.pace.overruns,
            tokens=self.tokens, data_position=self.data_position,
        )  # fmt: skip
        self.sampled_s, self.sampled_step, self.pace.overruns = now_s, self.step, 0

    def report(self) -> None:
        if self.stream is None or not self.stream.epoch:
            return
        progress = pb.Progress(
            step=self.step, tokens=self.tokens, versions=self.versions, loss=self.loss,
            step_s=self.step_s, data_position=self.data_position,
            c_steps=[fragment.c_steps for fragment in self.fragments],
            c_tokens=[self.tokens - fragment.tokens_from for fragment in self.fragments],
        )  # fmt: skip
        self.stream.send("progress", progress)

    def answer(self) -> None:
        """Answer what was asked for, as far as the versions that it names are here."""
        for pull in list(self.pulls.values()):
            if self.fragments[pull.fragment].version >= pull.base_version:
                del self.pulls[pull.fragment]
                self.push(pull)
        for request in list(self.requests.values()):
            asked = zip(self.versions, request.versions, strict=True)
            if all(mine >= wanted for mine, wanted in asked):
                del self.requests[request.request]
                self.donate(request.request)

    def push(self, pull: Any) -> None:
        fragment = self.fragments[pull.fragment]
        place = {"round": pull.round, "fragment": pull.fragment, "base_version": pull.base_version}
        if fragment.version != pull.base_version or not fragment.c_steps:
            self.stream.send("push", pb.Push(**place, codec="f32"))  # nothing to contribute
            return
        work = {
            **place, "step": self.step, "c_steps": fragment.c_steps,
            "c_tokens": self.tokens - fragment.tokens_from,
            "tokens_from": fragment.tokens_from, "tokens_to": self.tokens,
        }  # fmt: skip
        delta = fragment.base - flat(self.params, fragment)
        self.stream.send("push", pb.Push(**work, codec="f32"), delta.tobytes())
        self.emit("learner.pushed", epoch=self.epoch, **work)

    def donate(self, request: int) -> None:
        bases = [fragment.base for fragment in self.fragments]  # Θ: its own work stays its own
        velocities = [flat(self.velocity, fragment) for fragment in self.fragments]
        header = pb.Checkpoint(
            request=request, versions=self.versions, step=self.step,
            data_position=self.data_position, donor=self.options.name,
        )  # fmt: skip
        self.stream.send("checkpoint", pb.Checkpoint(request=request))  # it is on its way
        self.stream.send("checkpoint", header, np.concatenate(bases + velocities).tobytes())

    # ------------------------------------------------------------ adopting and leaving

    def adopt(self, header: Any, payload: bytes) -> None:
        fragment = self.fragments[header.fragment]
        if header.version <= fragment.version:
            return
        committed = header.committed_tokens - fragment.committed  # since the last adoption
        discarded = self.tokens - fragment.tokens_from - committed
        self.overwrite(fragment, header.version, decode(payload, header.codec))
        fragment.committed += committed
        fragment.discarded += discarded
        self.emit(
            "learner.adopted", epoch=self.epoch, fragment=header.fragment, version=header.version,
            step=self.step, digest=digest(flat(self.params, fragment)),
            discarded_tokens=discarded, committed_tokens=committed,
        )  # fmt: skip
        self.begin_if_whole()

    def overwrite(self, fragment: Fragment, version: int, values: Floats) -> None:
        unflatten(self.params, fragment, values)
        fragment.base, fragment.version = values, version
        fragment.c_steps, fragment.tokens_from = 0, self.tokens

    def finish(self) -> None:
        """Adopt the last versions and close the books."""
        deadline_s = time.monotonic() + DRAIN_S
        wanted = list(self.stop.versions)
        while self.stream and self.versions != wanted and time.monotonic() < deadline_s:
            self.take(0.5)
        self.sample()
        in_flight = [self.tokens - fragment.tokens_from for fragment in self.fragments]
        for fragment in self.fragments:
            unflatten(self.params, fragment, fragment.base)  # θ is Θ once more
        self.emit(
            "learner.final", step=self.step, tokens=self.tokens,
            versions=by_fragment(self.versions), in_flight=by_fragment(in_flight),
            digests=by_fragment([digest(flat(self.params, f)) for f in self.fragments]),
            committed=by_fragment([fragment.committed for fragment in self.fragments]),
            discarded=by_fragment([fragment.discarded for fragment in self.fragments]),
        )  # fmt: skip

    def leave(self, reason: str) -> None:
        self.emit("learner.left", step=self.step, reason=reason)
        if self.stream is not None:
            self.stream.send("goodbye", pb.Goodbye(reason=reason))
            self.stream.close()


def main() -> None:
    flags = argparse.ArgumentParser()
    for name in ("--syncer", "--name"):
        flags.add_argument(name, required=True)
    flags.add_argument("--token-file", type=Path, required=True)
    flags.add_argument("--data", default="stdlib")
    numbers = {"incarnation": 1, "shard": 0, "shards": 1, "seed": 0, "batch": 8, "sequence": 128}
    for name, usual in numbers.items():
        flags.add_argument(f"--{name}", type=int, default=usual)
    flags.add_argument("--step-time", type=float)
    flags.add_argument("--speed", type=float, default=1.0)
    flags.add_argument("--test-hooks", action="store_true")
    options, _ = flags.parse_known_args()  # it is given more, and refuses none
    learner = Learner(options)

    def leave(*_: object) -> None:
        learner.is_leaving = True

    signal.signal(signal.SIGTERM, leave)
    if options.test_hooks:
        threading.Thread(target=learner.pace.listen, daemon=True).start()
    learner.run()


if __name__ == "__main__":
    main()
