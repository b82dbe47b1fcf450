"""Sources of progress: logs of a node, files that are rotated or truncated, values, a page."""

import math
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.trainers.reading import Patterns
from chaoslab.trainers.sources import From, MetricsPage, Source, SourceSettings, source_of
from chaoslab.trainers.values import Names

PATTERNS = Patterns.of(progress=r"step (?P<step>\d+)(?: loss (?P<loss>\S+))?")


def made(written: str | dict[str, str], folder: Path) -> Source:
    return source_of(SourceSettings.of(written, PATTERNS), folder)


def steps(source: Source) -> list[int | None]:
    return [said.step for said in source.read()]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("written", "expected"), [("output", [1, 2]), ("stdout", [1]), ("stderr", [2])]
)
def test_logs_of_a_node_are_read_from_their_beginning(
    tmp_path: Path, written: str, expected: list[int]
) -> None:
    (tmp_path / "stdout.log").write_text("step 1\nst")
    source = made(written, tmp_path)
    (tmp_path / "stderr.log").write_text("step 2\n")
    assert steps(source) == expected
    append(tmp_path / "stdout.log", "ep 3\n")
    append(tmp_path / "stderr.log", "step 3\n")
    assert set(steps(source)) == {3}
    assert steps(source) == []
    source.close()


