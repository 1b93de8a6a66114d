"""A certificate authority for tests.

It signs certificates for servers and for clients.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


class Certificate(NamedTuple):
    """The PEM files of a certificate and of its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes its own and all signed certificates to PEM files.

    The files are in one directory.
    """

    def __init__(self, folder: Path, name: str = "Authority of the tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._signed(self._name, self._key.public_key(), constraint)
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def sign(self, name: str, key_password: str = "", hosts: Sequence[str] = ("127.0.0.1",)) -> Certificate:
        """Sign a certificate for a common name.

        It is valid for a client, and for a server with these addresses and names.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        host = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key.public_key(), host)
        encryption: KeySerializationEncryption = NoEncryption()
        if key_password:
            encryption = BestAvailableEncryption(key_password.encode())
        signed = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        signed.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        signed.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return signed

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
