"""Reason codes of evidence: why a fault is proved, weak or failed on a target.

Each code belongs to one status. Programs decide by the code; the text of a piece of evidence is for
people and may change.
"""

from chaoslab.core.payloads import IdlePeriod, Status
from chaoslab.faults.evidence.base import EvidenceCode


class Code(EvidenceCode):
    """Code of a piece of evidence, with its status."""

    AS_ASKED = "as_asked", Status.PROVED
    """The effect was measured in the strength and for the time that was asked."""

    TOO_SHORT = "too_short", Status.WEAK
    """It lasted for less than 80% of the requested time."""
    NOT_THROUGHOUT = "not_throughout", Status.WEAK
    """It was not seen throughout the time between injection and heal."""
    OUT_OF_TOLERANCE = "out_of_tolerance", Status.WEAK
    """The measured strength differs from the one asked by more than the tolerance."""
    FEWER_TIMES = "fewer_times", Status.WEAK
    """It happened less often than requested."""
    WRONG_ORDER = "wrong_order", Status.WEAK
    """Its stages were not measured in the requested order."""
    WRONG_MOMENT = "wrong_moment", Status.WEAK
    """A half-open connection was noticed at once where it should not be, or the reverse."""
    NOT_TOGETHER = "not_together", Status.WEAK
    """Nodes that were to return at the same time did not."""
    DOUBTFUL_CAUSE = "doubtful_cause", Status.WEAK
    """The effect was measured, but what the fault uses to cause it hardly acted."""
    WORKED_MEANWHILE = "worked_meanwhile", Status.WEAK
    """The target reported, merged or connected during a fault that should prevent it."""
    NOT_ORDERLY = "not_orderly", Status.WEAK
    """The node left, but not by itself with a goodbye."""
    NO_NOTICE = "no_notice", Status.WEAK
    """The node ended without having reported the preemption notice."""
    TOO_LATE = "too_late", Status.WEAK
    """The node ended only after the grace period."""
    ENDED_AGAIN = "ended_again", Status.WEAK
    """A node that was to join was started and exited before the heal."""
    NO_REPORT = "no_report", Status.WEAK
    """A node that was to join was started and never reported itself."""
    NOT_USED = "not_used", Status.WEAK
    """What the fault damaged was not read or written before it ended, or the link of a script was
    given nothing to carry."""
    NOT_TIMED = "not_timed", Status.WEAK
    """No payload was large enough to measure a rate."""
    NOT_COUNTED = "not_counted", Status.WEAK
    """Nothing counts the packets that the fault affects."""
    NEVER_FASTER = "never_faster", Status.WEAK
    """The link was no faster before, so that a limit cannot be seen."""

    NOT_BEGUN = "not_begun", Status.FAILED
    """The record does not show that the fault began."""
    NOT_APPLIED = "not_applied", Status.FAILED
    """The effect of the fault was not seen on its target."""
    NO_EFFECT = "no_effect", Status.FAILED
    """It was measured, and nothing differs from before."""
    NOT_MEASURED = "not_measured", Status.FAILED
    """Nothing was measured during the fault."""
    NO_BASELINE = "no_baseline", Status.FAILED
    """Nothing was measured before the fault to compare with."""
    TOO_FEW_SAMPLES = "too_few_samples", Status.FAILED
    """Too little was measured during the fault."""
    NEVER_BETTER = "never_better", Status.FAILED
    """The link was no better before than the fault makes it."""
    OTHER_FAULT = "other_fault", Status.FAILED
    """Another fault of the run explains the effect."""
    OTHER_CAUSE = "other_cause", Status.FAILED
    """Something else than the fault caused what was seen."""
    NOT_RUNNING = "not_running", Status.FAILED
    """The target was not running when the fault began."""
    ALREADY_RUNNING = "already_running", Status.FAILED
    """A node that was to join was there before."""
    NOT_STARTED = "not_started", Status.FAILED
    """A node that was to join was not started."""
    NOT_STEPPING = "not_stepping", Status.FAILED
    """The learner made no steps when the fault began."""
    STILL_RUNNING = "still_running", Status.FAILED
    """The process did not exit."""
    NOT_KILLED = "not_killed", Status.FAILED
    """The process was not ended by the signal when the fault began."""
    EXITED_INSTEAD = "exited_instead", Status.FAILED
    """The process exited in another way than the fault ends it."""
    NOT_RESTARTED = "not_restarted", Status.FAILED
    """The process ended and was not started again before the fault ended."""
    NOT_STOPPED = "not_stopped", Status.FAILED
    """The process was never seen stopped."""
    STOPPED_INSTEAD = "stopped_instead", Status.FAILED
    """The process was stopped or gone where it should only hang."""
    DISCONNECTED_INSTEAD = "disconnected_instead", Status.FAILED
    """The learner lost its connection where it should only hang."""
    STILL_WORKING = "still_working", Status.FAILED
    """A learner that should hang went on pushing new work."""
    NO_STREAM = "no_stream", Status.FAILED, IdlePeriod.AT_START
    """The learner had no stream to the syncer when the fault began."""
    NO_TRAFFIC_BEFORE = "no_traffic_before", Status.FAILED, IdlePeriod.AT_START
    """The link carried no traffic when the fault began."""
    SILENCED_BEFORE = "silenced_before", Status.FAILED, IdlePeriod.AT_START
    """Another fault had silenced the link when this one began."""
    NO_TRAFFIC = "no_traffic", Status.FAILED, IdlePeriod.THROUGHOUT
    """The link carried no traffic during the fault."""
    NO_LINK_REPORT = "no_link_report", Status.FAILED, IdlePeriod.THROUGHOUT
    """The receiving end of the link did not report at the end of the fault."""
    NO_PUSH = "no_push", Status.FAILED, IdlePeriod.THROUGHOUT
    """The learner pushed nothing during the fault."""
