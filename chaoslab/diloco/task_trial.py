"""Check of a task before a run, by executing each member that learners and evaluator rely on.

    python -m chaoslab.diloco.task_trial --task my:make --fragments 6 --shards 4
        ─► the last line on standard output: {"problem": "my:make: evaluate returns …"} or null

`load` only traces; here a loss, its gradient, streams of batches and an evaluation are
executed once. An exception in the user's code becomes one sentence with its file and line.
"""

import argparse
import itertools
import json
import math
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np

from chaoslab.diloco.model.data import DataError
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import Batch, Params, Task, TaskError, check_batch, tensors_of
from chaoslab.diloco.node.accelerators import prepare_compiler

_SKIPPED = 2
"""Position at which a second stream begins, to compare it with the first."""
_NOT_THEIRS = ("<", str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))
"""Prefixes of file names that are generated, of chaoslab or of Python itself."""
_T = TypeVar("_T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the task as the command line says; exit code 0 if it can be trained, otherwise 1."""
    prepare_compiler()
    given = _parser().parse_args(arguments)
    problem = problem_of(
        given.task,
        fragments=given.fragments,
        shards=given.shards,
        hosts=given.hosts,
        data=given.data,
        batch=given.batch,
        sequence=given.sequence,
    )
    sys.stdout.write(f"\n{json.dumps({'problem': problem})}\n")
    return 0 if problem is None else 1


def problem_of(
    spec: str,
    *,
    fragments: int,
    shards: int,
    hosts: int = 1,
    data: str = "stdlib",
    batch: int | None = None,
    sequence: int | None = None,
) -> str | None:
    """Why `shards` learners cannot train the task in `fragments` fragments; None if they can.

    `hosts`: of each learner, with as many devices each as there are here.
    One sentence that says what to change.
    """
    try:
        task = _called(spec, "it", lambda: load(spec, data=data, batch=batch, sequence=sequence))
        _try_parameters(task, spec, fragments, hosts)
        _try_batches(task, spec, shards)
    except (TaskError, DataError) as error:
        return " ".join(str(error).split()) + _where(error.__cause__ or error)
    return None


# ---------------------------------------------------------------- parameters, loss, evaluation


def _try_parameters(task: Task, spec: str, fragments: int, hosts: int) -> None:
    params = _called(spec, "init(key)", lambda: jax.jit(task.init)(jax.random.key(0)))
    tensors = tensors_of(params)
    if len(tensors) < fragments:
        raise TaskError(
            f"{spec}: init returns {len(tensors)} tensors, and the plan cuts the model into "
            f"{fragments} fragments of whole tensors; set training.fragments to at most "
            f"{len(tensors)}, or return more tensors"
        )
    for name, leaf in tensors.items():
        if not np.isfinite(leaf).all():
            raise TaskError(f"{spec}: tensor {name!r} of init is not finite; start from numbers")
    _try_loss(task, spec, params, hosts)
    _try_evaluate(task, spec, params)


def _try_loss(task: Task, spec: str, params: Params, hosts: int) -> None:
    (batch,) = _first(task, spec, count=1)
    devices = hosts * jax.local_device_count()
    if (length := check_batch(batch, spec)) % devices:
        whose = "this machine" if hosts == 1 else "a learner"
        raise TaskError(f"{spec}: batches have {length} rows, and {whose} {devices} devices "
                        "to share them; yield a multiple")  # fmt: skip
    step = jax.jit(jax.value_and_grad(task.loss))
    loss, gradient = _called(
        spec, "the gradient of loss(params, batch)", lambda: step(params, batch)
    )
    if not np.isfinite(loss):
        raise TaskError(f"{spec}: loss of fresh parameters is {float(loss)}; it must be finite")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient)):
        raise TaskError(f"{spec}: the gradient of loss at fresh parameters is not finite")


def _try_evaluate(task: Task, spec: str, params: Params) -> None:
    first, again = (
        _called(spec, "evaluate(params)", lambda: task.evaluate(params)) for _ in range(2)
    )
    if not isinstance(first, float):
        raise TaskError(
            f"{spec}: evaluate returns {type(first).__name__}; return float(…): the mean held-out "
            "loss per token"
        )
    if not math.isfinite(first):
        raise TaskError(f"{spec}: evaluate of fresh parameters is {first}; it must be finite")
    if first != again:
        raise TaskError(
            f"{spec}: evaluate gives {first} and then {again} for the same parameters; measure the "
            "same held-out data each time"
        )


