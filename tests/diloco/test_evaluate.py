"""The evaluator prints what each snapshot is worth, and refuses what it cannot measure."""

import jax
import numpy as np
import pytest

from chaoslab.core.events import Kind, read_node_line
from chaoslab.diloco.evaluate import assembled, chosen, main
from chaoslab.diloco.model.gpt import PRESETS, init
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import TaskError
from chaoslab.diloco.node.snapshots import write_snapshot

pytestmark = pytest.mark.usefixtures("strict_jax", "cache_folder")

NANO = {
    name: np.asarray(array)
    for name, array in init(PRESETS["nano"].shape, jax.random.key(0)).items()
}


@pytest.fixture
def snapshots(tmp_path):
    for number in range(4):
        tensors = {name: array * np.float32(1 + 0.1 * number) for name, array in NANO.items()}
        write_snapshot(tmp_path, tensors=tensors, round=number, committed_tokens=1000 * number)
    return tmp_path


def measured(capsys):
    reports = [read_node_line(line, "evaluator") for line in capsys.readouterr().out.splitlines()]
    assert {report.kind for report in reports} == {Kind.EVALUATION_MEASURED}
    return [report.data for report in reports]


@pytest.mark.deep
def test_every_snapshot_is_measured_in_order(snapshots, capsys):
    command = ["--snapshots", str(snapshots), "--name", "evaluator", "--incarnation", "1"]
    assert main(command) == 0
    lines = measured(capsys)
    assert [line["committed_tokens"] for line in lines] == [0, 1000, 2000, 3000]
    assert [line["round"] for line in lines] == [0, 1, 2, 3]
    assert lines[0]["loss"] == load("nano").evaluate(NANO)
    assert len({line["loss"] for line in lines}) == 4
    assert main([*command, "--at-most", "2"]) == 0
    assert measured(capsys) == [lines[0], lines[-1]]


@pytest.mark.parametrize(("count", "at_most"), [(2, 2), (3, 2), (10, 3), (11, 10), (1000, 10)])
def test_the_chosen_are_spread_evenly(count, at_most):
    taken = chosen(list(range(count)), at_most)
    assert len(taken) == at_most
    assert (taken[0], taken[-1]) == (0, count - 1)
    assert max(np.diff(taken)) <= 2 * min(np.diff(taken))


def test_tensors_find_their_places_by_name():
    task = load("nano")
    shuffled = dict(sorted(NANO.items(), key=lambda item: hash(item[0])))
    assert all(
        np.array_equal(array, NANO[name]) for name, array in assembled(task, shuffled).items()
    )


@pytest.mark.parametrize("wrong", [{}, {**NANO, "extra": np.zeros(1, np.float32)}])
def test_tensors_of_another_model_are_refused(wrong):
    with pytest.raises(TaskError, match=r"another model"):
        assembled(load("nano"), wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "micro"], "of another model"),
        (["--model", "nanno"], "model"),
        (["--task", "no_such_module:make"], "cannot import"),
        (["--data", "no/such/folder"], "no file matches"),
    ],
)
def test_what_cannot_be_measured_is_refused(snapshots, capsys, arguments, said):
    assert main(["--snapshots", str(snapshots), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_loss_that_is_not_a_number_is_still_reported(tmp_path, capsys):
    broken = {**NANO, "final.norm": np.full_like(NANO["final.norm"], np.nan)}
    write_snapshot(tmp_path, tensors=broken, round=1, committed_tokens=1)
    assert main(["--snapshots", str(tmp_path), "--at-most", "2"]) == 0
    assert measured(capsys)[0]["loss"] == "NaN"


@pytest.mark.parametrize("text", ["1", "many", "-3"])
def test_at_most_is_two_or_more(snapshots, capsys, text):
    with pytest.raises(SystemExit) as ended:
        main(["--snapshots", str(snapshots), f"--at-most={text}"])
    assert ended.value.code == 2
    assert "--at-most" in capsys.readouterr().err
