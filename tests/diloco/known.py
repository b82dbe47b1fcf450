"""Learners that a hub of the tests knows, what they show it, and who is meant in events."""

from chaoslab.core.payloads import LifeFields, NodeFields
from chaoslab.diloco.wire.identity import Tokens

TOKENS = Tokens(("learner", "peer", "stranger", *(f"learner-{number}" for number in range(64))))
WHOSE: LifeFields = {"learner": "learner-0", "incarnation": 1}
"""The learner that has the events."""
NODE: NodeFields = {"node": "syncer", "learner": "", "incarnation": 1}
"""The node that tells of itself."""
