"""Authority of a run: signs one certificate for each node, so that only they speak to each other.

    Authority ─┬─ issue("syncer", serves=True) ─► Credentials ─► NodeSpec.private_files
               └─ issue("learner-0") ───────────► Credentials ─► …

Its key exists in the memory of the harness alone, for one run. A certificate names one node, as its
only DNS name, and is good for one end: the syncer's for serving, a learner's for connecting. It is
valid for as long as the run may take, for all incarnations of its node: TLS checks it only when a
connection begins, and a run that reaches its time limit is ended.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from chaoslab.core.errors import AbilityError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID
except ImportError as error:
    raise AbilityError(
        "nodes that other machines can reach get certificates, which need the package "
        "cryptography: pip install 'cryptography>=43', or use --fleet local, which needs nothing"
    ) from error

MARGIN: Final = timedelta(hours=1)
"""Added before and after a certificate's time: clocks of machines differ, and nodes are started
before the time limit of a run counts."""
_LIFETIME_S_MAX: Final = 10 * 365 * 86_400.0
"""A plan's time limit may be any number; a certificate ends before the year 10000."""
_CURVE: Final = ec.SECP256R1


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of one node for mutual TLS, in PEM."""

    ca: bytes
    """Certificate of the authority."""
    certificate: bytes
    key: bytes = field(repr=False)
    """Private key of the certificate."""


class Authority:
    """A new authority with a key of its own."""

    def __init__(self, lifetime_s: float, *, now: datetime | None = None) -> None:
        """Its certificates are valid from `now`, or else this moment, for `lifetime_s`.

        `MARGIN` is added at both ends.
        """
        now = now or datetime.now(UTC)
        self._begin = now - MARGIN
        self._end = now + timedelta(seconds=min(lifetime_s, _LIFETIME_S_MAX)) + MARGIN
        self._key = ec.generate_private_key(_CURVE())
        self._name = x509.Name(
            [x509.NameAttribute(x509.NameOID.COMMON_NAME, "chaoslab authority of one run")]
        )
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self._ca = certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, node: str, *, serves: bool = False) -> Credentials:
        """A new key and its certificate for a node that connects, or one that `serves`.

        ValueError if the name is not ASCII.
        """
        key = ec.generate_private_key(_CURVE())
        use = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = (
            self._builder(x509.Name([]), key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(node)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return Credentials(
            ca=self._ca,
            certificate=certificate.public_bytes(serialization.Encoding.PEM),
            key=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
        )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """An authority signs certificates, a node its handshakes."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
