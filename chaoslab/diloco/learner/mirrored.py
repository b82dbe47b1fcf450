"""Functions of `Inner` on the devices of several hosts: host 0 calls, all hosts carry out.

    host 0: Leader.step(state, batch) ─┬─ order ─► host 1: follow ─ inner.step ─┐
                                       └─► inner.step ──────────────────────────┴─► collectives

A computation on devices of several processes begins once all of them have launched it, and they
must launch all of them in the same order. So each function of the leader, whichever thread calls
it, takes its turn: it is sent to the others, then launched here, and the next one waits until its
results are there: with one CPU device in each process, gloo would mix their messages. States never
leave their hosts; they go by number, and one that host 0 has let go of is dropped by the others
with the next order.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from multiprocessing.connection import Connection

import jax
import numpy as np

from chaoslab.core.events import Json
from chaoslab.core.payloads import LearnerCompiled, LifeFields
from chaoslab.diloco.learner.hosts.channel import Order, receive, send
from chaoslab.diloco.learner.inner_steps import Inner, LearnerState
from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.fragments import FloatArray, Fragment, Layout
from chaoslab.diloco.model.task import Batch

_END = "end"
_END_S = 10.0


class Mirrored:
    """A state that all hosts hold, by its number."""

    __slots__ = ("_dropped", "number", "state")

    def __init__(self, number: int, state: LearnerState, dropped: "deque[int]") -> None:
        """`dropped` is told the number when nothing refers to this object any more."""
        self.number, self.state, self._dropped = number, state, dropped

    def __del__(self) -> None:
        self._dropped.append(self.number)


class Leader:
    """`Inner` for host 0. Thread-safe; a call waits while another one is being launched."""

    def __init__(self, inner: Inner, orders: Sequence[Connection]) -> None:
        self._inner, self._orders = inner, orders
        self._lock = threading.Lock()
        self._numbers = count()
        self._dropped: deque[int] = deque()
        self._launched: object = None
        """Results of the last call, which may still be computed."""
        self._has_left = False
        self.without_hang: Callable[[], AbstractContextManager[None]] = nullcontext
        """Block in which a test hook must not hang the calling thread, which holds a lock."""

    def compiled(self, whose: LifeFields) -> LearnerCompiled:
        """As `Inner.compiled`, of host 0."""
        return self._inner.compiled(whose)

    def compile(self) -> None:
        """As `Inner.compile`."""
        with self._turn("compile"):
            self._inner.compile()

    def cut(self, layout: Layout, *, blend: float = 0.0) -> None:
        """As `Inner.cut`."""
        named = [[spec.name for spec in fragment.tensors] for fragment in layout.fragments]
        with self._turn("cut", fragments=named, blend=blend):
            self._inner.cut(layout, blend=blend)

    def init(self, seed: int) -> Mirrored:
        """As `Inner.init`."""
        with self._turn("init", seed=seed):
            return self._numbered(self._inner.init(seed))

    def at_step(self, mirrored: Mirrored, step: int) -> Mirrored:
        """As `Inner.at_step`."""
        with self._turn("at_step", mirrored, step=step):
            return self._numbered(self._inner.at_step(mirrored.state, step))

    def step(self, mirrored: Mirrored, batch: Batch) -> tuple[Mirrored, jax.Array]:
        """As `Inner.step`; the batch is that of the whole learner."""
        with self._turn("step", mirrored, *jax.tree.leaves(batch)):
            state, loss = self._inner.step(mirrored.state, batch)
            return self._numbered(state), loss

    def rate(self, mirrored: Mirrored) -> float | None:
        """As `Inner.rate`; host 0 has a copy of the count."""
        return self._inner.rate(mirrored.state)

    def delta(self, mirrored: Mirrored, fragment: int) -> jax.Array:
        """As `Inner.delta`."""
        with self._turn("delta", mirrored, fragment=fragment):
            self._launched = difference = self._inner.delta(mirrored.state, fragment)
            return difference

    def adopt(
        self, mirrored: Mirrored, fragment: int, flat: FloatArray, *, has_work: bool = False
    ) -> Mirrored:
        """As `Inner.adopt`."""
        with self._turn("adopt", mirrored, flat, fragment=fragment, has_work=has_work):
            return self._numbered(
                self._inner.adopt(mirrored.state, fragment, flat, has_work=has_work)
            )

    def without_work(self, mirrored: Mirrored) -> Mirrored:
        """As `Inner.without_work`."""
        with self._turn("without_work", mirrored):
            return self._numbered(self._inner.without_work(mirrored.state))

    def adopted(self, mirrored: Mirrored, fragment: int) -> FloatArray:
        """As `Inner.adopted`."""
        with self._turn("adopted", mirrored, fragment=fragment):
            return self._inner.adopted(mirrored.state, fragment)

    def trained(self, mirrored: Mirrored, fragment: int) -> FloatArray:
        """As `Inner.trained`."""
        with self._turn("trained", mirrored, fragment=fragment):
            return self._inner.trained(mirrored.state, fragment)

    def digest(self, mirrored: Mirrored, fragment: int) -> str:
        """As `Inner.digest`."""
        return digest(self.trained(mirrored, fragment))

    def pack(self, mirrored: Mirrored) -> bytes:
        """As `Inner.pack`."""
        with self._turn("pack", mirrored):
            return self._inner.pack(mirrored.state)

    def moments_digest(self, payload: bytes) -> str:
        """As `Inner.moments_digest`."""
        return self._inner.moments_digest(payload)

    def moments_digest_of_state(self, mirrored: Mirrored) -> str:
        """As `Inner.moments_digest_of_state`."""
        with self._turn("moments_digest_of_state", mirrored):
            return self._inner.moments_digest_of_state(mirrored.state)

    def unpack(self, payload: bytes | memoryview) -> Mirrored:
        """As `Inner.unpack`."""
        with self._turn("unpack", None, np.frombuffer(payload, np.uint8)):
            return self._numbered(self._inner.unpack(payload))

    def end(self) -> None:
        """Let the other hosts leave; a call that follows is refused.

        TimeoutError if one that has begun does not end.
        """
        if not self._lock.acquire(timeout=_END_S):
            raise TimeoutError(f"a call on all hosts has not ended within {_END_S:g} s")
        self._has_left = True
        self._lock.release()
        send(Order(do=_END, facts={}), self._orders)

    # ------------------------------------------------------------ inside

    @contextmanager
    def _turn(
        self, do: str, mirrored: Mirrored | None = None, *arrays: np.ndarray, **facts: Json
    ) -> Iterator[None]:
        """Block in which this call, and no other one, is launched on all hosts.

        RuntimeError once the other hosts have left.
        """
        with self.without_hang(), self._lock:
            jax.block_until_ready(self._launched)
            if self._has_left:
                raise RuntimeError(f"{do}: the other hosts of this learner have left")
            dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
            of = None if mirrored is None else mirrored.number
            facts |= {"of": of, "dropped": dropped}
            send(Order(do=do, facts=facts, arrays=arrays), self._orders)
            yield

    def _numbered(self, state: LearnerState) -> Mirrored:
        """In a turn: the state under the next number; other hosts count in the same way."""
        self._launched = state
        return Mirrored(next(self._numbers), state, self._dropped)


class Follower:
    """The functions of `Inner` on a host that takes orders."""

    def __init__(self, inner: Inner, orders: Connection) -> None:
        self._inner, self._orders = inner, orders
        self._numbers = count()
        self._states: dict[int, LearnerState] = {}

    def run(self) -> None:
        """Carry out all orders. EOFError if host 0 ends without saying so."""
        while (order := receive(self._orders)).do != _END:
            for number in order.facts["dropped"]:
                del self._states[number]
            made = jax.block_until_ready(self._carry_out(order))
            if isinstance(made, LearnerState):
                self._states[next(self._numbers)] = made

    def _carry_out(self, order: Order) -> object:
        """Launch one function; the state that it gives, if it does."""
        of = order.facts["of"]
        if order.do == "cut":
            layout = self._layout(order.facts["fragments"])
            self._inner.cut(layout, blend=order.facts["blend"])
            return None
        if of is None:
            return _WITHOUT_STATE[order.do](self._inner, order)
        return _OF_STATE[order.do](self._inner, self._states[of], order)

    def _layout(self, fragments: list[list[str]]) -> Layout:
        specs = {spec.name: spec for spec in self._inner.specs}
        return Layout(
            tuple(
                Fragment(index, tuple(specs[name] for name in names))
                for index, names in enumerate(fragments)
            )
        )


_WITHOUT_STATE: Mapping[str, Callable[[Inner, Order], object]] = {
    "compile": lambda inner, _: inner.compile(),
    "init": lambda inner, order: inner.init(order.facts["seed"]),
    "unpack": lambda inner, order: inner.unpack(order.arrays[0].data.cast("B")),
}
_OF_STATE: Mapping[str, Callable[[Inner, LearnerState, Order], object]] = {
    "at_step": lambda inner, state, order: inner.at_step(state, order.facts["step"]),
    "step": lambda inner, state, order: inner.step(state, inner.batch_of(order.arrays))[0],
    "delta": lambda inner, state, order: inner.delta(state, order.facts["fragment"]),
    "adopt": lambda inner, state, order: inner.adopt(
        state,
        order.facts["fragment"],
        order.arrays[0].view(np.float32),
        has_work=order.facts["has_work"],
    ),
    "without_work": lambda inner, state, _: inner.without_work(state),
    "adopted": lambda inner, state, order: inner.adopted(state, order.facts["fragment"]),
    "trained": lambda inner, state, order: inner.trained(state, order.facts["fragment"]),
    "pack": lambda inner, state, _: inner.pack(state),
    "moments_digest_of_state": lambda inner, state, _: inner.moments_digest_of_state(state),
}
"""Functions on a follower's state; their results but for states are dropped."""
