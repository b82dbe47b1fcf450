"""Admission of nodes to each other: tokens on loopback, certificates of the run wherever else.

    NodeSite.listen ─┬─ loopback ──► --tokens FOLDER, --token-file FOLDER/learner-0
                     └─ elsewhere ─► an Authority of this run ─► --tls-key {private}/key.pem …
                                                              └► NodeSpec.private_files

There is no way around it: a fleet that does not listen on loopback has nodes with certificates.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaoslab.fleet.base import NodeSite, Role
from chaoslab.plan.model import SYNCER

if TYPE_CHECKING:
    from chaoslab.fleet.authority import Authority

_CA: Final = "ca.pem"
_CERTIFICATE: Final = "certificate.pem"
_KEY: Final = "key.pem"
_TLS_FLAGS: Final = (
    "--tls-ca", f"{{private}}/{_CA}",
    "--tls-certificate", f"{{private}}/{_CERTIFICATE}",
    "--tls-key", f"{{private}}/{_KEY}",
)  # fmt: skip
_CONNECTED: Final = frozenset({Role.SYNCER, Role.LEARNER})
"""Roles that connect to each other."""


class Admission:
    """Admission of the nodes of one run."""

    def __init__(self, site: NodeSite, tokens: Path, lifetime_s: float) -> None:
        """`tokens`: the folder of the learners' tokens; `lifetime_s`: of certificates, from now on.

        AbilityError if certificates are needed and their library is missing.
        """
        self._tokens = str(tokens.absolute())
        self._authority = _authority(lifetime_s) if site.needs_tls else None

    def flags(self, node: str, role: Role) -> tuple[str, ...]:
        """Flags by which a node shows its identity and knows the others.

        A learner dials the address of its link, and expects the syncer's name there.
        """
        if role not in _CONNECTED:
            return ()
        is_learner = role is Role.LEARNER
        if self._authority is None:
            token = ("--token-file", f"{self._tokens}/{node}")
            return token if is_learner else ("--tokens", self._tokens)
        return (*_TLS_FLAGS, "--tls-server-name", SYNCER) if is_learner else _TLS_FLAGS

    def private_files(self, node: str, role: Role) -> Mapping[str, bytes]:
        """A new key of a node, with its certificate; empty where tokens are used."""
        if self._authority is None or role not in _CONNECTED:
            return {}
        issued = self._authority.issue(node, serves=role is Role.SYNCER)
        return {_CA: issued.ca, _CERTIFICATE: issued.certificate, _KEY: issued.key}


def _authority(lifetime_s: float) -> "Authority":
    from chaoslab.fleet.authority import Authority  # noqa: PLC0415  # needs cryptography

    return Authority(lifetime_s)
