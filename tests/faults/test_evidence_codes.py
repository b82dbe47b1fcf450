"""Codes of evidence: those of chaoslab, and those that a fault of another package brings."""

from chaoslab.core.payloads import IdlePeriod, Status
from chaoslab.faults.evidence.base import Evidence, EvidenceCode
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import no_evidence


class OwnCode(EvidenceCode):
    """What a package with a fault of its own declares."""

    DOZED = "toy.dozed", Status.WEAK
    NO_BED = "toy.no_bed", Status.FAILED, IdlePeriod.AT_START


def test_a_code_of_another_package_has_its_status_like_those_of_chaoslab() -> None:
    evidence = Evidence(
        target="learner-0", code=OwnCode.DOZED, requested={}, measured={}, text="learner-0 dozed"
    )
    assert (evidence.status, evidence.code.value) == (Status.WEAK, "toy.dozed")
    assert evidence.code.idle is None
    assert no_evidence(OwnCode.NO_BED, "had no bed").code.status is Status.FAILED
    assert OwnCode.NO_BED.idle is IdlePeriod.AT_START


def test_codes_of_chaoslab_have_no_dot_which_those_of_others_have() -> None:
    assert not [code for code in Code if "." in code]
