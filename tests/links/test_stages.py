"""What stages do to time and to chance, without a socket and without a clock."""

import random
import statistics

import pytest

from chaoslab.links.proxy.stages import (
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    Cut,
    Delay,
    Limit,
    Limiter,
    Pace,
    delays,
)

DRAWS = 40_000


@pytest.mark.parametrize("shape", ["uniform", "normal", "lognormal", "pareto"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_delays_have_the_mean_and_the_spread_that_were_asked(shape: str, share: float) -> None:
    mean_s = 0.05
    jitter_s = share * mean_s
    draw = delays(mean_s, jitter_s, shape, random.Random(1))
    drawn = [draw() for _ in range(DRAWS)]
    spread = jitter_s / 3**0.5 if shape == "uniform" else jitter_s
    assert statistics.fmean(drawn) == pytest.approx(mean_s, rel=0.01)
    assert statistics.stdev(drawn) == pytest.approx(spread, rel=0.15)
    assert min(drawn) >= 0


def test_uniform_delays_stay_within_the_jitter() -> None:
    draw = delays(0.02, 0.015, "uniform", random.Random(1))
    drawn = [draw() for _ in range(DRAWS)]
    assert 0.005 <= min(drawn) < 0.0055
    assert 0.0345 < max(drawn) <= 0.035


def test_a_normal_delay_is_never_negative() -> None:
    draw = delays(0.01, 0.01, "normal", random.Random(1))
    assert min(draw() for _ in range(DRAWS)) == 0.0


def test_no_jitter_is_no_chance() -> None:
    assert {delays(0.01, 0.0, "pareto", random.Random(1))() for _ in range(10)} == {0.01}


def test_a_delay_does_not_depend_on_the_size() -> None:
    stage = Delay(lambda: 0.25, 0.25)
    assert stage.pass_at(1, 10.0) == stage.pass_at(10**6, 10.0) == 10.25
    assert not stage.paces


def test_a_rate_is_kept_over_many_chunks() -> None:
    stage = Pace(Limiter(1000.0))
    assert [stage.pass_at(100, 5.0) for _ in range(3)] == pytest.approx([5.1, 5.2, 5.3])
    assert stage.pass_at(100, 9.0) == pytest.approx(9.1)
    assert stage.paces


def test_those_who_share_a_rate_take_turns() -> None:
    limiter = Limiter(1000.0)
    one, other = Pace(limiter), Pace(limiter)
    ends = [stage.pass_at(100, 0.0) for stage in (one, other, one, other)]
    assert ends == pytest.approx([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("rate", "chunk"), [(100.0, CHUNK_BYTES_MIN), (1e6, 10_000), (1e12, CHUNK_BYTES_MAX)]
)
def test_chunks_are_about_ten_milliseconds_long(rate: float, chunk: int) -> None:
    assert Pace(Limiter(rate)).chunk_bytes == chunk


def test_pieces_keep_their_distance() -> None:
    stage = Cut(500, 0, 0.01, random.Random(1))
    assert [stage.pass_at(500, 1.0) for _ in range(3)] == pytest.approx([1.0, 1.01, 1.02])
    assert stage.chunk_bytes == 500


def test_pieces_vary_as_asked() -> None:
    stage = Cut(500, 100, 0.0, random.Random(1))
    sizes = set()
    for _ in range(2000):
        sizes.add(stage.chunk_bytes)
        stage.pass_at(stage.chunk_bytes, 0.0)
    assert (min(sizes), max(sizes)) == (400, 600)


def test_a_limit_counts_down() -> None:
    stage = Limit(1000)
    stage.pass_at(400, 0.0)
    assert stage.bytes_left == 600
