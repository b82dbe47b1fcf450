"""Learners that a hub of the tests knows, and what they show it."""

from chaoslab.diloco.wire.identity import Tokens

TOKENS = Tokens(("learner", "peer", "stranger", *(f"learner-{number}" for number in range(64))))