# ---------------------------------------------------------------- batches


def _try_batches(task: Task, spec: str, shards: int) -> None:
    """Check first and last shard: endless, repeatable, correct from any position, disjoint."""
    seen = []
    for shard in sorted({0, shards - 1}):
        first = partial(_first, task, spec, shard=shard, shards=shards)
        stream = first(count=2 * _SKIPPED)
        if not _are_equal(stream, first(count=2 * _SKIPPED)):
            raise TaskError(
                f"{spec}: batches({shard}, {shards}, seed=0, position=0) gives other batches when "
                "it is called again; draw batch k from a generator seeded with [seed, shard, k]"
            )
        if not _are_equal(stream[_SKIPPED:], first(position=_SKIPPED, count=_SKIPPED)):
            raise TaskError(
                f"{spec}: batches(…, position={_SKIPPED}) does not begin with batch {_SKIPPED} of "
                "the stream from 0; a restarted learner would train on other data: draw batch k "
                "from a generator seeded with [seed, shard, k]"
            )
        seen.append(stream)
    if len(seen) > 1 and _are_equal(seen[0], seen[1]):
        raise TaskError(
            f"{spec}: shards 0 and {shards - 1} of {shards} get the same batches; give each shard "
            "data of its own"
        )


def _first(
    task: Task, spec: str, *, count: int, shard: int = 0, shards: int = 1, position: int = 0
) -> list[Batch]:
    """The next `count` batches from a position; TaskError if one is changed afterwards."""

    def draw() -> tuple[list[Batch], list[Batch]]:
        stream = task.batches(shard, shards, seed=0, position=position)
        given, copies = [], []
        for batch in itertools.islice(stream, count):
            given.append(batch)
            copies.append(jax.tree.map(np.array, batch))
        return given, copies

    given, copies = _called(spec, "batches(shard, shards, seed, position)", draw)
    if len(given) < count:
        raise TaskError(f"{spec}: batches ended after {len(given)}; it must yield for ever")
    for batch in given:
        check_batch(batch, spec)
    if len({_shapes(batch) for batch in given}) > 1:
        raise TaskError(
            f"{spec}: batches have different structures, shapes or dtypes; yield all alike, as "
            "each new one is compiled anew"
        )
    if not _are_equal(given, copies):
        raise TaskError(f"{spec}: batches changes an array that it gave before; yield new arrays")
    return copies


def _shapes(batch: Batch) -> str:
    return str(jax.tree.map(lambda array: (array.shape, array.dtype.str), batch))


def _are_equal(some: Sequence[Batch], others: Sequence[Batch]) -> bool:
    mine, theirs = jax.tree.leaves(some), jax.tree.leaves(others)
    if len(mine) != len(theirs):
        return False
    return all(np.array_equal(one, other) for one, other in zip(mine, theirs, strict=True))


# ---------------------------------------------------------------- errors of user code


def _called(spec: str, what: str, call: Callable[[], _T]) -> _T:
    """Result of the user's code; any exception becomes a TaskError of one sentence."""
    try:
        return call()
    except (TaskError, DataError):
        raise
    except (Exception, SystemExit) as error:  # code of the user
        raise TaskError(f"{spec}: {what} raises {_said(error)}") from error


def _said(error: BaseException) -> str:
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def _where(error: BaseException) -> str:
    """Innermost line outside chaoslab and libraries, as " (file:line)"; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [f for f in frames if not f.filename.startswith(_NOT_THEIRS)]
    own = [f for f in files if "site-packages" not in f.filename]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.task_trial",
        description="Check your own task; the last line printed says what is wrong, or null.",
        epilog="example: python -m chaoslab.diloco.task_trial --task next_byte:make --data a.txt",
    )
    option = parser.add_argument
    option("--task", required=True, help="package.module:make")
    option("--data", default="stdlib", help="passed to make(data) (default stdlib)")
    option("--batch", type=int, help="passed to make(batch)")
    option("--sequence", type=int, help="passed to make(sequence)")
    option("--fragments", type=int, default=1, help="fragments of the plan (default 1)")
    option("--shards", type=int, default=1, help="learners that share the data (default 1)")
    option("--hosts", type=int, default=1, help="hosts of each learner (default 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
