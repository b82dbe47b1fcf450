"""Membership of a process in a learner of several hosts: meeting place and secret.

Standard library only: the supervisor imports it, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

PEER_LOST = 75
"""Exit code of a process that lost another process of its learner."""
SECRET = "CHAOSLAB_HOSTS_SECRET"
"""Environment variable: what the processes of one learner know and no others."""
SUPERVISOR = "CHAOSLAB_HOSTS_SUPERVISOR"
"""Environment variable: pid of the supervisor, with which a process is to end; unset: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One process of a learner of several hosts."""

    hosts: int
    """Number of hosts of the learner."""
    index: int
    """Number of this host; host 0 connects to the syncer."""
    meeting: str
    """Where the process of host 0 listens for the others: host:port, or @name for a socket of this
    machine's kernel."""
    secret: bytes = field(repr=False)
    supervisor: int | None = None
    timeout_s: float = 5.0
    """A process that is silent for this long is lost."""

    @property
    def is_first(self) -> bool:
        """Whether this process speaks to the syncer."""
        return self.index == 0

    @property
    def address(self) -> str | tuple[str, int]:
        """`meeting` as sockets take it. ValueError if it is no address."""
        if self.meeting.startswith("@"):
            return "\0" + self.meeting[1:]
        host, colon, port = self.meeting.rpartition(":")
        if not (host and colon and port.isdecimal()):
            raise ValueError(f"--meeting: must be host:port or @name, got {self.meeting!r}")
        return host.strip("[]"), int(port)

    @property
    def interface(self) -> str:
        """Name or address on which the process of host 0 is reached."""
        address = self.address
        return "127.0.0.1" if isinstance(address, str) else address[0]


def membership(
    *, hosts: int, index: int, meeting: str, timeout_s: float, environment: Mapping[str, str]
) -> Membership:
    """The membership that options and environment describe. ValueError says what is missing."""
    if not 0 <= index < hosts:
        raise ValueError(f"--host-index: must be 0 to {hosts - 1}, got {index}")
    if not environment.get(SECRET):
        raise ValueError(
            f"{SECRET}: must be set to what the processes of a learner share, got none"
        )
    if timeout_s <= 0:
        raise ValueError(f"--host-timeout: must be above 0 s, got {timeout_s:g}")
    supervisor = environment.get(SUPERVISOR)
    found = Membership(
        hosts=hosts,
        index=index,
        meeting=meeting,
        secret=environment[SECRET].encode(),
        supervisor=None if supervisor is None else int(supervisor),
        timeout_s=timeout_s,
    )
    _ = found.address
    return found
