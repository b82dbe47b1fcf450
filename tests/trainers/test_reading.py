"""What is read in a trainer's output: the forms that lines have, and patterns that are refused."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind
from chaoslab.trainers.reading import MAX_CHARACTERS, Patterns, Reader, TrainerLine, nearest_lines

PATTERNS = Patterns.of(
    progress=r"step[ =:]+(?P<step>\d+)(?:.*?loss[ =:]+(?P<loss>[\d.eE+-]+))?",
    saved=r"saved checkpoint.*?step[ =:]+(?P<step>\d+)",
    resumed=r"resum\w+ .*?step[ =:]+(?P<step>\d+)",
)
ANY_LOSS = Patterns.of(progress=r"loss[ =:]+(?P<loss>[\d.eE+-]+)(?:.*lr[ =:]+(?P<lr>\S+))?")
STEP_OF_EPOCH = Patterns.of(
    progress=r"Epoch (?P<epoch>\d+): .* (?P<step>\d+)/(?P<steps_per_epoch>\d+)"
)
ANCHORED = Patterns.of(progress=r"^step (?P<step>\d+)")
BY_COMMA = Patterns.of(progress=r"^(?P<step>\d+),")
TWICE = Patterns.of(progress=r"at (?P<step>\d+)(?: loss=(?P<second_loss>\S+))?")
NAMED_RANK = Patterns.of(progress=r"worker (?P<rank>\d+) step (?P<step>\d+)")


def read(patterns: Patterns, *chunks: bytes) -> list[TrainerLine]:
    reader = Reader(patterns)
    return [said for chunk in chunks for said in reader.feed(chunk)] + reader.end()


def progress(
    patterns: Patterns, *chunks: bytes
) -> list[tuple[int | None, float | None, int | None]]:
    found = read(patterns, *chunks)
    assert {said.what for said in found} <= {LineKind.PROGRESS}
    return [(said.step, said.loss, said.rank) for said in found]


@pytest.mark.parametrize(
    ("patterns", "output", "expected"),
    [
        # ---- where a line ends
        (PATTERNS, b"step 1 loss 2.5\nstep 2 loss 2.25\r\n", [(1, 2.5, None), (2, 2.25, None)]),
        (PATTERNS, b"\rstep: 1|#   |\rstep: 2|##  |\r", [(1, None, None), (2, None, None)]),
        (PATTERNS, b"step 7 loss 1.5", [(7, 1.5, None)]),
        (PATTERNS, b"\r          \r\n\n", []),
        # ---- a bar that is drawn twice for each step
        (
            TWICE,
            b"at 0\rat 1\rat 1 loss=3\rat 2 loss=3\rat 2 loss=2\rat 2 loss=2\rat 3 loss=2\r",
            [(0, None, None), (1, 3.0, None), (2, 2.0, None), (3, None, None)],
        ),
        (TWICE, b"at 5 loss=3\rat 6 loss=2\r", [(5, None, None), (6, None, None)]),
        (TWICE, b"chaoslab: step=5 loss=3\nat 6\n", [(5, 3.0, None), (6, None, None)]),
        # ---- around it
        (PATTERNS, b"\x1b[31mstep:\x1b[39m 3  \x1b[32mloss:\x1b[1m 2.5\n", [(3, 2.5, None)]),
        (PATTERNS, b"\x1b]0;title\x07\x1b[Kstep 3 loss 2.5\x1b[A\n", [(3, 2.5, None)]),
        (PATTERNS, b"[rank1]:[titan] INFO - step: 3  loss: 2.5\n", [(3, 2.5, 1)]),
        (PATTERNS, b"[GPU2] step 3 loss 2.5\n", [(3, 2.5, 2)]),
        (PATTERNS, b"[Rank 0] step=3, loss=2.5\n", [(3, 2.5, 0)]),
        (PATTERNS, b"[default3]:step 3 loss 2.5\n", [(3, 2.5, 3)]),
        (PATTERNS, b"[1,5]<stdout>:step 3 loss 2.5\n", [(3, 2.5, 5)]),
        (PATTERNS, b"[12] step 3 loss 2.5\n", [(3, 2.5, None)]),
        (ANCHORED, b"[rank0]: step 3\nnow step 4\n", [(3, None, 0)]),
        (NAMED_RANK, b"[rank0]: worker 4 step 3\n", [(3, None, 4)]),
        (
            PATTERNS,
            b"[rank1]: step 5 loss 2.5\n[rank0]: step 4 loss 3.5\n[rank1]: step 6 loss 2.0\n",
            [(5, 2.5, 1), (4, 3.5, 0), (6, 2.0, 1)],
        ),
        # ---- numbers
        (PATTERNS, b"step 1,234 loss 2.3E+00\n", [(1234, 2.3, None)]),
        (PATTERNS, b"step 12,345,678, loss 1,024.5\n", [(12345678, 1024.5, None)]),
        (BY_COMMA, b"10,200,3.5\n10,234.5\n", [(10, None, None)] * 2),
        (PATTERNS, b"step 3 loss 2.5.\n", [(3, 2.5, None)]),
        (PATTERNS, b"{'step': '3', 'loss': '2.31'}\n", [(3, 2.31, None)]),
        (PATTERNS, b'{"step": 3, "loss": 2.31}\n', [(3, 2.31, None)]),
        (ANY_LOSS, b"{'loss': '2.31', 'grad_norm': '1.5', 'epoch': '0.4'}\n", [(None, 2.31, None)]),
        (PATTERNS, b"step 3 grad norm 2.5\n", [(3, None, None)]),
        (STEP_OF_EPOCH, b"Epoch 2:  30%|###  | 3/10 [00:01<00:02]\r", [(23, None, None)]),
    ],
)  # fmt: skip
def test_progress_is_read(
    patterns: Patterns, output: bytes, expected: list[tuple[int | None, float | None, int | None]]
) -> None:
    assert progress(patterns, output) == expected


@pytest.mark.parametrize(
    ("text", "is_that"),
    [
        ("nan", math.isnan), ("NaN", math.isnan), ("'nan'", math.isnan), ("-inf", math.isinf),
        ("Infinity", math.isinf), ("inf,", math.isinf),
    ],
)  # fmt: skip
def test_a_loss_that_is_no_number_is_progress(text: str, is_that: object) -> None:
    (said,) = read(ANY_LOSS, f"step 3 loss: {text} lr 0.1\n".encode())
    assert callable(is_that)
    assert said.loss is not None
    assert is_that(said.loss)
    assert said.learning_rate == 0.1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("saved checkpoint for step 50", [(LineKind.SAVED, 50)]),
        (
            "step 50 loss 2.5, saved checkpoint, step 50",
            [(LineKind.PROGRESS, 50), (LineKind.SAVED, 50)],
        ),
        ("resumed from step 50", [(LineKind.RESUMED, 50)]),
        ("saving checkpoint at step 50", [(LineKind.PROGRESS, 50)]),
        ("chaoslab: step=12 loss=3.25 lr=0.001", [(LineKind.PROGRESS, 12)]),
        ("INFO:root:chaoslab: saved step=12", [(LineKind.SAVED, 12)]),
        ("[rank0]: chaoslab: resumed step=12", [(LineKind.RESUMED, 12)]),
        ("chaoslab: saved step=soon", []),
        ("nothing of that", []),
    ],
)
def test_a_line_says_what_it_is_about(line: str, expected: list[tuple[LineKind, int]]) -> None:
    assert [(said.what, said.step) for said in read(PATTERNS, line.encode())] == expected


def test_a_programs_own_line_has_a_loss_of_any_kind_and_a_learning_rate() -> None:
    said, worse = read(
        ANCHORED, b"chaoslab: step=12 loss=3.25 lr=1e-3\nchaoslab: step=13 loss=nan\n"
    )
    assert (said.loss, said.learning_rate) == (3.25, 0.001)
    assert worse.loss is not None
    assert math.isnan(worse.loss)


@settings(max_examples=25)
@given(st.lists(st.integers(min_value=1, max_value=60), max_size=20))
def test_where_output_is_cut_changes_nothing(cuts: list[int]) -> None:
    output = "\x1b[32m[rank0]:\x1b[0m step 1,234 loss 2.5 é\r\nsaved checkpoint step 7\n".encode()
    chunks, at = [], 0
    for cut in cuts:
        chunks.append(output[at : at + cut])
        at += cut
    assert read(PATTERNS, *chunks, output[at:]) == read(PATTERNS, output)


@pytest.mark.parametrize(
    ("bars", "expected"),
    [
        (b"loss 9\nbar 1\nloss 8\nbar 2\n", [(1, 9.0), (2, 8.0)]),
        (b"loss 9\nbar 1\nbar 2\nloss 8\nbar 2\nbar 3\n", [(1, 9.0), (2, 8.0), (3, None)]),
        (b"loss 9\nbar 1\nbar 2\nbar 3\nloss 8\n", [(1, 9.0), (2, None), (3, None)]),
        (b"loss 9\nbar 1\nloss 8\nbar 1\nbar 2\nbar 2\n", [(1, 9.0), (2, 8.0)]),
        (b"bar 1\nbar 1\nloss 9\nbar 1\nbar 2\n", [(1, None), (1, None), (2, None)]),
        (b"[rank0]: loss 9\n[rank0]: bar 1\n[rank1]: bar 1\n", [(1, 9.0), (1, None)]),
    ],
)
def test_a_loss_on_a_line_of_its_own_is_that_of_the_step_below_it(
    bars: bytes, expected: list[tuple[int, float | None]]
) -> None:
    """Which may have been said above it, too."""
    patterns = Patterns.of(progress=r"bar (?P<step>\d+)|loss (?P<loss>\S+)")
    assert [(said.step, said.loss) for said in read(patterns, bars)] == expected


def test_a_step_that_waits_for_its_loss_is_told_before_a_checkpoint() -> None:
    patterns = Patterns.of(progress=r"bar (?P<step>\d+)|loss (?P<loss>\S+)", saved="saved")
    found = read(patterns, b"loss 9\nbar 1\nbar 2\nsaved\n")
    assert [(said.what, said.step) for said in found] == [
        (LineKind.PROGRESS, 1), (LineKind.PROGRESS, 2), (LineKind.SAVED, None)
    ]  # fmt: skip


def test_where_losses_come_without_steps_each_is_told() -> None:
    patterns = Patterns.of(progress=r"bar (?P<step>\d+)|loss (?P<loss>\S+)")
    found = [(said.step, said.loss) for said in read(patterns, b"loss 9\nloss 8\nloss 7\n")]
    assert found == [(None, 9.0), (None, 8.0), (None, 7.0)]


def test_a_line_is_shown_as_it_was_read_up_to_300_characters() -> None:
    (said,) = read(PATTERNS, b"\x1b[1mstep 3 loss 2.5\x1b[0m " + b"x" * 1000 + b"\xff\n")
    assert said.line.startswith("step 3 loss 2.5 xx")
    assert len(said.line) == 300


def test_a_line_without_end_is_cut_and_the_next_one_is_read() -> None:
    reader = Reader(PATTERNS)
    assert not any(reader.feed(b"x" * 10_000) for _ in range(100))
    assert len(reader._rest) <= 4 * MAX_CHARACTERS
    assert [said.step for said in reader.feed(b" step 3 loss 2.5\nstep 4 loss 2.5\n")] == [4]


def test_the_line_that_came_nearest_is_kept_until_one_is_understood() -> None:
    reader = Reader(PATTERNS)
    reader.feed(
        b"loading 4 files\nwarning: the loss of epoch\nbatch 3: 2.5\niter 7 | loss 2.5\nloss 1\n"
    )
    assert reader.nearest == "iter 7 | loss 2.5"
    reader.feed(b"step 1 loss 2.5\nepoch 1 iter 2 batch 3 loss 4\n")
    assert reader.nearest == "iter 7 | loss 2.5"


def test_the_nearest_lines_are_told_best_first_unless_one_is_progress() -> None:
    lines = ["batch 3: 2.5", "loading 4 files", "iter 7 | loss 2.5"]
    assert nearest_lines(lines, PATTERNS) == ["iter 7 | loss 2.5", "batch 3: 2.5"]
    assert nearest_lines([*lines, "step 1 loss 2.5"], PATTERNS) == []


@pytest.mark.parametrize(
    ("key", "pattern", "names"),
    [
        ("progress", r"step (?P<step>\d+", "character 6"),
        ("saved", r"saved *** (?P<step>\d+)", "multiple repeat"),
        ("resumed", r"from (?P<stp>\d+)", "did you mean step?"),
        ("progress", r"step (\d+)", "(?P<step>"),
        ("progress", r"(?P<step>\d+) (\w+\s*)+ loss", r"(\w+\s*)+"),
        ("progress", r"(?P<step>\d+) (?:a|(?:b+c)*)* loss", r"(?:b+c)*"),
        ("saved", r"(?:[)\]]\)x{2,})* saved", r"(?:[)\]]\)x{2,})*"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(key: str, pattern: str, names: str) -> None:
    with pytest.raises(PlanError) as refused:
        Patterns.of(**{"progress": r"step (?P<step>\d+)", key: pattern})
    assert refused.value.key == key
    assert names in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [r"(\w+ ){1,9}loss", r"(?:\w++ )+loss", r"(?>\w+ )+loss", r"(?:[a+*]\+\))+loss", r"(\w+)?loss"],
)
def test_a_repetition_that_ends_soon_is_no_reason_to_refuse(pattern: str) -> None:
    made = Patterns.of(progress=rf"(?P<step>\d+) {pattern}")
    assert isinstance(made.progress, re.Pattern)