def test_the_line_that_came_nearest_is_that_of_either_stream(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("iteration 3: loss 2.5\n")
    source = made("output", tmp_path)
    assert source.nearest == ""
    assert steps(source) == []
    assert source.nearest == "iteration 3: loss 2.5"
    source.close()


def test_a_file_is_read_from_where_it_ended_when_the_source_was_made(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    source = made({"file": "train.log"}, tmp_path)
    assert steps(source) == []
    append(log, "step 2\n")
    assert steps(source) == [2]
    log.write_text("step 3\n")  # truncated
    assert steps(source) == [3]
    append(log, "step 4\nstep 5")
    log.rename(tmp_path / "train.log.1")
    log.write_text("step 6\n")  # rotated
    assert steps(source) + steps(source) + steps(source) == [4, 5, 6]
    log.unlink()
    assert steps(source) == []
    log.write_text("step 7\n")
    assert steps(source) == [7]
    source.close()


def test_of_a_glob_the_newest_file_is_read(tmp_path: Path) -> None:
    source = made({"file": "run-*/train.log"}, tmp_path)
    assert steps(source) == []
    for number, step in ((1, 10), (2, 20)):
        log = tmp_path / f"run-{number}" / "train.log"
        log.parent.mkdir()
        log.write_text(f"step {step}\n")
        os.utime(log, ns=(number, number))
        assert steps(source) == [step]
    source.close()


def test_a_long_file_is_read_in_parts(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_text("".join(f"step {step} {'x' * 90}\n" for step in range(11_000)))
    source = made("stdout", tmp_path)
    parts = [steps(source) for _ in range(3)]
    assert [step for part in parts for step in part] == list(range(11_000))
    assert len(parts[0]) < 11_000
    source.close()


# ---------------------------------------------------------------- values by name


@pytest.mark.parametrize(
    ("names", "line", "expected"),
    [
        ({}, '{"step": 12, "loss": 3.25, "lr": 0.1}', (12, 3.25, 0.1)),
        ({}, '{"step": 12.0, "learning/loss": "3.25"}', (12, 3.25, None)),
        ({}, '{"train/global_step": 12, "eval/loss": 9, "train/loss": NaN}', (12, math.nan, None)),
        ({}, '{"step": 12, "eval_loss": 9}', (12, None, None)),
        (
            {"step": "metrics.at", "loss": "metrics.l.0", "lr": "a.b"},
            '{"metrics": {"at": 12, "l.0": 1}, "metrics.l.0": 3.25, "a": {"b": 0.1}}',
            (12, 3.25, 0.1),
        ),
        ({"step": "n"}, '{"step": 12}', None),
        ({"step": "n"}, '{"step": 12, "loss": 3.25}', None),
        ({}, '{"step": true, "loss": "soon"}', None),
        ({}, '{"step": 1.5, "loss": 3.25}', None),
        ({}, "[1]", None),
        ({}, '{"step": 12', None),
    ],
)
def test_json_lines_are_read_by_their_keys(
    tmp_path: Path,
    names: dict[str, str],
    line: str,
    expected: tuple[int | None, float | None, float | None] | None,
) -> None:
    source = made({"json_lines": "metrics.jsonl", **names}, tmp_path)
    for count in (1, 3):
        append(tmp_path / "metrics.jsonl", f"{line}\n\n" * count)
        found = [(one.step, one.loss, one.learning_rate) for one in source.read()]
        assert repr(found) == repr([expected] * count if expected else [])
        assert bool(source.nearest) is (expected is None and count == 3)
    source.close()


@pytest.mark.parametrize(
    ("written", "rows", "named"),
    [
        (
            {"json_lines": "m", "step": "stp", "loss": "a"},
            '{"step": 1}\n' * 3,
            ("stp", "mean step?"),
        ),
        (
            {"json_lines": "m", "step": "at.stp"},
            '{"loss": 1, "epoch": 2, "at": {"step": 3}}\n' * 3,
            ("mean at.step? It has at.step=3, ", "epoch=2"),
        ),
        (
            {"csv": "m", "step": "global_stp"},
            "loss,global_step\n" + "1,2\n" * 3,
            ("global_step=2",),
        ),
        ({"json_lines": "m"}, '{"epoch": 1}\n' * 3, ("epoch=1",)),
        ({"csv": "m"}, "epoch,acc\n" + "1,0.5\n" * 3, ("epoch=1", "acc=0.5")),
        ({"csv": "m"}, "epoch,acc\n" * 9, ()),
    ],
)
def test_values_that_are_no_progress_are_named_from_the_third_row_on(
    tmp_path: Path, written: dict[str, str], rows: str, named: tuple[str, ...]
) -> None:
    source = made(written, tmp_path)
    append(tmp_path / "m", rows)
    assert source.read() == []
    assert bool(source.nearest) is bool(named)
    assert all(word in source.nearest for word in named)
    source.close()


def test_a_loss_between_rows_with_the_named_step_is_told(tmp_path: Path) -> None:
    source = made({"json_lines": "m", "step": "n"}, tmp_path)
    append(tmp_path / "m", '{"loss": 3}\n{"n": 1}\n{"loss": 2}\n{"n": 2}\n')
    assert [(one.step, one.loss) for one in source.read()] == [(1, None), (None, 2.0), (2, None)]
    source.close()


def test_a_name_that_no_row_has_is_known(tmp_path: Path) -> None:
    source = made({"csv": "m", "step": "step", "loss": "los", "lr": "rate"}, tmp_path)
    assert source.absent == ""
    append(tmp_path / "m", "step,loss,lr\n1,2.5,0.1\n")
    assert steps(source) == [1]
    assert "los or rate: did you mean loss?" in source.absent
    append(tmp_path / "m", "step,los,rate\n1,2.5,0.1\n")
    assert steps(source) == [1]
    assert source.absent == ""
    source.close()


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ({"file": "m*.log"}, "m1.log"),
        ({"csv": "m.csv"}, "m.csv"),
        ({"tensorboard": "t"}, "t/a.tfevents"),
        ({"wandb": "t"}, "t/a.wandb"),
    ],
)
def test_a_place_where_nothing_new_is_found_is_named(
    tmp_path: Path, written: dict[str, str], file: str
) -> None:
    absent = made(written, tmp_path)
    assert absent.read() == []
    assert "no file" in absent.lacks
    (tmp_path / file).parent.mkdir(exist_ok=True)
    append(tmp_path / file, "old")
    old = made(written, tmp_path)
    assert old.read() == []
    assert "grown" in old.lacks
    assert (old.nearest, absent.nearest) == ("", "")
    absent.close()
    old.close()


def test_a_json_line_that_is_not_ended_is_waited_for(tmp_path: Path) -> None:
    source = made({"json_lines": "metrics.jsonl"}, tmp_path)
    append(tmp_path / "metrics.jsonl", '{"step": 1}\n{"st')
    assert steps(source) == [1]
    append(tmp_path / "metrics.jsonl", 'ep": 2}\n')
    assert steps(source) == [2]
    source.close()


# ---------------------------------------------------------------- a page of metrics


@pytest.fixture
def page() -> Iterator[list[str]]:
    """Address of a page, and the text that it answers with."""
    shown = ["", ""]

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if shown[1] else 503)
            self.end_headers()
            self.wfile.write(shown[1].encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        shown[0] = f"http://127.0.0.1:{server.server_port}/metrics"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield shown
        server.shutdown()


def test_a_page_is_asked_once_a_second_and_read_when_it_changes(page: list[str]) -> None:
    now_s = [0.0]
    names = Names(step="train_step", loss='loss{rank="1"}')
    source = MetricsPage(page[0], names, now_s=lambda: now_s[0])
    page[1] = (
        "# HELP train_step steps\n# TYPE train_step gauge\n"
        'train_step{rank="0"} 12\ntrain_step{rank="1"} 11\n'
        'loss{rank="0"} 3.5\nloss{rank="1"} NaN 1700000000000\ncpu_seconds 1\n'
    )
    (said,) = source.read()
    assert said.step == 12
    assert repr(said.loss) == "nan"
    for at_s, step, expected in ((0.5, 13, []), (1.0, 12, []), (2.0, 13, [13]), (3.0, 13, [])):
        now_s[0] = at_s
        page[1] = f'train_step {step}\nloss{{rank="1"}} NaN\ncpu_seconds {at_s}\n'
        assert steps(source) == expected


def test_a_page_that_does_not_answer_or_lacks_the_metric_is_named(page: list[str]) -> None:
    now_s = [0.0]
    source = MetricsPage(page[0], Names(step="train_step"), now_s=lambda: now_s[0])
    assert source.read() == []
    assert "503" in source.lacks
    now_s[0], page[1] = 1.0, "trainer_steps 12\nloss 3\n"
    assert source.read() == []
    assert "mean trainer_steps?" in source.lacks
    now_s[0], page[1] = 2.0, "train_step 12\n"
    assert steps(source) == [12]
    assert source.lacks == ""


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("output", From.OUTPUT),
        ({"file": "train.log"}, From.FILE),
        ({"json_lines": "m.jsonl", "step": "a.b"}, From.JSON_LINES),
        ({"tensorboard": "runs", "loss": "loss/train"}, From.TENSORBOARD),
        ({"wandb": "wandb"}, From.WANDB),
        ({"prometheus": "http://127.0.0.1:9100/metrics", "step": "train_step"}, From.PROMETHEUS),
    ],
)
def test_settings_are_those_of_a_plan(
    tmp_path: Path, written: str | dict[str, str], kind: From
) -> None:
    settings = SourceSettings.of(written, PATTERNS)
    assert settings.kind is kind
    source = source_of(settings, tmp_path)
    assert source.nearest == ""
    source.close()


@pytest.mark.parametrize(
    ("written", "key", "named"),
    [
        ("stdin", "", "stdout"),
        ({"json_line": "m.jsonl"}, "json_line", "json_lines"),
        ({"file": "a", "wandb": "b"}, "", "file, wandb"),
        ({"step": "a"}, "", "none"),
        ({"file": ""}, "file", "empty"),
        ({"file": "a", "loss": "b"}, "loss", "patterns"),
        ({"prometheus": "127.0.0.1:9100", "step": "a"}, "prometheus", "http://"),
        ({"prometheus": "http://127.0.0.1:9100"}, "step", "metric"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    written: str | dict[str, str], key: str, named: str
) -> None:
    with pytest.raises(PlanError) as refused:
        SourceSettings.of(written, PATTERNS)
    assert refused.value.key == key
    assert named in str(refused.value)
