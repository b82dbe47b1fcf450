"""Every check by its name in a plan. To add one: one class, one line here, one run of its kit."""

from collections.abc import Mapping
from types import MappingProxyType

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.answer_checks import LearnersRejoin, TrainingContinues
from chaoslab.checks.bandwidth import Bandwidth
from chaoslab.checks.base import Check
from chaoslab.checks.checkpoints import Checkpoints
from chaoslab.checks.cleanup import Cleanup
from chaoslab.checks.contribution import ContributionShare
from chaoslab.checks.convergence import LossParity, NumericHealth
from chaoslab.checks.detection import Detection
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.handover import Handover
from chaoslab.checks.injections import Injections
from chaoslab.checks.join import Join
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.progress import Continuity
from chaoslab.checks.quorum import QuorumProgress
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.repairs import Repairs
from chaoslab.checks.retries import Retries
from chaoslab.checks.staleness import Staleness
from chaoslab.checks.succession import Succession
from chaoslab.checks.survivors import Survivors
from chaoslab.checks.versions import Versions

CHECKS: Mapping[str, type[Check]] = MappingProxyType(
    {
        TrainingContinues.name: TrainingContinues,
        LearnersRejoin.name: LearnersRejoin,
        Injections.name: Injections,
        Continuity.name: Continuity,
        QuorumProgress.name: QuorumProgress,
        Rejoin.name: Rejoin,
        Join.name: Join,
        Handover.name: Handover,
        Survivors.name: Survivors,
        Goodput.name: Goodput,
        ContributionShare.name: ContributionShare,
        Ledger.name: Ledger,
        Agreement.name: Agreement,
        LossParity.name: LossParity,
        Detection.name: Detection,
        Staleness.name: Staleness,
        Retries.name: Retries,
        Recovery.name: Recovery,
        Repairs.name: Repairs,
        Bandwidth.name: Bandwidth,
        Versions.name: Versions,
        Succession.name: Succession,
        NumericHealth.name: NumericHealth,
        Checkpoints.name: Checkpoints,
        Cleanup.name: Cleanup,
    }
)
