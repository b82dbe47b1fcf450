"""A training of the user's own: by which lines it is read."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Script
from chaoslab.trainers.presets import preset
from chaoslab.trainers.reading import Reader


def test_a_preset_stands_in_the_place_of_patterns() -> None:
    script = Script(command="python train.py", preset="nanogpt")
    assert script.patterns == preset("nanogpt").patterns()


def test_without_patterns_and_preset_only_its_lines_for_chaoslab_are_read() -> None:
    reader = Reader(Script(command="python train.py").patterns)
    said = reader.feed(b"step 11 loss 2.5\nchaoslab: step=12 loss=3.25\n")
    assert [one.step for one in said] == [12]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"preset": "nanogtp"}, "preset"),
        ({"preset": "nanogpt", "saved": r"saved (?P<step>\d+)"}, "saved"),
        ({"progress": r"step (\d+)"}, "progress"),
    ],
)
def test_lines_that_cannot_be_read_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        Script(command="python train.py", **settings)
    assert refused.value.key == key
