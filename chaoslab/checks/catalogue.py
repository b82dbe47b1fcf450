"""Every check by its name in a plan. To add one: one class, one line here, one run of its kit."""

from collections.abc import Mapping
from typing import Final

from chaoslab.checks.base import Check
from chaoslab.core.on_demand import OnDemand

CHECKS: Final[Mapping[str, type[Check]]] = OnDemand(
    {
        "training_continues": "chaoslab.checks.answer_checks:TrainingContinues",
        "learners_rejoin": "chaoslab.checks.answer_checks:LearnersRejoin",
        "cadence": "chaoslab.checks.cadence:Cadence",
        "participation": "chaoslab.checks.participation:Participation",
        "real_work": "chaoslab.checks.real_work:RealWork",
        "injections": "chaoslab.checks.answer_checks:Injections",
        "continuity": "chaoslab.checks.progress:Continuity",
        "quorum_progress": "chaoslab.checks.quorum:QuorumProgress",
        "rejoin": "chaoslab.checks.rejoin:Rejoin",
        "handover": "chaoslab.checks.handover:Handover",
        "survivors": "chaoslab.checks.survivors:Survivors",
        "goodput": "chaoslab.checks.goodput:Goodput",
        "work_lost": "chaoslab.checks.work_lost:MostLost",
        "contribution_share": "chaoslab.checks.contribution:ContributionShare",
        "ledger": "chaoslab.checks.ledger:Ledger",
        "agreement": "chaoslab.checks.agreement:Agreement",
        "loss_parity": "chaoslab.checks.convergence:LossParity",
        "detection": "chaoslab.checks.detection:Detection",
        "staleness": "chaoslab.checks.staleness:Staleness",
        "retries": "chaoslab.checks.retries:Retries",
        "recovery": "chaoslab.checks.recovery:Recovery",
        "repairs": "chaoslab.checks.repairs:Repairs",
        "bandwidth": "chaoslab.checks.bandwidth:Bandwidth",
        "versions": "chaoslab.checks.versions:Versions",
        "succession": "chaoslab.checks.succession:Succession",
        "numeric_health": "chaoslab.checks.convergence:NumericHealth",
        "resume": "chaoslab.checks.resume:Resume",
        "divergence": "chaoslab.checks.divergence:Divergence",
        "checkpoints": "chaoslab.checks.checkpoints:Checkpoints",
        "cleanup": "chaoslab.checks.cleanup:Cleanup",
    }
)
"""Checks by their name in a plan; the fields of a class are the settings."""
