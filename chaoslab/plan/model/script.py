"""A training that is not chaoslab's own: any command that says where it is.

    training: {script: {command: python train.py --rank {rank}, workers: 4, progress: 'step …'}}
    training: {script: {command: torchrun --nproc-per-node 4 train.py, workers: 4, …}}

Its workers stand in the learners' place; `chaoslab.trainers` reads what they print.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Final, Literal

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.plan.model.faults import LAUNCHER
from chaoslab.plan.model.rules import broken, refuse
from chaoslab.trainers.presets import preset
from chaoslab.trainers.reading import Patterns
from chaoslab.trainers.sources import SourceSettings

MOST_PORT: Final = 65_535
_MOST_PORTS: Final = 100
"""Most ports of one link: a byte names them."""
MOST_WORKERS: Final = 1_000
"""A larger number is taken for a typing error."""
RANK: Final = "{rank}"
WORKERS: Final = "{workers}"
FOLDER: Final = "{folder}"
PYTHON: Final = "{python}"
_PORT: Final = re.compile(r"\{port:([^{}]*)\}")
_UPSTREAM: Final = re.compile(r"(\w[\w.-]*):([0-9]{1,5})", re.ASCII)
_NOTHING: Final = r"(?!)(?P<step>\d+)"
"""Pattern for a script that prints chaoslab's own lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A training of the user's own, unmodified: a command whose output says where it is."""

    command: str = field(default="", metadata={"example": "python train.py --rank {rank}"})
    """The command of a worker, run without a shell in the current directory, or on hosts in
    `workdir` of the inventory. `{rank}` is the number of the worker, from 0, `{workers}` how many
    there are, and `{folder}` a folder of the run, empty at its start and the same for all workers
    of a machine and all their starts: let it keep checkpoints there, so that no run goes on from
    those of another. `{python}` is the interpreter of chaoslab there. Without
    `{rank}`, for several workers, it is the command of a launcher such as torchrun or mpirun, which
    starts all of them: they are found below it by RANK or another such variable of their
    environment, or in the order of their starts. A training that chaoslab attaches to needs
    none."""
    workers: int = 1
    """Number of workers: worker-0, worker-1, …"""
    progress: str = ""
    """Regular expression of a line that reports progress, with groups `step`, `loss` and, if it is
    there, `lr`. Without it lines such as `chaoslab: step=12 loss=3.25` are read alone."""
    saved: str = ""
    """Pattern of a line about a checkpoint that is complete on disk, with a group `step`."""
    resumed: str = ""
    """Pattern of a line about a resume, with the group `step` from which it continues."""
    preset: str = ""
    """A known trainer, whose patterns stand in the place of the three: `hf-trainer`, `lightning`,
    `torchtitan` and others in docs/trainers.md."""
    from_: str | Mapping[str, str] = "output"
    """Where progress is read: `output`, what the workers print; or {file: PATH}, {json_lines:
    PATH}, {csv: PATH}, {tensorboard: FOLDER}, {wandb: FOLDER}, {prometheus: URL}, with `step`,
    `loss` and `lr` as names of keys, columns, tags or metrics. `{rank}` and `{folder}` are filled
    in; one place for all workers needs `reports: one`."""
    ports: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{store: 127.0.0.1:9000}"}
    )
    """Services that the workers connect to, by a name of your choice: host:port of each. In
    `command`, `{port:store}` becomes a port of 127.0.0.1 that leads to the service of this name, by
    a link of the worker's own; all its ports share that link. Faults of the network act on it. The
    workers of a launcher share its link. A service may begin to listen later; until then
    connections are reset. `worker-0:29500` is a port of this machine that worker-0 opens itself:
    for that worker `{port:…}` is 29500."""
    checkpoints: str = ""
    """What of `{folder}` is a checkpoint: a pattern of the file that is written last, as in
    `checkpoint-*/trainer_state.json`, `rank{rank}-*.pt` or `**/*.ckpt`. Its step is the
    number of its path that is nearest to the worker's, from a tenth to twice of it; without one,
    that at which it was written. It is saved once that file is there, beside what `saved` reads,
    and faults damage it: the file, or the last folder of its path that has a `*`. Without it, and
    without a preset that has one, faults damage what is newest in `{folder}`."""
    folder: str = field(default="", metadata={"example": "/checkpoints"})
    """Where a training that chaoslab attaches to keeps its checkpoints: a folder as its containers
    or pods see it, with `{rank}` for the worker's number. Faults of the storage act on it, and what
    they damage is put back at the end. A training that chaoslab starts keeps them in `{folder}`."""
    reports: Literal["each", "one"] = "each"
    """Who prints progress: each worker its own, or one of them for all. With `one`, a worker takes
    part as long as its process runs and the training goes on: nothing else is known of it. Workers
    of a launcher print to one stream: a line counts for the worker whose rank stands before it, as
    in `[rank1]:`, and without a rank for all that print none with theirs. Where several print such
    lines, nothing tells them apart, and what rests on that is UNKNOWN."""
    restarts: Literal["chaoslab", "itself", "supervisor"] = "chaoslab"
    """Who starts a worker again that was killed. Of a launcher: chaoslab the whole command, once it
    has ended, or was ended because it did nothing about that for 5 s; itself: the launcher its
    workers, and a heal waits for that. Of a training that chaoslab attaches to also supervisor:
    somebody else whatever has ended, such as systemd."""
    max_pause_s: Duration = 60.0
    """Longest time without progress that is no end of training, on top of the time for which
    faults held all workers: a start, with its imports and its checkpoint, may take it."""

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        if isinstance(self.from_, str) and self.from_ != "output":
            text = f"must be output, or a place as in {{file: train.log}}, got {self.from_!r}"
            yield PlanError(text, key="from")
            return
        rule = f"1 to {MOST_WORKERS}"
        yield from broken(1 <= self.workers <= MOST_WORKERS, "workers", self.workers, rule)
        is_within = not self.checkpoints.startswith("/") and ".." not in self.checkpoints
        is_pattern = not self.checkpoints or (is_within and "*" in self.checkpoints)
        text = f"a path within {FOLDER} with *, as in checkpoint-*/trainer_state.json"
        yield from broken(is_pattern, "checkpoints", self.checkpoints, text)
        is_place = not self.folder or self.folder.startswith("/")
        text = "an absolute path in the container or pod, as in /checkpoints"
        yield from broken(is_place, "folder", self.folder, text)
        pause_s = self.max_pause_s
        yield from broken(pause_s > 0, "max_pause", f"{pause_s:g}s", "above 0s")
        try:
            is_of_one = self.source(0, "").place == self.source(1, "").place
        except PlanError as error:
            yield error
        else:
            if is_of_one and self.reads_files and self.workers > 1 and self.reports == "each":
                text = f"is one place for all workers: write {RANK} in it, or `reports: one`"
                yield PlanError(text, key="from")
        yield from self._wrong_ports()
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            yield PlanError(f"is no command line: {error}", key="command")
            return
        if words and self.restarts == "itself" and not self.is_launched:
            yield PlanError(
                f"itself is for a launcher of several workers, and this command, with {RANK} or "
                "one worker, is that of a worker: leave `restarts` out",
                key="restarts",
            )

    def _wrong_ports(self) -> Iterator[PlanError]:
        number, rule = len(self.ports), f"at most {_MOST_PORTS} names"
        yield from broken(number <= _MOST_PORTS, "ports", number, rule)
        used = dict.fromkeys(_PORT.findall(self.command))
        for name in sorted(used.keys() - self.ports.keys()):
            meant = get_close_matches(name, self.ports, n=1)
            hint = f"did you mean {{port:{meant[0]}}}?" if meant else "name it under `ports`"
            yield PlanError(f"{{port:{name}}} is not in `ports`: {hint}", key="command")
        for name, upstream in self.ports.items():
            found = _UPSTREAM.fullmatch(upstream)
            is_address = found is not None and 1 <= int(found[2]) <= MOST_PORT
            rule = f"host:port, with a port of 1 to {MOST_PORT}, as in 127.0.0.1:9000"
            yield from broken(is_address, f"ports.{name}", upstream, rule)
            if found is not None and self.is_launched and found[1] in self.names:
                text = "is that of a worker, and those of a launcher have one command: leave it out"
                yield PlanError(text, key=f"ports.{name}")
            if self.command and name not in used:
                text = f"is not used: write {{port:{name}}} in `command` in place of the port"
                yield PlanError(text, key=f"ports.{name}")

    @property
    def upstreams(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of each service, by its name; those of a worker are on this machine."""
        split = {name: upstream.rpartition(":") for name, upstream in self.ports.items()}
        return {
            name: ("127.0.0.1" if host in self.names else host, int(port))
            for name, (host, _, port) in split.items()
        }

    @property
    def patterns(self) -> Patterns:
        """Patterns of the script; PlanError with the key of one that cannot be used."""
        if self.preset:
            known = preset(self.preset)
            for key in ("progress", "saved", "resumed"):
                if getattr(self, key):
                    text = f"the preset {self.preset} has it: write patterns or a preset, not both"
                    raise PlanError(text, key=key)
            return known.patterns()
        return Patterns.of(
            progress=self.progress or _NOTHING,
            saved=self.saved or None,
            resumed=self.resumed or None,
        )

    @property
    def reads_files(self) -> bool:
        """Whether progress is read elsewhere than in the workers' output."""
        return not isinstance(self.from_, str)

    def source(self, rank: int, folder: str) -> SourceSettings:
        """Source of a worker's progress; PlanError with the key that is wrong."""
        patterns = self.patterns
        try:
            if isinstance(self.from_, str):
                return SourceSettings.of(self.from_, patterns)
            filled = {key: self._filled(one, rank, folder) for key, one in self.from_.items()}
            return SourceSettings.of(filled, patterns)
        except PlanError as error:
            key = ".".join(filter(None, ("from", error.key)))
            raise PlanError(error.message, key=key) from error

    def sources(self, folder: str) -> Mapping[str, SourceSettings]:
        """Source of each worker that has its own, by name; empty if it is in their output."""
        ranks = self.apart(lambda rank: self.source(rank, "").place) if self.reads_files else ()
        return {self.names[rank]: self.source(rank, folder) for rank in ranks}

    def apart(self, place: Callable[[int], str]) -> Sequence[int]:
        """Ranks of the workers with a place of their own: all, or if it is one place the first."""
        ranks = range(self.workers)
        return ranks if len(set(map(place, ranks))) > 1 else ranks[:1]

    def checkpoints_of(self, rank: int) -> str:
        """The pattern of a worker's checkpoints, from `{folder}` on; empty if nobody knows."""
        usual = preset(self.preset).checkpoints if self.preset else ""
        return self._filled(self.checkpoints or usual, rank, "")

    @property
    def saves(self) -> Mapping[str, str]:
        """That pattern of each worker that has its own, by name; empty if nobody knows."""
        ranks = self.apart(self.checkpoints_of) if self.checkpoints_of(0) else ()
        return {self.names[rank]: self.checkpoints_of(rank) for rank in ranks}

    def damageable(self, rank: int) -> str:
        """The same of what is one of them as a whole: a file, or a folder."""
        parts = PurePosixPath(self.checkpoints_of(rank) or "*").parts
        last = max(number for number, part in enumerate(parts) if "*" in part)
        return str(PurePosixPath(*parts[: last + 1]))

    def folder_of(self, rank: int) -> str:
        """Folder of a worker's checkpoints in its container or pod; empty if none was named."""
        return self._filled(self.folder, rank, "")

    @property
    def is_launched(self) -> bool:
        """Whether the command is that of a launcher, which starts all workers."""
        return self.workers > 1 and RANK not in self.command

    @property
    def names(self) -> tuple[str, ...]:
        """worker-0, worker-1, …"""
        return tuple(f"worker-{rank}" for rank in range(self.workers))

    @property
    def started(self) -> tuple[str, ...]:
        """Names of what is started by the command: each worker, or the launcher of all."""
        return (LAUNCHER,) if self.is_launched else self.names

    def words(
        self,
        rank: int,
        folder: str,
        ports: Mapping[str, int] | None = None,
        python: str = sys.executable,
    ) -> tuple[str, ...]:
        """The command line of a worker, whose run keeps its files in `folder`. `ports`: where its
        links are, by name; without them, and of a port that it opens, it is the services' own.
        `python`: the interpreter of chaoslab there.
        """
        links = ports or {}
        opened = {name for name, to in self.ports.items() if to.startswith(f"worker-{rank}:")}
        known = {
            name: port if name in opened else links.get(name, port)
            for name, (_, port) in self.upstreams.items()
        }
        command = _PORT.sub(lambda found: str(known[found[1]]), self.command)
        return tuple(self._filled(word, rank, folder, python) for word in shlex.split(command))

    def _filled(self, text: str, rank: int, folder: str, python: str = sys.executable) -> str:
        known = {RANK: str(rank), WORKERS: str(self.workers), FOLDER: folder, PYTHON: python}
        for name, value in known.items():
            text = text.replace(name, value)
        return text
