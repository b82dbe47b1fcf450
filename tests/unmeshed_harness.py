"""`chaoslab`, whose NetworkChaos objects are about packets that no learner ever sends.

    python -m tests.unmeshed_harness run PLAN …

Chaos Mesh says `AllInjected` of them, and nothing happens on any link: what is proved all the same
would be proved by the word of Chaos Mesh alone.
"""

from unittest.mock import patch

from chaoslab.cli.main import main
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.network_chaos import NetworkChaosManifests
from chaoslab.links.effects import Direction

_NOBODY = "192.0.2.1"
"""An address for documentation, which nothing has (RFC 5737)."""


def to_nobody(
    self: NetworkChaosManifests,
    learner: str,
    address: str,
    way: Direction,
) -> dict[str, Json]:
    """In place of `NetworkChaosManifests._where`."""
    nobody: list[Json] = [_NOBODY]
    return {**self._pods(learner), "externalTargets": nobody, "direction": "to"}


if __name__ == "__main__":
    with patch.object(NetworkChaosManifests, "_where", to_nobody):
        main()
