"""Profiles have names, numbers and sources; traces are read strictly."""

import re
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.links.effects import Bandwidth, Direction, Latency, LinkAbility
from chaoslab.links.profiles import PROFILES, profile
from chaoslab.links.proxied.toxics import whole_numbers
from chaoslab.links.traces import TracePoint, read_trace


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_can_be_carried_by_every_kind_of_links(name: str) -> None:
    found = profile(name)
    assert found.name == name
    assert found.source
    for _, effect in found.shapings:
        assert effect.needs <= {LinkAbility.LATENCY, LinkAbility.BANDWIDTH}
        whole_numbers(effect)


def test_an_unknown_profile_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PlanError, match="transatlantic"):
        profile("transatlantc")


TRACE = """time, rate, latency, jitter
0s, 20mbit, 40ms, 5ms
10s, 2mbit, 180ms, 60ms
1m, 20mbit, 40ms, 0s
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_a_trace_is_a_schedule_of_effects(tmp_path: Path) -> None:
    points = read_trace(write(tmp_path, TRACE))
    assert [point.at_s for point in points] == [0.0, 10.0, 60.0]
    assert points[1].shapings(Direction.UP) == (
        (Direction.UP, Latency(mean_s=0.18, jitter_s=0.06)),
        (Direction.UP, Bandwidth(rate_bytes_per_s=250_000.0)),
    )


def test_a_trace_may_have_a_rate_or_a_latency_alone(tmp_path: Path) -> None:
    (point,) = read_trace(write(tmp_path, "time,rate\n0s,1MB/s\n"))
    assert point == TracePoint(at_s=0.0, rate_bytes_per_s=1e6, latency_s=None)
    assert point.shapings() == ((Direction.BOTH, Bandwidth(rate_bytes_per_s=1e6)),)
    (point,) = read_trace(write(tmp_path, "time,latency\n0s,5ms\n"))
    assert point.shapings() == ((Direction.BOTH, Latency(mean_s=0.005)),)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ""),
        ("time,rate\n", ":1"),
        ("what is this\n", ":1"),
        ("\n0s,1MB/s\n", ":1"),
        ("time,time,rate\n0s,0s,1MB/s\n", ":1"),
        ("time,speed\n0s,1MB/s\n", ":1"),
        ("rate\n1MB/s\n", ":1"),
        ("time,rate,jitter\n0s,1MB/s,1ms\n", ":1"),
        ("time,rate\n0s,1\n", ":2"),
        ("time,rate\n0s,1MB/s\n5s\n", ":3"),
        ("time,rate\n0s,1MB/s,2MB/s\n", ":2"),
        ("time,rate\n0s,1MB/s\n\nwhat is this\n", ":4"),
        ("time,rate\n1s,1MB/s\n", ":2"),
        ("time,rate\n0s,1MB/s\n0s,2MB/s\n", ":3"),
        ("time,latency,jitter\n0s,1ms,2ms\n", ":2"),
    ],
)
def test_a_trace_that_cannot_be_read_says_where(tmp_path: Path, text: str, where: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(PlanError, match=re.escape(f"{file}{where}")):
        read_trace(file)


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nowhere\.csv"):
        read_trace(tmp_path / "nowhere.csv")
