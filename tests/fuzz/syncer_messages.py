"""Messages to a whole syncer: three learners that lie about anything, in any order.

    seed ─► Hello, Progress, Push, Checkpoint, Goodbye, ends ─► Syncer, its policy, books and disk
                                                                └─► lines: JSON, of known kinds

No network; the clock is a number, the files are real. At the end an honest learner comes, and
must be welcomed: nothing that was said before may have shut it out.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, cast

import numpy as np

from chaoslab.core.events import Payload, node_line
from chaoslab.diloco.model.codec import encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import TensorSpec, specs_to_json
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer import Syncer
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.work import Job, Then, Work
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Refusals
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Received
from tests.diloco.known import NODE
from tests.memory_folder import in_memory

_T = TypeVar("_T")
SECONDS_MAX: Final = 5.0
_NAMES: Final = ("learner-0", "learner-1", "learner-2")
_SPECS: Final = (
    TensorSpec(name="embed", shape=(4, 3), is_averaged=True),
    TensorSpec(name="head", shape=(5,), is_averaged=False),
)
_SIZES: Final = (12, 5)
_RULES: Final = Settings(
    learners=_NAMES, fragments=2, sync_every=4, overlap=1, compression="f32", norm_rounds=2
)
_ODD: Final = (0, 1, 2, 3, 7, 1 << 31, 1 << 53, (1 << 53) + 1, (1 << 63) - 1)
_ODD_REALS: Final = (0.0, -1.0, 1e-308, 1e308, float("inf"), float("-inf"), float("nan"))
_ODD_SPECS: Final = ("", "[]", "{", "null", '[{"name": 1}]', "[" * 3000, '[{"name":"x"}]',
    '[{"name":"x","shape":[-1],"is_averaged":true}]',
    '[{"name":"x","shape":[99999999999],"is_averaged":true}]')  # fmt: skip


class _Script:
    """In place of a hub: gives what the script says, keeps what is sent."""

    def __init__(self, chance: random.Random) -> None:
        self.refusals = Refusals()
        self.now_s = 0.0
        self.epochs: dict[int, int] = {}
        """By session: under which it was welcomed."""
        self.pulls: dict[int, list[pb.Pull]] = {}
        self.requests: list[int] = []
        self.held: dict[int, dict[int, tuple[int, int]]] = {}
        """By session and fragment: the version that it was given, and at which of its steps."""
        self.steps: Counter[int] = Counter()
        self._is_asked_for_initial = False
        self.is_welcome = False
        """That the honest learner of the end was let in."""
        self._chance = chance
        self._items = self._play()
        self.syncer: Syncer

    # -- what the syncer asks of a hub

    async def next_arrival(self, wait_s: float) -> Arrival[pb.FromLearner] | None:
        """The next of the script, or nothing for a while."""
        self.now_s += min(wait_s, self._chance.choice((0.0, 0.01, 0.25)))
        item = next(self._items, None)
        if item is None:
            self.syncer.end("the script is over")
        return item

    def send(self, session: int, message: pb.ToLearner) -> None:
        body = message.WhichOneof("body")
        if body == "welcome":
            self.epochs[session], self.held[session] = message.epoch, {}
            self._is_asked_for_initial = message.welcome.source == "initial"
        elif body == "pull":
            self.pulls.setdefault(session, []).append(message.pull)
        elif body == "checkpoint_request":
            self.requests.append(message.checkpoint_request.request)

    def send_payload(
        self, session: int, message: pb.ToLearner, payload: object, *, key: object
    ) -> None:
        """A published fragment is adopted at once."""
        if message.WhichOneof("body") == "fragment":
            given = message.fragment
            self.held[session][given.fragment] = given.version, self.steps[session]

    def close(self, session: int, final_message: object = None) -> None:
        self.epochs.pop(session, None)

    def admit(self, session: int, payload_bytes_max: int | None = None) -> None:
        """There is no reader to tell."""

    def pings(self, session: int) -> None:
        """No pings."""

    # -- the script

    def _play(self) -> Iterator[Arrival[pb.FromLearner]]:
        """Learners come, lie and go; at last one comes that is honest."""
        session, streams = 0, {}
        for _ in range(self._chance.randrange(5, 80)):
            draw = self._chance.random()
            if draw < 0.06 or not streams:
                session += 1
                streams[session] = self._chance.choice(_NAMES)
                yield self._message(session, hello=self._hello(streams[session]))
                if self._is_asked_for_initial:
                    self._is_asked_for_initial = False
                    yield from self._initial(session)
            elif draw < 0.08:
                gone = self._chance.choice(list(streams))
                del streams[gone]
                yield Arrival(gone, Closed("fuzz", is_garbled=self._chance.random() < 0.5))
            else:
                yield self._anything(self._chance.choice(list(streams)))
        for open_still in streams:
            yield Arrival(open_still, Closed("fuzz"))
        yield from self._honest(session + 1)

    def _honest(self, session: int) -> Iterator[Arrival[pb.FromLearner]]:
        """A new life of a learner, with the tensors of this training."""
        name, specs = _NAMES[0], self.syncer._syncer_state._specs or _SPECS
        hello = pb.Hello(
            learner=name,
            incarnation=self.syncer.policy.membership.incarnations.get(name, 0) + 1,
            specs_json=specs_to_json(specs),
        )
        yield Arrival(session, Received(pb.FromLearner(hello=hello), None))
        self.is_welcome = session in self.epochs
        yield Arrival(session, Closed("fuzz"))

    def _initial(self, session: int) -> Iterator[Arrival[pb.FromLearner]]:
        for fragment, size in enumerate(_SIZES):
            push = pb.Push(fragment=fragment, base_version=-self._maybe(1))
            yield self._message(session, bytes(4 * size), push=push)

    def _message(
        self, session: int, payload: bytes | None = None, **body: Any
    ) -> Arrival[pb.FromLearner]:
        epoch = self.epochs.get(session, 0)
        if self._chance.random() < 0.05:
            epoch = self._chance.choice((*_ODD, *self.epochs.values()))
        message = pb.FromLearner(epoch=epoch, **body)
        view = None if payload is None else memoryview(payload)
        return Arrival(session, Received(message, view))

    def _anything(self, session: int) -> Arrival[pb.FromLearner]:
        draw = self._chance.random()
        if draw < 0.4:
            return self._message(session, progress=self._progress(session))
        if draw < 0.9:
            push, payload = self._push(session)
            return self._message(session, payload, push=push)
        if draw < 0.95:
            request = self._chance.choice((*self.requests, *_ODD))
            checkpoint = pb.Checkpoint(request=request, versions=self._versions(), donor="x")
            payload = self._chance.choice((None, b"", b"state"))
            return self._message(session, payload, checkpoint=checkpoint)
        if draw < 0.98:
            return self._message(session, hello=self._hello(self._chance.choice(_NAMES)))
        return self._message(session, goodbye=pb.Goodbye(reason="x" * self._chance.randrange(99)))

    def _hello(self, name: str) -> pb.Hello:
        is_honest = self._chance.random() < 0.85
        specs = specs_to_json(_SPECS) if is_honest else self._chance.choice(_ODD_SPECS)
        return pb.Hello(
            learner=name if self._chance.random() < 0.97 else "é" * 50,
            incarnation=self._chance.choice((1, 1, 1, 2, 3, 1 << 20)),
            specs_json=specs,
            versions=() if self._chance.random() < 0.7 else self._versions(),
            step=self._integer(),
            data_position=self._integer(),
            process=self._chance.choice((1, 1, 1, 2)),
        )

    def _since(self, session: int, fragment: int) -> tuple[int, int]:
        """The version of a fragment that a session has, and the steps that it made on it."""
        version, at = self.held.get(session, {}).get(fragment, (-1, 0))
        return version, self.steps[session] - at

    def _progress(self, session: int) -> pb.Progress:
        step = self.steps[session] = self.steps[session] + self._chance.randrange(9)
        mine = [self._since(session, fragment) for fragment in range(self._maybe(2, most=4))]
        is_honest = self._chance.random() < 0.9
        return pb.Progress(
            step=self._maybe(step),
            tokens=self._maybe(10 * step),
            c_steps=[self._maybe(steps) for _, steps in mine],
            c_tokens=[self._maybe(10 * steps) for _, steps in mine],
            versions=[version for version, _ in mine] if is_honest else self._versions(),
            loss=1.0 if is_honest else self._chance.choice(_ODD_REALS),
            step_s=0.01 if is_honest else self._chance.choice(_ODD_REALS),
            data_position=self._maybe(step),
        )

    def _push(self, session: int) -> tuple[pb.Push, bytes | None]:
        asked = self.pulls.get(session)
        pull = self._chance.choice(asked[-3:]) if asked else pb.Pull(base_version=-1)
        fragment = self._maybe(pull.fragment if asked else self._chance.randrange(2), most=9)
        steps, step = self._since(session, fragment)[1], self.steps[session]
        push = pb.Push(
            round=self._maybe(pull.round),
            fragment=fragment,
            base_version=pull.base_version if self._chance.random() < 0.95 else -self._maybe(1),
            step=self._maybe(step),
            c_steps=self._maybe(steps),
            c_tokens=self._maybe(10 * steps),
            tokens_from=self._maybe(10 * (step - steps)),
            tokens_to=self._maybe(10 * step),
            codec=self._chance.choice(
                ("f32", "f32", "f32", "bf16", "int8", "int4", "e3m0", "", "gzip")
            ),
        )
        return push, self._payload(fragment, push)

    def _payload(self, fragment: int, push: pb.Push) -> bytes | None:
        draw = self._chance.random()
        if draw < 0.1:
            return self._chance.choice((None, b"", b"\xff" * 7, bytes(4096)))
        size = _SIZES[fragment] if fragment < len(_SIZES) else 3
        values = np.full(size, self._chance.choice((0.0, 1.0, -1e-3, 1e30)), np.float32)
        if draw < 0.2:
            values[0] = self._chance.choice(_ODD_REALS[-3:])
        is_known = push.codec in {codec.value for codec in Codec}
        if push.base_version < 0 or not is_known or not np.isfinite(values).all():
            return values.tobytes()
        return encode(values, Codec(push.codec))

    def _versions(self) -> list[int]:
        return [
            self._chance.choice((-1, 0, 0, 0, 1, 2, 1 << 40)) for _ in range(self._maybe(2, most=4))
        ]

    def _integer(self) -> int:
        return self._maybe(self._chance.randrange(50))

    def _maybe(self, value: int, *, most: int = 1 << 63) -> int:
        """Mostly this."""
        return value if self._chance.random() < 0.98 else min(most, self._chance.choice(_ODD))


class _Inline(Work):
    """Work that is done at once, on the calling thread."""

    def at_once(self, job: Callable[[], _T], then: Then[_T]) -> None:
        run_now(then(job()))

    def in_order(self, job: Job[_T], then: Then[_T]) -> None:
        run_now(then(run_now(job())))


def one(seed: int) -> None:
    """One life of a syncer, with all that is said to it."""
    script = _Script(random.Random(seed))
    lines = 0

    def emit(said: Payload) -> None:
        nonlocal lines
        lines += 1
        assert len(node_line(said, node_s=0.0)) < 1 << 16

    with in_memory() as folder:
        store = SyncerStore(folder / "state", durable=False)
        syncer_state = SyncerState(_RULES, store, snapshots=None)
        syncer = Syncer(
            cast("Hub", script), syncer_state, _Inline(lambda: None),
            emit=emit, now=lambda: script.now_s, phases=Phases(emit, NODE),
        )  # fmt: skip
        script.syncer = syncer
        run_now(syncer.run("fuzz:0"))
        syncer_state.close()
    assert script.is_welcome, "an honest learner was not let in at the end"
    assert lines < 5000
