"""Failure models: how chips, racks, zones and power domains fail, and presets with their sources.

    FailureModel ─┬─ rate of interruptions per chip: exponential or Weibull, bad machines
                  ├─ what an interruption is: a failure, a hang, a slow-down
                  ├─ repairs that do not repair (relapses)
                  └─ outages of whole domains, or a recorded trace

A model says how often something fails and for how long, never what a training does about it.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.sim.distributions import Distribution, ExponentiatedWeibull, Lognormal, weibull

HOUR_S: Final = 3600.0
YEAR_S: Final = 365 * 24 * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Chips that fail together: a rack, a power domain, a zone."""

    name: str
    chips: int
    """Chips of one such domain; domains are consecutive ranges of a training's chips."""
    mtbf_s: float
    """Mean time between outages of one domain; they come as a Poisson process of wall time."""
    outage: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureModel:
    """Failures of the chips of a fleet. Chips are interrupted while they train, not in a pause."""

    mtbi_s: float
    """Mean time between interruptions of one chip; relapses and domains come on top."""
    source: str
    """Source of the figures, and which of them are assumed."""
    shape: float = 1.0
    """Weibull shape of that time; 1 is exponential, below 1 a repaired chip soon fails again."""
    repair: Distribution | None = None
    """Time until a failed chip is back; None: what the scenario says."""
    bad_share: float = 0.0
    """Share of chips on bad machines."""
    bad_factor: float = 1.0
    """Failure rate of these, relative to others; the mean over all chips stays `mtbi_s`."""
    relapse_share: float = 0.0
    """Share of repairs that repair nothing."""
    relapse_s: float = HOUR_S
    """Mean training time until such a chip fails again (exponential)."""
    hang_share: float = 0.0
    """Share of interruptions that are hangs."""
    hang_s: float = 0.0
    """Time until a hang is noticed; other failures are noticed within a change."""
    slow_share: float = 0.0
    """Share of interruptions that only slow a learner down."""
    slow_speed: float = 1.0
    """Speed of the learner meanwhile, as a share of its usual one."""
    slow_s: float = HOUR_S
    """Duration of a slow-down."""
    domains: tuple[Domain, ...] = ()
    trace: str = ""
    """Name of a recorded trace in `traces`, which each learner repeats from a place of its own."""

    def __post_init__(self) -> None:
        if self.shape != 1 and self.bad_share > 0:
            raise PlanError(
                "bad machines need exponential times between interruptions", key="bad_share"
            )
        if self.hang_share + self.slow_share > 1:
            raise PlanError("with slow_share it must be at most 1", key="hang_share")


class Fleet(StrEnum):
    """A preset: the failures of a published fleet, or what a study assumed."""

    ONE_PER_YEAR = "one_per_year"
    LLAMA_3 = "llama_3"
    META_RSC_1 = "meta_rsc_1"
    META_RSC_2 = "meta_rsc_2"
    BAD_MACHINES = "bad_machines"
    HANGS = "hangs"
    POWER_DOMAINS = "power_domains"
    SPOT = "spot"
    SPOT_TRACE = "spot_trace"


def per_node_days(failures: float, *, chips: int) -> float:
    """Seconds between failures of a chip, from failures of a node of `chips` in 1,000 days."""
    return 1000 * 24 * HOUR_S * chips / failures


_LLAMA_3_S: Final = 54 * 24 * HOUR_S * 16_384 / 419
"""419 unexpected stops in 54 days on 16,384 GPUs: 50,700 h per GPU."""
_LLAMA_3: Final = "Llama 3 (arXiv 2407.21783, table 5): 419 unexpected stops, 54 days, 16,384 GPUs"
_SECOND_HAND: Final = "read in another text"

