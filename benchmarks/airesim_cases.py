"""Synchronous trainings that AIReSim and the renewal simulation can both express.

Case ─┬─► airesim_params ─► AIReSim: servers, minutes, an amount of training
      ├─► renewal_inputs ─► chaoslab.sim.renewal: chips, seconds, a length of time
      └─► expected_goodput, expected_failures: closed forms
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from chaoslab.sim.renewal.failure_models import FailureModel
from chaoslab.sim.renewal.scenario import Policy, Scenario

TRAINED_DAYS = 16.0
"""Training that a job has to do: its duration without failures."""
DAY_S, MINUTE_S, DAY_MINUTES = 86400.0, 60.0, 1440.0
AT_ONCE = 1e-3
"""A repair that takes no time, in either unit: neither simulator accepts zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job of servers that stops with each failure of one of them; times in minutes."""

    servers: int = 500
    failures_per_day: float = 0.08
    """Of a good server in training; all together fail about as often as those of AIReSim's
    table 1, 4096 servers with 0.01."""
    bad_share: float = 0.0
    bad_factor: float = 6.0
    """How many times as often as good ones bad servers fail, as in table 1."""
    restart: float
    """Pause after each failure, after the repair if the job waits for it."""
    repair: float = 0.0
    """Mean repair (exponential) for which the job waits; 0: the server is back at once."""
    standbys: int = 0
    """Servers that replace failed ones; only with `repair` 0, where they change nothing."""

    @property
    def mean_factor(self) -> float:
        """Failures of all servers, in times of those of as many good ones."""
        return 1 + self.bad_share * (self.bad_factor - 1)

    @property
    def expected_failures(self) -> float:
        """Failures in TRAINED_DAYS of training."""
        return self.servers * self.failures_per_day * self.mean_factor * TRAINED_DAYS

    @property
    def expected_goodput(self) -> float:
        """Of an alternating renewal process: training, then repair and restart."""
        paused_days = self.expected_failures * (self.repair + self.restart) / DAY_MINUTES
        return TRAINED_DAYS / (TRAINED_DAYS + paused_days)


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "restart 10 min, standbys": Case(restart=10.0, standbys=16),
        "restart 20 min, standbys": Case(restart=20.0, standbys=16),
        "restart 30 min, standbys": Case(restart=30.0, standbys=16),
        "restart 20 min, 15 % bad servers": Case(restart=20.0, bad_share=0.15),
        "repair 60 min, restart 3 min, 64 servers": Case(servers=64, restart=3.0, repair=60.0),
        "repair 6 min, restart 3 min": Case(restart=3.0, repair=6.0),
    }
)
TABLE_1 = Case(servers=4096, failures_per_day=0.01, bad_share=0.15, restart=20.0)
"""What the renewal simulation can express of table 1 of AIReSim, which are its defaults."""
_SHORT = {"job_length": TRAINED_DAYS * DAY_MINUTES}
_NO_FIX = _SHORT | {"auto_repair_fail_prob": 1.0, "manual_repair_fail_prob": 1.0}
TABLE_1_STEPS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "all of table 1": _SHORT,
        "and no repair makes a bad server good": _NO_FIX,
        "and repairs take no time": _NO_FIX
        | {"auto_repair_time": AT_ONCE, "prob_auto_to_manual": 0.0},
    }
)
"""Settings of AIReSim that lead from its defaults to what the renewal simulation can express."""


def airesim_params(case: Case) -> dict[str, float]:
    """Settings of AIReSim. Bad servers stay bad, and every repair is the automated one.

    It reloads a checkpoint while the server is repaired, and selects hosts afterwards; so a job
    that waits for repairs restarts in the time of the latter.
    """
    waits = case.repair > 0
    return {
        "random_failure_rate": case.failures_per_day / DAY_MINUTES,
        "systematic_failure_rate_multiplier": case.bad_factor - 1,
        "systematic_failure_fraction": case.bad_share,
        "recovery_time": 0.0 if waits else case.restart,
        "host_selection_time": case.restart if waits else 0.0,
        "job_size": case.servers,
        "job_length": TRAINED_DAYS * DAY_MINUTES,
        "warm_standbys": case.standbys,
        "working_pool_size": case.servers + case.standbys,
        "spare_pool_size": 0,
        "auto_repair_time": case.repair or AT_ONCE,
        "prob_auto_to_manual": 0.0,
        "auto_repair_fail_prob": 1.0,
    }


def renewal_inputs(case: Case) -> tuple[Scenario, FailureModel]:
    """The same job for chaoslab, for as long as it should need."""
    model = FailureModel(
        mtbi_s=DAY_S / case.failures_per_day / case.mean_factor,
        bad_share=case.bad_share, bad_factor=case.bad_factor, source="AIReSim (arXiv 2603.07041)",
    )  # fmt: skip
    rigid = Scenario(
        policy=Policy.RIGID, chips=case.servers, slice_chips=1,
        horizon_s=TRAINED_DAYS * DAY_S / case.expected_goodput, change_s=case.restart * MINUTE_S,
        repair_mean_s=case.repair * MINUTE_S or AT_ONCE, repair_shape=1.0, repair_power=1,
    )  # fmt: skip
    return rigid, model
