"""What a plan says of a training by its lines, and what these lack."""

from collections.abc import Mapping, Sequence

import pytest

from chaoslab.core.events import Json
from chaoslab.core.payloads import Mixing
from chaoslab.plan.model import Script
from chaoslab.prepare.script_lines import Speech, recognized, speech_of
from chaoslab.prepare.script_sample import Sample, Start, understand
from chaoslab.trainers.reading import Patterns, Reader

SAVED = "checkpoint written: ckpt_20.pkl"


def lines(ahead: Sequence[int] = (0,), *, prefix: str = "", saved: str = SAVED) -> list[str]:
    """Of workers that print side by side, each as many steps ahead."""
    printed = [
        f"{prefix.format(rank)}[iter {step + more}] train_loss=0.5"
        for step in range(1, 21)
        for rank, more in enumerate(ahead)
    ]
    return [*printed, *filter(None, [saved])]


def reports(printed: Mapping[str, Sequence[str]], workers: int = 4) -> Json:
    return recognized(printed, workers).keys.get("reports", "each")


@pytest.mark.parametrize(
    ("printed", "expected", "doubts"),
    [
        ({"launcher": lines()}, "one", 0),
        ({"launcher": lines((0, 0, 0, 0))}, "one", 1),
        ({"launcher": lines((0, 2, 0, 1))}, "each", 1),
        ({"launcher": lines((0, 2, 0, 1), prefix="[rank{}]: ")}, "each", 0),
        ({"worker-0": lines((0, 2, 0, 1), prefix="[rank{}]: ")}, "each", 0),
        ({"worker-0": lines((0, 2, 0, 1))}, "each", 1),
        ({"worker-0": lines(), "worker-1": []}, "one", 0),
        ({f"worker-{rank}": lines() for rank in range(4)}, "each", 0),
        ({"launcher": lines(saved="")}, "one", 1),
        ({"launcher": lines(saved="saving ckpt_20.pkl")}, "one", 1),
    ],
)
def test_who_reports_is_written_and_what_is_not_known_is_said(
    printed: Mapping[str, Sequence[str]], expected: str, doubts: int
) -> None:
    assert (reports(printed), len(recognized(printed, 4).doubts)) == (expected, doubts)


def test_of_one_worker_alone_nothing_is_mixed() -> None:
    assert recognized({"worker-0": lines()}, 1).doubts == []
    assert reports({"worker-0": lines()}, 1) == "each"


def test_a_sample_of_a_launcher_says_the_same() -> None:
    """Of which one stream alone is read."""
    for ahead in ((0, 0, 0, 0), (0, 2, 0, 1)):
        printed = lines(ahead)
        start = Start(began_s=0.0, lines=[(float(n), line) for n, line in enumerate(printed)])
        sample = Sample(first={"launcher": start}, ran_s=20.0, has_kept=True)
        speech = understand(sample, Script(command="torchrun train.py", workers=4)).speech
        assert [*speech.doubts()] == recognized({"launcher": printed}, 4).doubts
        assert speech.is_one_for_all is (ahead == (0, 0, 0, 0))


def test_how_it_shows_is_known() -> None:
    reader = Reader(Patterns.of(progress=r"iter (?P<step>\d+)"))
    said = reader.feed("".join(f"{line}\n" for line in lines((0, 2, 0, 1))).encode())
    mixed = speech_of({"launcher": said}, 4).mixed
    assert mixed is not None
    assert (mixed.how, mixed.workers) == (Mixing.BACK, Script(workers=4).names)
    assert speech_of({"launcher": said[:1]}, 4) == Speech(is_one_for_all=True)
