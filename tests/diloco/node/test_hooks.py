"""What a node is asked on its standard input: obeyed in order, let go of when it is over."""

import io
import threading
from collections.abc import Iterator

import pytest

from chaoslab.core.events import Json
from chaoslab.diloco.node.hooks import Hooks

PATIENCE_S = 60.0


class Asked:
    """Remembers what it was asked, and can be waited for."""

    def __init__(self) -> None:
        self.all: list[dict[str, Json]] = []
        self._changed = threading.Condition()

    def __call__(self, facts: object) -> None:
        assert isinstance(facts, dict)
        with self._changed:
            self.all.append(facts)
            self._changed.notify_all()

    def until(self, count: int) -> list[dict[str, Json]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all) >= count, PATIENCE_S), self.all
        return self.all


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def hooks(asked: Asked) -> Hooks:
    made = Hooks()
    made.on("slow", asked)
    return made


def test_what_is_asked_is_obeyed_in_order_and_let_go_of_at_the_end(
    hooks: Hooks, asked: Asked
) -> None:
    hooks.listen(io.StringIO('{"do": "slow", "factor": 2}\n{"do": "slow", "factor": 3}\n'))
    assert asked.until(3) == [{"factor": 2}, {"factor": 3}, {}]


def test_a_request_with_a_time_is_let_go_of_when_it_is_over(hooks: Hooks, asked: Asked) -> None:
    hooks.handle_line('{"do": "slow", "factor": 2, "for_s": 0.01}')
    assert asked.until(2) == [{"factor": 2}, {}]


def test_a_later_request_is_not_ended_by_the_time_of_the_one_before(
    hooks: Hooks, asked: Asked
) -> None:
    hooks.handle_line('{"do": "slow", "factor": 2, "for_s": 3600}')
    hooks.handle_line('{"do": "slow", "factor": 3, "for_s": 0.01}')
    assert asked.until(3) == [{"factor": 2}, {"factor": 3}, {}]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1]",
        "{}",
        '{"do": "fly"}',
        '{"do": "slow", "factor": 9, "for_s": "abc"}',
        '{"do": "slow", "factor": 9, "for_s": [1]}',
        '{"do": "slow", "factor": 9, "for_s": NaN}',
        '{"do": "slow", "factor": 9, "for_s": -1}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_what_is_not_understood_is_said_and_passed_over(
    hooks: Hooks, asked: Asked, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks.handle_line(line)
    hooks.handle_line('{"do": "slow", "factor": 2}')
    assert line[:200] in capsys.readouterr().err
    assert asked.all == [{"factor": 2}]


def test_a_time_beyond_all_measure_is_as_long_as_a_thread_can_wait(
    hooks: Hooks, asked: Asked
) -> None:
    hooks.listen(io.StringIO('{"do": "slow", "factor": 2, "for_s": 1e400}\n'))
    assert asked.until(2) == [{"factor": 2}, {}]


def test_a_request_that_is_refused_leaves_the_one_before_to_end_in_its_time(asked: Asked) -> None:
    def obey(facts: object) -> None:
        if facts == {"factor": 0}:
            raise ValueError("no factor")
        asked(facts)

    hooks = Hooks()
    hooks.on("slow", obey)
    hooks.handle_line('{"do": "slow", "factor": 2, "for_s": 0.2}')
    hooks.handle_line('{"do": "slow", "factor": 0}')
    assert asked.until(2) == [{"factor": 2}, {}]


def test_bytes_that_are_no_text_let_go_of_everything(hooks: Hooks, asked: Asked) -> None:
    def lines() -> Iterator[str]:
        yield '{"do": "slow", "factor": 2}'
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    with pytest.raises(UnicodeDecodeError):
        hooks._read_lines(lines())
    assert asked.all == [{"factor": 2}, {}]
