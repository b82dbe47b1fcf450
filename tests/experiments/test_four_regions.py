"""The study of four regions: its page says what its results say, and these are what code gives."""

from pathlib import Path

import pytest

from chaoslab.experiments.file import load
from tests.experiments.studies import stated

ROOT = Path(__file__).parent.parent.parent
STUDY = ROOT / "experiments" / "four_regions.yaml"
PAGE = ROOT / "experiments" / "four_regions" / "README.md"
RATES = ("2gbit", "3gbit", "4gbit", "5gbit")


def ends(method: str, rate: str) -> str:
    """The shortest and the longest step with 20 times and all rounds."""
    steps = [
        line["compute"]
        for line in stated("four_regions")
        if (line["method"], line["rate"]) == (method, rate)
        and float(line["speed_up"]) >= 20
        and float(line["rounds"]) >= 0.99
    ]
    return f"{steps[0]} to {steps[-1]}"


@pytest.mark.parametrize("rate", RATES)
def test_the_page_says_where_twenty_times_begins_and_ends(rate: str) -> None:
    row = f"| {rate} | {ends('Decoupled', rate)} | {ends('Decoupled 4 bits', rate)} |"
    assert row in PAGE.read_text("utf-8")


def test_the_page_says_how_long_steps_take() -> None:
    found = {
        (line["method"], line["rate"]): f"{float(line['step']):.3g}"
        for line in stated("four_regions")
        if line["compute"] == "3 s"
    }
    text = " ".join(PAGE.read_text("utf-8").split())
    slow, fast = found["data parallel", "2gbit"], found["data parallel", "5gbit"]
    assert f"a step takes {slow} s at 2 Gbit/s and {fast} s at 5" in text
    assert f"{found['DiLoCo', '2gbit']} and {found['DiLoCo', '5gbit']} s" in text
    (border,) = [
        line["speed_up"] for line in stated("four_regions")
        if (line["method"], line["compute"], line["rate"]) == ("Decoupled", "2.5 s", "5gbit")
    ]  # fmt: skip
    assert f"at 2.5 s and 5 Gbit/s it is {border}" in text


def test_constants_are_those_of_the_study_of_bandwidth() -> None:
    ours, _ = load(STUDY)
    theirs, _ = load(STUDY.with_name("bandwidth.yaml"))
    assert {*ours.constants} == {*ours.base} - {"centres"}
    shared = ours.base.keys() & theirs.base.keys() - {"latency"}
    assert {key: ours.base[key] for key in shared} == {key: theirs.base[key] for key in shared}
    assert "sent_share" in shared
