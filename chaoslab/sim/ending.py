"""End of a simulated training: the stop message to every member, and the wait for their goodbyes.

stop rule or SIGTERM ─► merges published ─► syncer.stopped ─► members leave, 20 s at most ─► over
"""

import math

from chaoslab.core.payloads import SyncerStopped
from chaoslab.diloco.syncer.decisions import Stop
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.messages import StopMessage
from chaoslab.sim.process import Process
from chaoslab.sim.sessions import Sessions

_DRAIN_S = 20.0
"""As `diloco.syncer.action_executor` has it."""


class Ending:
    """That of one life of the syncer."""

    def __init__(self, process: Process, policy: Policy, sessions: Sessions) -> None:
        self._process, self._policy, self._sessions = process, policy, sessions
        self._asked = ""
        self.reason = ""
        self.until_s = math.inf
        """Until when it waits for goodbyes; infinite while training goes on."""
        self.has_begun = False
        """Whether members were told to stop."""

    @property
    def was_asked(self) -> bool:
        """Whether SIGTERM was the reason."""
        return self.reason == self._asked

    @property
    def is_over(self) -> bool:
        """Whether all members have left, or had their time, once it has begun."""
        is_late = self._process.now_s >= self.until_s
        return is_late or not self._policy.membership.members

    def ask(self) -> None:
        """SIGTERM: training ends once the open rounds are closed."""
        reason = "the syncer was asked to end"
        if self._policy.met_rule is None:
            self._asked = reason
        self._policy.stop(self._policy.met_rule or reason)

    def begin(self, action: Stop) -> None:
        """Tell all members."""
        self.has_begun, self.until_s = True, self._process.now_s + _DRAIN_S
        self.reason = action.reason
        self._process.say(SyncerStopped, reason=action.reason)
        for member in self._policy.membership.members:
            self._sessions.send(member.epoch, self.message)

    @property
    def message(self) -> StopMessage:
        """What members are told."""
        return StopMessage(self.reason, self._policy.versions)
