"""Mutual TLS between learners and syncer, and the rule that plaintext stays on the machine.

Each end presents a certificate signed by the same authority and verifies the other's. The files are
PEM. This module reads them; `hub` and `connection` pass them to grpc.
"""

import argparse
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


class InsecureAddress(ValueError):
    """An address on another machine without TLS; the message says which options to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS files of one end.

    `server_name` (learner only) is the name in the syncer's certificate; if empty, that is the host
    of the address that is dialled.
    """

    ca: Path
    certificate: Path
    key: Path
    server_name: str = ""

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Contents of authority, certificate and key; OSError or ValueError names the file."""
        return _pem(self.ca), _pem(self.certificate), _pem(self.key)


@dataclass(frozen=True, slots=True)
class PrivateNetwork:
    """Plaintext allowed: only machines of the training can reach this network.

    For example the network that a container engine creates for one run.
    """


Security: TypeAlias = Tls | PrivateNetwork | None


def refuse_plaintext(address: str, tls: Security) -> None:
    """Raise InsecureAddress unless the address is local, TLS is given, or the network is private.

    `address` is host:port, [host]:port or unix:path; ValueError if it is not. A host that is
    neither an IP address nor localhost counts as another machine.
    """
    if tls is not None or address.startswith("unix:"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"address: must be host:port, such as 127.0.0.1:4600, got {address!r}")
    if not _is_loopback(host.strip("[]")):
        raise InsecureAddress(
            f"address: {address} is reachable from other machines, where traffic without TLS can "
            "be read and changed: pass --tls-ca, --tls-certificate and --tls-key (PEM files, on "
            "the syncer and on every learner), or use 127.0.0.1 and a tunnel"
        )


def check_address(address: str, tls: Security) -> None:
    """As `refuse_plaintext`; also reads the files: OSError or ValueError names a bad one."""
    refuse_plaintext(address, tls)
    if isinstance(tls, Tls):
        tls.read()


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `tls_of` reads."""
    group = parser.add_argument_group("mutual TLS, required for addresses other than loopback")
    group.add_argument("--tls-ca", type=Path, help="certificate of the authority, PEM")
    group.add_argument("--tls-certificate", type=Path, help="certificate of this end, PEM")
    group.add_argument("--tls-key", type=Path, help="private key of this end, PEM")
    group.add_argument(
        "--tls-server-name", default="", help="name in the syncer's certificate, if not its host"
    )
    group.add_argument(
        "--private-network", action="store_true",
        help="no TLS: only machines of the training can reach this network",
    )  # fmt: skip


def tls_of(options: argparse.Namespace) -> Security:
    """TLS settings from the options of `add_tls_options`; ValueError if one is missing."""
    given = {
        "--tls-ca": options.tls_ca,
        "--tls-certificate": options.tls_certificate,
        "--tls-key": options.tls_key,
    }
    if not any(given.values()):
        return PrivateNetwork() if options.private_network else None
    missing = [name for name, path in given.items() if path is None]
    if missing:
        raise ValueError(f"mutual TLS: also pass {' and '.join(missing)}; it needs all three files")
    return Tls(
        ca=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        server_name=options.tls_server_name,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _pem(path: Path) -> bytes:
    content = path.read_bytes()
    if b"-----BEGIN " not in content:
        raise ValueError(f"{path}: must be a PEM file, got one without a BEGIN line")
    return content
