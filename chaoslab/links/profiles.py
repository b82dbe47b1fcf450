"""Named network profiles: latency, jitter and rate of typical paths, with the source of the
numbers.

    profile("cross-us") ─► Profile.shapings ─► link.shape(injection, direction, effect) for each

Latency is one way: a round trip takes twice as much. Jitter is uniform and all times are whole
milliseconds, so that every kind of link can apply them. Distances become times by `great circle x
1.6 / 204,000 km/s` (light in fibre; cables are longer than great circles. For the public Internet
Bozkurt et al., "Dissecting Latency in the Internet's Fiber Infrastructure", 2018, find a factor of
about 2.1). Assumptions are marked; measure your own path and write a trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from chaoslab.core.errors import PlanError
from chaoslab.links.effects import Bandwidth, Direction, Latency, Shaping

_GBIT = 1e9 / 8
_MBIT = 1e6 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A path to the syncer. Rates are bytes of the stream per second, for the whole link."""

    name: str
    latency_s: float
    """One-way latency, equal in both directions."""
    jitter_s: float
    up_bytes_per_s: float
    down_bytes_per_s: float
    source: str

    @property
    def shapings(self) -> tuple[Shaping, ...]:
        """Effects that apply the profile to a link."""
        latency = Latency(mean_s=self.latency_s, jitter_s=self.jitter_s)
        up = Bandwidth(rate_bytes_per_s=self.up_bytes_per_s)
        down = Bandwidth(rate_bytes_per_s=self.down_bytes_per_s)
        rates: tuple[Shaping, ...] = ((Direction.UP, up), (Direction.DOWN, down))
        if up == down:
            rates = ((Direction.BOTH, up),)
        return (((Direction.BOTH, latency),) if self.latency_s else ()) + rates


def profile(name: str) -> Profile:
    """The profile of that name; PlanError with similar names otherwise."""
    if name in PROFILES:
        return PROFILES[name]
    near = get_close_matches(name, PROFILES, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise PlanError(f"profile: must be one of {', '.join(PROFILES)}, got {name!r}{hint}")


def _even(name: str, latency_ms: float, jitter_ms: float, rate: float, source: str) -> Profile:
    return Profile(
        name=name,
        latency_s=latency_ms / 1e3,
        jitter_s=jitter_ms / 1e3,
        up_bytes_per_s=rate,
        down_bytes_per_s=rate,
        source=source,
    )


_ALL = (
    _even(
        "lan", 0, 0, 10 * _GBIT,
        "10 Gbit/s Ethernet; its delay of some 0.1 ms is what a proxy on this machine adds anyway",
    ),
    _even(
        "same-region", 1, 0, 5 * _GBIT,
        "two zones of one cloud region: under 2 ms there and back, usually under 1 (J. Hamilton, "
        "AWS re:Invent 2014, SPOT301); the rate is an assumption",
    ),
    _even(
        "cross-us", 30, 2, 5 * _GBIT,
        "Virginia to Oregon, 3,800 km by the formula above; jitter and rate are assumptions",
    ),
    _even(
        "transatlantic", 43, 3, 2 * _GBIT,
        "Virginia to Ireland, 5,500 km by the formula above; jitter and rate are assumptions",
    ),
    _even(
        "2gbps", 20, 1, 2 * _GBIT,
        "the lower end of the 2-5 Gbit/s between the four regions of Decoupled DiLoCo "
        "(arXiv 2604.21428); latency and jitter are assumptions",
    ),
    _even(
        "5gbps", 20, 1, 5 * _GBIT,
        "the upper end of the same; latency and jitter are assumptions",
    ),
    Profile(
        name="home-broadband", latency_s=0.012, jitter_s=0.005, up_bytes_per_s=20 * _MBIT,
        down_bytes_per_s=100 * _MBIT,
        source="100 Mbit/s down and 20 up, the FCC's benchmark for fixed broadband since 2024; "
        "latency and jitter are assumptions for cable",
    ),
)  # fmt: skip

PROFILES: Mapping[str, Profile] = MappingProxyType({one.name: one for one in _ALL})
