"""A broker behind TLS: what ends it passes the bytes on, so Kafka's own listener stays a plain one."""

import datetime
import ipaddress
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headwater.brokers.wire.batch import pack, seal
from headwater.brokers.wire.codes import PASSING
from headwater.brokers.wire.connection import Connection, TlsRefused
from headwater.brokers.wire.fetch import UNKNOWN_EPOCH, Fetch, Wanted
from headwater.brokers.wire.produce import Produce
from headwater.brokers.wire.requests import InitProducerId
from headwater.native import Portion, Texts
from tests.support.columns import numbered, numbers
from tests.support.kafka import KafkaServer
from tests.support.kafka_batches import committed
from tests.support.ports import free_port
from tests.support.proxy import Proxy

HOST = "127.0.0.1"
VALUES: list[bytes | None] = [b"%d " % number + b"text" * (number % 300) for number in range(500)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One for HOST that vouches for itself, and its key."""
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return files


@pytest.fixture
def tls_port(kafka: KafkaServer, certificate: tuple[Path, Path]) -> Iterator[int]:
    """A port where TLS ends in front of the broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    broker_port = int(kafka.access.bootstrap_servers.rpartition(":")[2])

    proxy = Proxy((HOST, free_port()), (HOST, broker_port), 0, tls=context)
    proxy.start()
    yield proxy.address[1]
    proxy.stop()


def test_records_are_written_and_read(kafka: KafkaServer, certificate: tuple[Path, Path], tls_port: int) -> None:
    topic = kafka.create_topic(kafka.unique("tls"), 1)
    access = kafka.access.model_copy(update={"security_protocol": "SASL_SSL", "ca_file": str(certificate[0])})
    connection = Connection(access, HOST, tls_port, 30)
    try:
        while (told := connection.ask(InitProducerId()))[0] in PASSING:
            time.sleep(0.1)
        rows, times = numbered(range(len(VALUES))), numbers([1_700_000_000_000] * len(VALUES))
        portion = Portion(rows, Texts.of(VALUES), Texts.of([None] * len(VALUES)), times)
        assert connection.ask(Produce({topic: [(0, seal(pack([portion], []), told[1], 0))]}, 30)) == {(topic, 0): 0}
        wanted, much = [Wanted(0, UNKNOWN_EPOCH, 0, UNKNOWN_EPOCH)], 9 << 20
        fetch = Fetch(topic, wanted, 5, max_bytes=much, partition_max_bytes=much)
        [fetched] = connection.ask(fetch).partitions
        [batch] = committed(fetched.records, fetched.aborted, 0)
        columns = batch.columns
        assert Texts.gathered([(batch.body, columns.value_starts, columns.value_sizes)]) == VALUES
    finally:
        connection.close()


def test_a_certificate_that_is_not_trusted(kafka: KafkaServer, tls_port: int) -> None:
    access = kafka.access.model_copy(update={"security_protocol": "SASL_SSL"})
    with pytest.raises(TlsRefused, match="CERTIFICATE_VERIFY_FAILED"):
        Connection(access, HOST, tls_port, 30)
