"""Mutual TLS for the wire, and the rule that plaintext never leaves the machine.

Both ends show a certificate that the same authority has signed, and check the other's. The files
are PEM. This module reads them; `wire` hands them to grpc.
"""

import argparse
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


class InsecureAddress(ValueError):
    """An address beyond this machine without TLS; the message says what to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of one end. `server_name` is the learner's: the name in the syncer's certificate.

    Without `server_name`, the certificate must name the host of the address that is dialled.
    """

    ca: Path
    certificate: Path
    key: Path
    server_name: str = ""

    def read(self) -> tuple[bytes, bytes, bytes]:
        """The authority's certificate, ours and our key; OSError or ValueError names the file."""
        return _pem(self.ca), _pem(self.certificate), _pem(self.key)


@dataclass(frozen=True, slots=True)
class PrivateNetwork:
    """In place of TLS: all that this end can reach belongs to the training, so plaintext will do.

    As on the network that a container engine makes for one run.
    """


Security: TypeAlias = Tls | PrivateNetwork | None


def refuse_plaintext(address: str, tls: Security) -> None:
    """InsecureAddress unless the address stays on this machine, TLS is given, or it is private.

    `address` is host:port, [host]:port or unix:path. A host that is neither an IP address nor
    localhost is taken to lie beyond the machine.
    """
    if tls is not None or address.startswith("unix:"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{address!r} is no address: write host:port, such as 127.0.0.1:4600")
    if not _is_loopback(host.strip("[]")):
        raise InsecureAddress(
            f"{address} reaches beyond this machine, and without TLS everybody on the way could "
            "read and change the training: pass --tls-ca, --tls-certificate and --tls-key (PEM "
            "files, on the syncer and on every learner), or use 127.0.0.1 and a tunnel"
        )


def check_address(address: str, tls: Security) -> None:
    """As `refuse_plaintext`, and the files are read: OSError or ValueError names a bad one."""
    refuse_plaintext(address, tls)
    if isinstance(tls, Tls):
        tls.read()


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """The options that `tls_of` reads."""
    group = parser.add_argument_group("mutual TLS, needed beyond 127.0.0.1")
    group.add_argument("--tls-ca", type=Path, help="certificate of the authority, PEM")
    group.add_argument("--tls-certificate", type=Path, help="certificate of this end, PEM")
    group.add_argument("--tls-key", type=Path, help="private key of this end, PEM")
    group.add_argument(
        "--tls-server-name", default="", help="name in the syncer's certificate, if not its host"
    )
    group.add_argument(
        "--private-network", action="store_true",
        help="instead of TLS: everybody on this network belongs to the training",
    )  # fmt: skip


def tls_of(options: argparse.Namespace) -> Security:
    """What the options of `add_tls_options` say; None without any. ValueError if one is missing."""
    given = {
        "--tls-ca": options.tls_ca,
        "--tls-certificate": options.tls_certificate,
        "--tls-key": options.tls_key,
    }
    if not any(given.values()):
        return PrivateNetwork() if options.private_network else None
    missing = [name for name, path in given.items() if path is None]
    if missing:
        raise ValueError(f"mutual TLS needs three files; also pass {' and '.join(missing)}")
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
        raise ValueError(f"{path} is not a PEM file: it has no BEGIN line")
    return content
