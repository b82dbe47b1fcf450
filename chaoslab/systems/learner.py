"""Learner of a system of others: chaoslab's inner steps, exchanged as that system does it.

    adapter ─ step ─► Replica (JAX, paced) ─► learner.step
       │
       ├─ the system averages ─► committed(version, contributors) ─► learner.pushed, learner.adopted
       └─ or fails            ─► failed(): the work since the last version is lost
                                   │
                                   └── Reports ═══► recorder: round.merged, member.… , when to stop

An adapter calls the functions of `Learner` from one thread. Parameters cross as one flat float32
array, the tensors in the order of the only fragment. Nothing here knows a system.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from chaoslab.core.events import data_of
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerFenced,
    LearnerJoined,
    LearnerLeft,
    LearnerPushed,
    LearnerStarted,
    LearnerStep,
    LeftBecause,
    LifeFields,
    MembershipFields,
    by_fragment,
)
from chaoslab.diloco.learner.exchange import Adoption
from chaoslab.diloco.learner.options import parser
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.program import inner_of
from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.model.task import Batch
from chaoslab.diloco.node.accelerators import prepare_compiler
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.snapshots import write_snapshot
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.wire.identity import read_token
from chaoslab.systems.controls import Controls, Counts
from chaoslab.systems.one_fragment import Average, OneFragment
from chaoslab.systems.reports import Reports, ask

_SAMPLE_S = 0.25
"""Least seconds between two learner.step events."""


class _Data:
    """Data of a learner, with the next batch at hand: a step that fails is made with it again."""

    def __init__(self, batches_from: Callable[[int], Iterator[Batch]], position: int) -> None:
        self._batches_from = batches_from
        self.read_from(position)

    def read_from(self, position: int) -> None:
        """Continue at a position."""
        self._batches = self._batches_from(position)
        self.advance()

    def advance(self) -> None:
        """The batch was trained on."""
        self.batch = next(self._batches)


class Learner:
    """One learner, as an adapter sees it. JAX is not touched before the first use of parameters."""

    def __init__(self, arguments: Sequence[str], known: Mapping[str, Any] | None = None) -> None:
        """`arguments`: the flags of `python -m chaoslab.diloco.learner`.

        `known`: what another process of this learner was told by the recorder; None: ask it.
        """
        self.arguments = tuple(arguments)
        """Together with `known` they make the same learner in another process."""
        self._options = parser().parse_args(self.arguments)
        self._token = read_token(self._options.token_file)
        self.known = known = known or ask(self._options.syncer, self._token)
        self.name: str = self._options.name
        self.incarnation: int = self._options.incarnation or 1
        self.names: Sequence[str] = known["names"]
        """The roster of the training."""
        self.settings: Mapping[str, Any] = known["settings"]
        """Settings of the plan (`sync_every`, `outer_lr`, …) and of the system."""
        self.coordinator: str = known["coordinator"]
        """HOST:PORT of the system's own service."""
        self.rounds: int = known["version"]
        """Versions that the training had when this process started."""
        self.folder = Path(self._options.directory or self.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.shared = Path(known["shared"])
        """A folder of all learners, empty when the training begins."""
        self._counts = Counts(self.folder / "counts", self.incarnation)
        self._pace = Pace(step_time_s=self._options.step_time, speed=self._options.speed)
        self.controls = Controls(self._pace, self.folder / "relayed.jsonl")
        self._is_leaving = False
        self._epoch = 0
        self._sampled = (0, 0, time.monotonic())  # step, overruns, when
        self._stepped_s = time.monotonic()
        self._waited_s = 0.0

    # ------------------------------------------------------------ training

    @property
    def is_over(self) -> bool:
        """Whether it is to end: at the version at which all stop, or because it was asked to."""
        return self._is_leaving or (
            self._epoch > 0 and self._reports.is_over(self._replica.counters.versions[0])
        )

    def step(self, average: Average | None = None) -> None:
        """One inner step, paced and reported. With SIGUSR1 it hangs here until SIGUSR2.

        `average`, only with data parallelism: the mean over learners of the gradients and, as their
        last value, the loss. What it raises is passed on, and nothing is changed.
        """
        if average is not None:
            self._replica.average_by(average)
        with self.controls.wedge.allowed():
            run_now(self._replica.step(self._data.batch))
        self._stepped_s = time.monotonic()
        self._waited_s += self._replica.waited_s
        self._data.advance()
        if self._epoch and self._reports.epoch not in (0, self._epoch):
            self._join_again()
        if self._epoch and time.monotonic() - self._sampled[2] >= _SAMPLE_S:
            self._sample()
        if snapshot := self._reports.take_snapshot(self._replica.counters.versions[0]):
            self._write(snapshot)

    def parameters(self) -> FloatArray:
        """Trained parameters, float32 [n]."""
        return self._replica.trained()

    def set_parameters(self, values: FloatArray) -> None:
        """Overwrite what is trained; the optimizer's moments are kept."""
        self._replica.overwrite(np.ascontiguousarray(values, np.float32))

    def state(self) -> bytes:
        """Parameters and the optimizer's moments, as `set_state` reads them."""
        return self._replica.packed()

    def set_state(self, state: bytes) -> None:
        """Continue from the state of another learner."""
        self._replica.take_state(state)

    # ------------------------------------------------------------ what the adapter tells

    def joined(self, version: int, donor: str | None = None) -> None:
        """It holds `version`: parameters of a donor, or the initial ones.

        Steps before are no part of the training, unless another process of this incarnation
        made them.
        """
        if self._epoch:
            self._sample()
        steps = version * int(self.settings["sync_every"])
        counters = self._counts.resumed(step=steps, version=version)
        self._replica.begin(counters, steps)
        if self._epoch:  # what ended the training before may have ended its reading, too
            self._data.read_from(counters.data_position)
        self._sampled = (counters.step, self._pace.overruns, time.monotonic())
        self._waited_s = 0.0
        self._epoch = self._reports.join(donor)
        digests = self._replica.digests()
        self._say_joined("donor" if donor else "initial", donor, digests)
        self._reports.adopt(version, digests["0"])

    def committed(self, version: int, contributors: Sequence[str]) -> None:
        """The parameters are those of `version`, which contains the work of `contributors`."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:  # what is printed is reported, too, even by a process that SIGTERM ends at once
            self._commit(version, contributors)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _commit(self, version: int, contributors: Sequence[str]) -> None:
        counters = self._replica.counters
        fragment = counters.fragments[0]
        if version <= fragment.version:
            return  # it was left behind, and begins at a version that the others had long ago
        self._waited_s += time.monotonic() - self._stepped_s
        self._sample()
        values = self._replica.trained()
        mark = digest(values)
        pushed: LearnerPushed | None = None
        if self.name in contributors and counters.c_steps(0) > 0:
            pushed = LearnerPushed(
                **self._membership,
                round=version,
                fragment=0,
                base_version=fragment.version,
                step=counters.step,
                c_steps=counters.c_steps(0),
                c_tokens=counters.c_tokens(0),
                tokens_from=fragment.tokens_from,
                tokens_to=counters.tokens,
            )
            say(pushed)
        adopted = self._replica.adopt(
            Adoption(
                fragment=0,
                version=version,
                committed_tokens=fragment.committed + (counters.c_tokens(0) if pushed else 0),
                digest=mark,
                values=values,
            )
        )
        if adopted is not None:
            say(LearnerAdopted(**self._membership, **adopted))
        self._counts.note(self._replica.counters)
        self._pace.restart()
        self._reports.committed(version, mark, contributors, data_of(pushed) if pushed else {})

    def failed(self) -> None:
        """Note a failed exchange, whose work is lost; training continues from its parameters."""
        self._replica.give_up()
        self._pace.restart()

    # ------------------------------------------------------------ its program

    def run(self, train: Callable[["Learner"], None]) -> int:
        """The program of a learner: `train` until it is over, then leave. The exit code."""
        self.install()
        train(self)
        self.leave()
        return 0

    def install(self) -> None:
        """Install handlers of signals, and listen to hooks, if asked to."""
        signal.signal(signal.SIGTERM, lambda *_: self.ask_to_leave())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a notice; SIGTERM follows
        self.controls.install(hears=self._options.test_hooks)

    def leave(self) -> None:
        """Print the final counts; those of another process, if that was ended with this one.

        It is no member then, and a second time there is nothing to print.
        """
        if not self._epoch:
            if self._is_leaving and self._counts.version >= 0:
                say(LearnerLeft(**self._whose, step=self._counts.step, reason=LeftBecause.ASKED))
            return
        self._sample()
        if not self._is_leaving:
            self._replica.forget_own_work()
            say(self._replica.final(self._whose))
        reason = LeftBecause.ASKED if self._is_leaving else LeftBecause.STOPPED
        say(LearnerLeft(**self._whose, step=self._replica.counters.step, reason=reason))
        self._reports.leave(self._write)
        self._epoch = 0

    # ------------------------------------------------------------ inside

    @cached_property
    def _replica(self) -> OneFragment:
        options = self._options
        prepare_compiler()
        inner = inner_of(options, is_split=self._is_split)
        started = LearnerStarted(
            **self._whose,
            devices=len(inner.devices),
            platform=inner.devices[0].platform,
            parameters=inner.parameters,
        )
        say(started)
        replica = OneFragment(inner, self._pace, seed=options.seed, is_split=self._is_split)
        batches_from = partial(inner.task.batches, options.shard, options.shards, options.seed)
        self._data = _Data(batches_from, self._counts.data_position)
        return replica

    @cached_property
    def _reports(self) -> Reports:
        return Reports(self._options.syncer, self._token, self.incarnation)

    @property
    def _is_split(self) -> bool:
        return str(self.settings.get("data_parallel", "off")) != "off"

    def _join_again(self) -> None:
        """The recorder knows it as a new member: it was started again, or had dropped it."""
        say(LearnerFenced(**self._membership, reason="its membership had ended"))
        self._epoch = self._reports.epoch
        self._say_joined("resumed", None, {})

    def _say_joined(self, source: str, donor: str | None, digests: Mapping[str, str]) -> None:
        counters = self._replica.counters
        joined = LearnerJoined(
            **self._membership,
            source=source,
            donor=donor,
            step=counters.step,
            data_position=counters.data_position,
            versions=by_fragment(counters.versions),
            digests=digests,
        )
        say(joined)

    def ask_to_leave(self) -> None:
        """Leave after the present step."""
        self._is_leaving = True
        self._pace.stop_waiting()

    def _sample(self) -> None:
        counters, now_s = self._replica.counters, time.monotonic()
        step, overruns, since_s = self._sampled
        steps = counters.step - step
        if not steps:
            return
        sample = LearnerStep(
            **self._membership,
            step=counters.step,
            steps=steps,
            step_s=(now_s - since_s) / steps,
            period_s=self._pace.period_s,
            overruns=self._pace.overruns - overruns,
            loss=counters.loss,
            tokens=counters.tokens,
            data_position=counters.data_position,
            waited_s=self._waited_s,
        )
        say(sample)
        self._waited_s = 0.0
        self._sampled = (counters.step, self._pace.overruns, now_s)
        self._counts.note(counters)

    def _write(self, snapshot: Mapping[str, Any]) -> None:
        """The parameters of its version, for the evaluator."""
        try:
            write_snapshot(
                Path(snapshot["folder"]),
                tensors=self._replica.tensors(),
                round=int(snapshot["version"]),
                committed_tokens=int(snapshot["committed_tokens"]),
            )
        except OSError as error:  # the training goes on; another one is asked for
            sys.stderr.write(f"a snapshot cannot be written: {error}\n")

    @property
    def _whose(self) -> LifeFields:
        return {"learner": self.name, "incarnation": self.incarnation}

    @property
    def _membership(self) -> MembershipFields:
        return {**self._whose, "epoch": self._epoch}
