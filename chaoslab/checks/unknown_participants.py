"""Did anybody take part whom the harness did not start?

    member.joined of (learner, incarnation) ─► node.started of the same? ─ no ─► a stranger

The syncer lets in whoever shows that it is a learner of this training. One that lets in others
gives a learner's place away: to a life that nobody started.
"""

from collections.abc import Iterator

from chaoslab.checks.codes import Code
from chaoslab.checks.violations import Violation
from chaoslab.core.payloads import MemberJoined, NodeStarted
from chaoslab.record.journal import History


def strangers(history: History) -> Iterator[Violation]:
    """Every membership of a life that the harness never started, in order."""
    started = {(e.payload.node, e.payload.incarnation) for e in history.of(NodeStarted)}
    for event in history.of(MemberJoined):
        said = event.payload
        if said.life not in started:
            who = f"incarnation {said.incarnation} of {said.learner}"
            text = f"the syncer let in {who} at {event.time_s:.1f} s, which was never started"
            yield Violation.at(event, Code.NEVER_STARTED, text, said.learner)
