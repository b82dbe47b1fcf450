"""Access to a host by ssh, as an inventory or an undo log says it: user, address, key.

Plain data, so that an undo log can be read without asyncssh.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoslab.core.errors import PlanError

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_ADDRESS: Final = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""Address whose part after a `%` is restricted, which `ipaddress` does not do."""
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_JUMP: Final = re.compile(
    r"((?P<user>[^@]*)@)?(\[(?P<address>[^][]*)\]|(?P<host>[^:]*))(:(?P<port>[0-9]+))?"
)
_HOST_KEY: Final = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\n]*)?")
KNOWN_HOSTS: Final = "~/.ssh/known_hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access to a host. Its key must be in `known_hosts`."""

    host: str
    """Name or address."""
    port: int = 22
    user: str = ""
    """Empty: the user of this process."""
    key: str = ""
    """File of a private key; empty: those at `SSH_AUTH_SOCK`, and the usual files."""
    known_hosts: str = KNOWN_HOSTS
    jump: str = ""
    """[USER@]HOST[:PORT] through which it is reached, an IPv6 address in brackets; empty:
    directly.
    """
    host_keys: tuple[str, ...] = ()
    """Its keys, as `ssh-ed25519 AAAA…`, where a cloud's API reports them: then they alone count."""

    def __post_init__(self) -> None:
        if not is_host(self.host):
            raise PlanError(f"{self.host!r} is no name or address of a host", key="host")
        if not 0 < self.port < 2**16:
            raise PlanError(f"must be 1 to 65,535, got {self.port}", key="port")
        if self.user and not _USER.fullmatch(self.user):
            raise PlanError(f"{self.user!r} is no name of a user", key="user")
        for key in self.host_keys:
            if not (_HOST_KEY.fullmatch(key) and key.isprintable()):  # other ends of lines, too
                raise PlanError(f"{key!r} is no public key of a host", key="host_keys")
        if self.jump:
            self.jumped()

    def jumped(self) -> "Access":
        """Access to the jump host, by the same key. PlanError if its address is invalid."""
        found = _JUMP.fullmatch(self.jump)
        if found is None:
            raise PlanError(f"{self.jump!r} is not [USER@]HOST[:PORT]", key="jump")
        try:
            return Access(
                host=found["address"] or found["host"] or "",
                port=int(found["port"] or 22),
                user=found["user"] or self.user,
                key=self.key,
                known_hosts=self.known_hosts,
            )
        except PlanError as error:
            raise PlanError(error.message, key="jump") from error


def is_host(word: str) -> bool:
    """Whether this is a name or address of a host, and no option of a program."""
    return _NAME.fullmatch(word) is not None or is_address(word)


def is_address(word: str) -> bool:
    """Whether this is an address, of a link-local one with its interface: fe80::1%eth0."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return _ADDRESS.fullmatch(word) is not None


def expanded(path: str) -> Path:
    """A file below the home of the user where it says so."""
    return Path(os.path.expanduser(path))
