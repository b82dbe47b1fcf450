"""Training under test: algorithm, learners, settings, and where it ends.

    learners: [{count: 4, region: us}, {count: 4, speed: 82%, region: eu}]
                    learner-0 … 3, as fast as can be    learner-4 … 7, older chips

Speeds and regions apply from the first step to the last, also in the twin; they are not faults.
`launch` converts the training into the command lines of the nodes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Literal

from chaoslab.core.errors import PlanError
from chaoslab.core.units import (
    Count,
    Duration,
    Limit,
    Pacing,
    Share,
    StepTime,
    show_duration,
    show_share,
)
from chaoslab.plan.model import systems
from chaoslab.plan.model.optimizers import Inner, Outer
from chaoslab.plan.model.rules import broken, refuse
from chaoslab.plan.model.script import Script
from chaoslab.plan.model.systems import Hivemind, Nvrx, Setting, SystemName, Torchft, Torchrun
from chaoslab.plan.model.training_parts import HOSTS_MOST, Algorithm, Grace, LearnerGroup, Stop

MOST_LEARNERS: Final = 10_000
"""A larger number is taken for a typing error."""

TENSORS: Final[Mapping[str, int]] = {"nano": 20, "micro": 47, "mini": 74, "small": 110}
"""Number of tensors of each built-in model, the largest number of fragments."""

_STEP_TIMES_S: Final = (0.001, 600.0)
"""Shortest and longest step time that is no typing error."""

_LEARNERS: Final = "4, or [{count: 4, speed: 100%}, {count: 4, speed: 82%}]"
_TASK: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

_USUAL_STOP: Final = Stop(rounds=120)

HEADROOM: Final = 1.3
"""Step time of `auto`, in step times of learners that share the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The run under test. Defaults are measured for two shared cores."""

    script: Script | None = None
    """A training of your own, in place of chaoslab's learners and syncer; of the keys beside it
    only `stop` applies: `steps`, `time` and `loss`, and without it the command ends by itself, or
    when chaoslab has seen enough."""
    algorithm: Algorithm = Algorithm.DECOUPLED
    """decoupled: no learner waits for a round. streaming: a round needs all learners, and they
    wait for it. diloco: as streaming, with one fragment and no overlap. data_parallel: learners
    average their gradients in every step, and with one lost all stop, until it is back, and go back
    to the last version, which is made every `sync_every` steps. elastic_data_parallel: those that
    are left store what they have, and train on together."""
    system: SystemName = "chaoslab"
    """System that trains: chaoslab's own learners and syncer, or a system of others on the same
    model, data and paced steps. `chaoslab catalog systems` lists and installs them."""
    torchft: Torchft = field(default_factory=Torchft)
    hivemind: Hivemind = field(default_factory=Hivemind)
    torchrun: Torchrun = field(default_factory=Torchrun)
    nvrx: Nvrx = field(default_factory=Nvrx)
    learners: int | tuple[LearnerGroup, ...] = field(default=4, metadata={"example": _LEARNERS})
    """Number of learners; or groups of different ones: [{count: 4, speed: 100%, region: us},
    {count: 4, speed: 82%, region: eu}]."""
    hosts: int = 1
    """Number of hosts of each learner, as of a TPU slice: a process for each, which compute each
    step together, with parameters and optimizer divided over the devices of all. If one of them
    ends, so does the learner."""
    reserve: int = 0
    """Number of learners that `control.scale_up` can add. The data has shards for them from the
    start, so that no shard changes when they join."""
    step_time: StepTime = Pacing.OFF
    """Time that a step takes at full speed, as if each learner had a chip of its own that it does
    not share. auto: 1.3 times what steps take before the baseline, measured in each run, and longer
    with a reserve, which will share the machine, too. off: as long as the machine takes; for
    machines with a chip for each learner."""
    model: Literal["nano", "micro", "mini", "small"] = "nano"
    """Built-in model, of 0.12M (nano), 1M (micro), 10M (mini) or 124M (small) parameters."""
    task: str | None = None
    """package.module:make, instead of `model`."""
    data: str = "stdlib"
    """stdlib, a file, a folder or a glob pattern, relative to the current directory."""
    fragments: int = 6
    """P: number of fragments that the model is cut into; a round merges one."""
    sync_every: int = 24
    """H: steps of a learner between two rounds of one fragment."""
    overlap: int = 2
    """tau: steps that learners make during a round."""
    quorum: int = 1
    """K: learners that must be ready before a round begins."""
    contribute: Literal["all", "ready"] = "all"
    """Learners that a round takes work from: all that have some, or only those that have made
    `sync_every` - `overlap` steps when it begins."""
    grace: Grace = field(default_factory=Grace)
    merge: Literal["rda", "average"] = "rda"
    """rda: radial-directional averaging. average: weighted average of all tensors."""
    outer: Outer = field(default_factory=Outer)
    inner: Inner = field(default_factory=Inner)
    blend: Share = 0.0
    """Share of its own trained values that a learner keeps when it adopts a version: alpha of
    Streaming DiLoCo (arXiv 2501.18512). 0%: a version overwrites them."""
    compression: Literal["f32", "bf16", "int8", "int4", "e3m0"] = "int8"
    """Encoding of outer gradients on the wire; e3m0 is a four-bit float with a sign and three bits
    of exponent."""
    suspect_after_s: Duration = 2.0
    """A learner is no longer waited for after this long without a step (or twenty of its steps)."""
    drop_after_s: Duration = 6.0
    """A learner is no longer a member after this long without a step, and must join again."""
    start_patience_s: Duration = 90.0
    """Instead of `drop_after` for a learner that has joined and not stepped yet: compiling the step
    of a large model can take minutes."""
    norm_limit: Limit = 8.0
    """An update larger than this many times the usual for its fragment is scaled down to the usual;
    off: never."""
    save_every_s: Duration = 10.0
    """Time between two checkpoints of a learner, on its own disk."""
    evaluate_every: Count | None = None
    """Committed tokens between two snapshots for evaluation; default: a tenth of what `stop`
    allows, or, where that is not known, 10 to 20 snapshots spread evenly over the training."""
    stop: Stop = _USUAL_STOP

    def __post_init__(self) -> None:
        if self.script is not None:
            if self.stop == _USUAL_STOP:
                object.__setattr__(self, "stop", Stop())
            refuse(self._wrong_beside_script())
            return
        count = self.learner_count
        refuse(broken(1 <= count <= MOST_LEARNERS, "learners", count, f"1 to {MOST_LEARNERS:,}"))
        refuse(self._mistakes(count))

    def _mistakes(self, count: int) -> Iterator[PlanError]:
        room = MOST_LEARNERS - count
        yield from broken(0 <= self.reserve <= room, "reserve", self.reserve, f"0 to {room:,}")
        yield from self._single_mistakes()
        yield from self._wrong_hosts()
        yield from self._wrong_system()
        rule = f"1 to {count}, the number of learners"
        yield from broken(1 <= self.quorum <= count, "quorum", self.quorum, rule)
        if self.sync_every < 1 or self.fragments < 1 or self.overlap < 0:
            yield PlanError("`sync_every` and `fragments` must be at least 1, `overlap` at least 0")
        if self.overlap >= self.sync_every and self.sync_every > 1:
            yield PlanError("`overlap` must be smaller than `sync_every`")
        if self.suspect_after_s >= self.drop_after_s > 0:
            yield PlanError("`suspect_after` must be shorter than `drop_after`")

    def _wrong_beside_script(self) -> Iterator[PlanError]:
        """Settings of chaoslab's own learners, and stop rules that count what a script has not."""
        usual = Training()
        for one in fields(self):
            is_usual = getattr(self, one.name) == getattr(usual, one.name)
            if one.name not in ("script", "stop") and not is_usual:
                text = "is of chaoslab's own learners: leave it out beside `script`"
                yield PlanError(text, key=one.name.removesuffix("_s"))
        for name in ("rounds", "tokens"):
            if name in self.stop.limits:
                yield PlanError("must be steps, time or loss beside `script`", key=f"stop.{name}")

    def _wrong_hosts(self) -> Iterator[PlanError]:
        """Numbers of hosts that a learner cannot have."""
        yield from broken(1 <= self.hosts <= HOSTS_MOST, "hosts", self.hosts, f"1 to {HOSTS_MOST}")
        for hosts in sorted(self.host_counts):
            if hosts > 0 and self.inner.batch % hosts:
                yield PlanError(
                    f"a batch of {self.inner.batch} sequences cannot be divided among {hosts} "
                    f"hosts: write a multiple of {hosts} as `inner.batch`, or other `hosts`"
                )

    def _wrong_system(self) -> Iterator[PlanError]:
        """Mistakes: settings that a system does not support."""
        own = {name: getattr(self, name) for name in systems.SYSTEMS}
        yield from systems.wrong_system(self.system, own, algorithm=self.algorithm.value)
        is_plain = self.host_counts == {1} and not self.reserve and self.stop.loss is None
        if self.system in own and not is_plain:
            rule = "learners of one host, without `reserve` and without `stop.loss`"
            yield PlanError(f"{self.system} trains with {rule}", key="system")

    def _single_mistakes(self) -> Iterator[PlanError]:
        """Values that are invalid whatever the other keys are."""
        if not self.stop.limits:
            yield PlanError("needs at least one of rounds, tokens, steps, time, loss", key="stop")
        if self.task is not None and not _TASK.fullmatch(self.task):
            yield PlanError(f"must be package.module:function, got {self.task!r}", key="task")
        if not isinstance(self.step_time, Pacing):
            shortest_s, longest_s = _STEP_TIMES_S
            rule = f"{show_duration(shortest_s)} to {show_duration(longest_s)}, auto or off"
            is_usual = shortest_s <= self.step_time <= longest_s
            yield from broken(is_usual, "step_time", show_duration(self.step_time), rule)
        yield from broken(
            self.suspect_after_s > 0, "suspect_after", f"{self.suspect_after_s:g}s", "above 0s"
        )
        yield from broken(
            self.drop_after_s > 0, "drop_after", f"{self.drop_after_s:g}s", "above 0s"
        )
        patience_s = self.start_patience_s
        yield from broken(patience_s > 0, "start_patience", f"{patience_s:g}s", "above 0s")
        yield from broken(0 <= self.blend < 1, "blend", show_share(self.blend), "0% to below 100%")
        yield from broken(self.norm_limit > 1, "norm_limit", self.norm_limit, "above 1, or off")
        yield from broken(
            self.save_every_s > 0, "save_every", f"{self.save_every_s:g}s", "above 0s"
        )
        if self.evaluate_every is not None:
            yield from broken(
                self.evaluate_every >= 1, "evaluate_every", self.evaluate_every, "at least 1"
            )
        if self.algorithm is Algorithm.DATA_PARALLEL and self.reserve:
            yield PlanError(
                "`algorithm: data_parallel` trains with the learners of the start and no more: "
                "leave out `reserve`, or write `elastic_data_parallel`"
            )
        if self.is_data_parallel and self.blend:
            why = f"with `algorithm: {self.algorithm}` learners hold equal values"
            yield PlanError(f"{why}: leave it out", key="blend")
        if self.is_data_parallel and self.host_counts != {1}:
            yield PlanError(
                f"`algorithm: {self.algorithm}` needs learners of one host each: leave out `hosts`"
            )
        if self.task is None and self.fragment_count > 1:
            tensors = TENSORS[self.model]
            rule = f"1 to {tensors}, the number of tensors of {self.model}"
            yield from broken(self.fragments <= tensors, "fragments", self.fragments, rule)

    @property
    def learner_count(self) -> int:
        """Number of learners that are there from the start."""
        if self.script is not None:
            return self.script.workers
        if isinstance(self.learners, int):
            return self.learners
        return sum(group.count for group in self.learners)

    @property
    def fragment_count(self) -> int:
        """P, or 1 with an algorithm that cuts nothing."""
        is_cut = self.algorithm in (Algorithm.DECOUPLED, Algorithm.STREAMING)
        return self.fragments if is_cut else 1

    @property
    def is_data_parallel(self) -> bool:
        """Whether learners average their gradients in every step."""
        return self.algorithm in (Algorithm.DATA_PARALLEL, Algorithm.ELASTIC_DATA_PARALLEL)

    @property
    def described(self) -> str:
        """The algorithm, with its owner if that is not chaoslab."""
        if self.script is not None:
            return "script"
        is_own = self.system not in systems.SYSTEMS
        return self.algorithm.value if is_own else f"{self.algorithm} by {self.system}"

    @property
    def system_settings(self) -> Mapping[str, Setting]:
        """Settings of its system in the plan; empty for chaoslab's own."""
        return systems.given(getattr(self, self.system)) if self.system in systems.SYSTEMS else {}

    @property
    def is_blocking(self) -> bool:
        """Whether learners wait for rounds, which need all of them: at the start at least."""
        return self.algorithm is not Algorithm.DECOUPLED

    @property
    def waits_for_all(self) -> bool:
        """Whether no round begins while a learner of the start is missing."""
        return self.is_blocking and self.algorithm is not Algorithm.ELASTIC_DATA_PARALLEL

    @property
    def learner_names(self) -> tuple[str, ...]:
        """learner-0, learner-1, …: the learners that are there from the start."""
        if self.script is not None:
            return self.script.names
        return tuple(f"learner-{index}" for index in range(self.learner_count))

    def grouped(self) -> Iterator[tuple[str, LearnerGroup]]:
        """Name and group of every learner of the start; of none if only their number is given."""
        groups = () if isinstance(self.learners, int) else self.learners
        members = (group for group in groups for _ in range(group.count))
        return zip(self.learner_names, members, strict=False)

    @property
    def speeds(self) -> Mapping[str, float]:
        """Speed of every learner that is slower than the machine allows, as a share of one."""
        return {name: group.speed for name, group in self.grouped() if group.speed < 1}

    @property
    def host_counts(self) -> frozenset[int]:
        """Numbers of hosts that learners have, or that those of the reserve would have."""
        groups = () if isinstance(self.learners, int) else self.learners
        return frozenset({self.hosts, *(group.hosts or self.hosts for group in groups)})

    def hosts_of(self, name: str) -> int:
        """Number of hosts of a learner of the roster."""
        groups = (group.hosts for learner, group in self.grouped() if learner == name)
        return next(groups, None) or self.hosts

    @property
    def reserve_names(self) -> tuple[str, ...]:
        """Names of the reserve, after the learners: learner-4, learner-5, … after four."""
        first = len(self.learner_names)
        return tuple(f"learner-{index}" for index in range(first, first + self.reserve))

    @property
    def roster(self) -> tuple[str, ...]:
        """All learners that may join, the reserve included."""
        return self.learner_names + self.reserve_names