MODELS: Final = MappingProxyType({
    Fleet.ONE_PER_YEAR: FailureModel(
        mtbi_s=YEAR_S,
        source="Decoupled DiLoCo (arXiv 2604.21428): one interruption per chip and year, Poisson",
    ),
    Fleet.LLAMA_3: FailureModel(mtbi_s=_LLAMA_3_S, source=_LLAMA_3),
    Fleet.META_RSC_1: FailureModel(
        mtbi_s=per_node_days(6.50, chips=8),
        source=f"Meta, first research cluster (arXiv 2410.21680; {_SECOND_HAND}): 6.50 failures "
        "per 1,000 days of a node of 8 GPUs",
    ),
    Fleet.META_RSC_2: FailureModel(
        mtbi_s=per_node_days(2.34, chips=8),
        source=f"Meta, second research cluster (arXiv 2410.21680; {_SECOND_HAND}): 2.34 failures "
        "per 1,000 days of a node of 8 GPUs",
    ),
    Fleet.BAD_MACHINES: FailureModel(
        mtbi_s=_LLAMA_3_S,
        repair=Lognormal(mean_s=1.65 * 660, sigma=1.0),
        bad_share=3 / 63,
        bad_factor=20.0,
        relapse_share=0.67,
        relapse_s=HOUR_S,
        source="63 B200 nodes (arXiv 2605.09370): three cause more than half of the exclusions, a "
        "retry succeeds in 33 % after a median of 11 min; rate of Llama 3; assumed: lognormal "
        "repair with sigma 1, 1 h to a relapse",
    ),
    Fleet.HANGS: FailureModel(
        mtbi_s=_LLAMA_3_S,
        hang_share=0.099,
        hang_s=600.0,
        slow_share=0.008,
        slow_speed=0.787,
        slow_s=HOUR_S,
        source=f"ByteRobust (arXiv 2509.16293; {_SECOND_HAND}): 9.9 % hangs, 0.8 % slow-downs; "
        f"stragglers (arXiv 2505.05713; {_SECOND_HAND}): the worst tenth loses 21.3 %; rate of "
        "Llama 3; assumed: a hang is noticed after 10 min, a slow-down lasts 1 h",
    ),
    Fleet.POWER_DOMAINS: FailureModel(
        mtbi_s=_LLAMA_3_S,
        domains=(
            Domain(
                name="rack", chips=64, mtbf_s=5 * YEAR_S,
                outage=Lognormal(mean_s=4 * HOUR_S, sigma=1.0),
            ),
            Domain(
                name="power domain", chips=8192, mtbf_s=YEAR_S,
                outage=Lognormal(mean_s=2 * HOUR_S, sigma=1.0),
            ),
            Domain(
                name="zone", chips=131_072, mtbf_s=2 * YEAR_S,
                outage=Lognormal(mean_s=HOUR_S, sigma=1.0),
            ),
        ),
        source="rate of Llama 3; sizes, rates and outages of domains are assumed: no figures are "
        "published",
    ),
    Fleet.SPOT: FailureModel(
        mtbi_s=5 * HOUR_S,
        shape=0.7,
        repair=weibull(mean_s=2 * HOUR_S, shape=0.75),
        source="SkyPilot spot traces: up-times Weibull with shape 0.50 to 0.93 and mean 0.7 to "
        "9.8 h, outages 0.57 to 0.97 and 0.8 to 3.6 h; taken from the middle of these ranges",
    ),
    Fleet.SPOT_TRACE: FailureModel(
        mtbi_s=YEAR_S,
        trace="bamboo_p2_xlarge",
        source="Bamboo (github.com/uclasystem/bamboo, MIT): 88.7 h of 16 p2.xlarge spot instances",
    ),
})  # fmt: skip
"""The presets."""

REPAIR: Final = ExponentiatedWeibull(mean_s=62.0, shape=0.6, power=2)
"""Default repair: heavy-tailed, as in arXiv 2604.21428, whose parameters are not published. The
mean is fitted; the shape is one of those of the SkyPilot outages, 0.57 to 0.97."""
