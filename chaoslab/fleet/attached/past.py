"""Past of a node, printed before it was found: the part that describes its present state.

    output so far ─ chunks ─► Past ─┬─ lines         state, in the order in which it was printed
                                    └─ incarnation   of the node, by its own word

A training may have printed for weeks. The newest start of the syncer, the newest membership of each
learner, and each learner's newest join and step are enough to go on from; the record begins in
mid-training, and checks that need all of it are left out.
"""

import re
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Json, Kind, read_node_line
from chaoslab.fleet.base import Role

_STATE: Final = frozenset(
    {Kind.SYNCER_READY, Kind.MEMBER_JOINED, Kind.MEMBER_LEFT, Kind.LEARNER_STARTED,
     Kind.LEARNER_JOINED, Kind.LEARNER_STEP}
)  # fmt: skip
_KIND: Final = re.compile(rb'\{"kind":\s*"([\w.]+)"')
_MEMBER: Final = (Kind.MEMBER_JOINED, Kind.MEMBER_LEFT)
_LINE_BYTES_MOST: Final = 1 << 20
_KEEP: Final = "keep what it printed since it was started, or start it again"


class Past:
    """Fed with the output of one node, in order; what follows the last newline is kept."""

    def __init__(self) -> None:
        self._tail = b""
        self._kept: dict[tuple[str, str], bytes] = {}
        """The newest line of each kind, and of a membership for each learner; oldest first."""

    def take(self, chunk: bytes) -> None:
        """Some more of it."""
        *whole, self._tail = (self._tail + chunk).split(b"\n")
        if len(self._tail) > _LINE_BYTES_MOST:
            self._tail = b""
        for line in whole:
            found = _KIND.match(line)
            if found is not None and (kind := found[1].decode()) in _STATE:
                self._keep(kind, line)

    @property
    def lines(self) -> bytes:
        """Kept lines, and the beginning of one that is not whole yet."""
        return b"".join(line + b"\n" for line in self._kept.values()) + self._tail

    @property
    def incarnation(self) -> int | None:
        """Last reported incarnation of a learner; None for a node without one."""
        for (kind, _), line in reversed(self._kept.items()):
            said = _said(line).get("incarnation")
            if kind.startswith("learner.") and isinstance(said, int):
                return said
        return None

    def require_complete(self, node: str, role: Role, remedy: str = _KEEP) -> None:
        """AbilityError if the output does not go back to where its state begins."""
        signs = [Kind.LEARNER_STARTED, Kind.LEARNER_JOINED]
        if role is Role.SYNCER:
            signs = [Kind.SYNCER_READY]
        if not any((sign, "") in self._kept for sign in signs):
            raise AbilityError(
                f"the output of {node} does not go back to its `{signs[0]}`: {remedy}"
            )

    def _keep(self, kind: str, line: bytes) -> None:
        """Steps are many, and need not be decoded."""
        learner = str(_said(line).get("learner", "")) if kind in _MEMBER else ""
        if kind in (Kind.SYNCER_READY, Kind.LEARNER_STARTED):
            self._kept.clear()  # a new life knows nothing of what an earlier one said
        self._kept.pop((kind, learner), None)
        if kind == Kind.MEMBER_LEFT:
            self._kept.pop((Kind.MEMBER_JOINED, learner), None)
        else:
            self._kept[kind, learner] = line


def _said(line: bytes) -> dict[str, Json]:
    """Data of an event; empty for another line."""
    try:
        found = read_node_line(line.decode(errors="replace"), "past")
    except ValueError:
        return {}
    return {} if found is None else dict(found.data)
