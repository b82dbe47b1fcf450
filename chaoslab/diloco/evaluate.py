"""Evaluator: given-out loss of each snapshot that a syncer wrote, as one event each.

    snapshots/*.npz ─► names back into the task's pytree ─► task.evaluate ─► evaluation.measured

A node like the others (it prints events and exits), started after training so that it takes no
resources from the learners. It only measures; losses are judged by the harness.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.diloco.model.compilation import enable_compilation_cache, publish_compilations
from chaoslab.diloco.model.data import DataError
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import Params, Task, TaskError, tensors_of
from chaoslab.diloco.node.accelerators import prepare_compiler
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.snapshots import SnapshotError, read_snapshot, snapshot_paths


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate as the command line says; exit code 0 if all snapshots were measured, else 2."""
    prepare_compiler()
    given = _parser().parse_args(arguments)
    if given.compilation_cache is not None:
        enable_compilation_cache(given.compilation_cache)
    try:
        task = load(given.task or given.model, data=given.data, sequence=given.sequence)
        evaluate(task, chosen(snapshot_paths(given.snapshots), given.at_most))
    except (TaskError, DataError, SnapshotError) as error:
        sys.stderr.write(f"chaoslab.diloco.evaluate: {error}\n")
        return 2
    publish_compilations()
    return 0


def evaluate(task: Task, paths: Sequence[Path]) -> None:
    """Print one evaluation.measured for each snapshot, in order."""
    for path in paths:
        snapshot = read_snapshot(path)
        try:
            params = assembled(task, snapshot.tensors)
        except TaskError as error:
            raise SnapshotError(f"{path}: {error}") from error
        say(
            EvaluationMeasured(
                committed_tokens=snapshot.committed_tokens,
                round=snapshot.round,
                loss=task.evaluate(params),
            )
        )


def assembled(task: Task, tensors: Mapping[str, FloatArray]) -> Params:
    """The task's pytree filled with `tensors`. TaskError if names or shapes differ."""
    like = jax.eval_shape(task.init, jax.random.key(0))
    wanted = {name: leaf.shape for name, leaf in tensors_of(like).items()}
    given = {name: array.shape for name, array in tensors.items()}
    if wanted != given:
        wrong = sorted(
            name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name)
        )
        raise TaskError(
            f"tensors of another model: {wrong[0]!r} must be {wanted.get(wrong[0], 'absent')}, got "
            f"{given.get(wrong[0], 'none')} ({len(wrong)} differ); give the model that was trained"
        )
    leaves = [jax.device_put(tensors[name]) for name in wanted]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def chosen(paths: Sequence[Path], at_most: int | None) -> list[Path]:
    """`at_most` of `paths`, evenly spread, the first and the last included."""
    if at_most is None or len(paths) <= at_most:
        return list(paths)
    places = np.linspace(0, len(paths) - 1, at_most).round().astype(int)
    return [paths[place] for place in places]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.evaluate",
        description="Print the given-out loss of every snapshot of a training, one JSON line each.",
        epilog="example: python -m chaoslab.diloco.evaluate --snapshots runs/latest/snapshots",
    )
    option = parser.add_argument
    option("--snapshots", type=Path, required=True, help="folder that the syncer wrote them to")
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--model", default="nano", help="nano, micro, mini or small (default nano)")
    model.add_argument("--task", help="your own model instead, as package.module:make")
    option("--data", default="stdlib", help="stdlib, a file, a folder or a glob (default stdlib)")
    option("--sequence", type=int, help="tokens per sequence (default: the model's own)")
    option(
        "--at-most", type=_two_or_more, help="evaluate only this many, evenly spread (2 or more)"
    )
    option("--compilation-cache", type=Path, help="folder of compiled functions, for a fast start")
    option("--name", default="evaluator", help="name of this node (default evaluator)")
    option("--incarnation", type=int, default=1, help="number of this node's process (default 1)")
    return parser


def _two_or_more(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a number of at least 2, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
