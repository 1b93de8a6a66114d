"""Runs a broker with a listener per authentication method, and an OpenID Connect server."""

import contextlib
import functools
import hashlib
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from headwater import children
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.embedded import EmbeddedKafka, cache
from headwater.brokers.embedded.runtime import find_runtime
from headwater.model.access import KafkaAccess
from tests.support.certificates import Authority
from tests.support.kafka import CACHE_DIR, WAIT_S
from tests.support.oidc import AUDIENCE, ISSUER, OidcServer
from tests.support.ports import free_port

ADMIN = "headwater-admin"
SECRET = "a secret of the client"
KEY_PASSWORD = "a password of the key"

PROTOCOLS = {"plain": "SASL_SSL", "scram256": "SASL_SSL", "scram512": "SASL_SSL", "oauth": "SASL_SSL", "mtls": "SSL",
             "open": "PLAINTEXT"}  # fmt: skip
"""The security protocol of each listener."""

_POM = Path(__file__).with_name("jose4j") / "pom.xml"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
_SECURITY = "org.apache.kafka.common.security"
_PROPERTIES = """
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map={protocols}
super.users=User:{admin};User:ANONYMOUS
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config={security}.plain.PlainLoginModule required user_{admin}="{password}";
listener.name.scram256.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.scram256.scram-sha-256.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.scram512.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram512.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={security}.oauthbearer.OAuthBearerLoginModule required;
listener.name.oauth.oauthbearer.sasl.server.callback.handler.class={security}.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url={keys_url}
listener.name.oauth.sasl.oauthbearer.expected.audience={audience}
listener.name.oauth.sasl.oauthbearer.expected.issuer={issuer}
listener.name.mtls.ssl.client.auth=required
listener.name.mtls.ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
"""


@functools.cache
def _token_jars() -> tuple[Path, ...]:
    pom = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]

    def download(target: Path) -> None:
        command = ["mvn", "-B", "-q", "-f", str(_POM), _GOAL, f"-Djars={target}"]
        subprocess.run(command, check=True, timeout=600)

    folder = cache.ensure(CACHE_DIR.expanduser().absolute() / f"test-jose4j-{pom}", download)
    return tuple(sorted(folder.glob("*.jar")))


class SecuredKafka:
    """The broker.

    Call `prepare`, `start` and `wait_ready` in this order, and `close` at the end.
    """

    def __init__(self, directory: Path) -> None:
        self.embedded = EmbeddedKafka(directory, CACHE_DIR)
        self.authority = Authority(directory / "certificates")
        self._server = self.authority.sign("server")
        self._client = self.authority.sign(ADMIN, KEY_PASSWORD)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*self._server)
        self.oidc = OidcServer({ADMIN: SECRET, "another": SECRET}, tls)
        self._ports = {name: free_port() for name in PROTOCOLS}

    def close(self) -> None:
        """Stop the OpenID Connect server."""
        self.oidc.stop()

    def prepare(self) -> None:
        """Write the broker's configuration and certificates."""
        self.embedded.prepare()
        properties = self.embedded.data_dir / "kafka" / "server.properties"
        own = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        more = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in self._ports.items())
        protocols = ",".join(f"{name.upper()}:{protocol}" for name, protocol in PROTOCOLS.items())
        keystore = self.authority.file.with_name("keystore.pem")
        keystore.write_text(self._server.key.read_text() + self._server.certificate.read_text())
        added = _PROPERTIES.format(
            listeners=f"{own['listeners']},{more}",
            advertised=f"{own['advertised.listeners']},{more}",
            protocols=f"{own['listener.security.protocol.map']},{protocols}",
            admin=ADMIN,
            keystore=keystore,
            ca=self.authority.file,
            security=_SECURITY,
            password=self.embedded.access().password,
            keys_url=self.oidc.keys_url,
            audience=AUDIENCE,
            issuer=ISSUER,
        )
        with properties.open("a") as file:  # the last line for a property applies
            file.write(added)

    def start(self) -> children.Child:
        """Start the broker, with the jars that verify tokens."""
        runtime = find_runtime(CACHE_DIR, "")
        java, *arguments = runtime._replace(jars=(*runtime.jars, *_token_jars()), aot_cache=Path("none")).broker()
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.oidc.keys_url}"
        log = self.embedded.log_file
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            home = str(self.embedded.data_dir / "kafka")
            environment = children.inherited_environment()
            return children.spawn([java, allowed, *arguments], env=environment, cwd=home, stdout=output, stderr=output)

    def wait_ready(self, child: children.Child) -> None:
        """Wait until the administrator can authenticate at each listener."""
        self.embedded.wait_ready(child)
        access = self.embedded.access()
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
        put = UserScramCredentialUpsertion(ADMIN, info, access.password.encode())
        admin = AdminClient(admin_settings(access, ClientErrors(access)))
        admin.alter_user_scram_credentials([put])[ADMIN].result(WAIT_S)

    def access(self, listener: str) -> KafkaAccess:
        """Return the administrator's access at a listener."""
        password = self.embedded.access().password
        members = {
            "plain": {"sasl_mechanism": "PLAIN", "username": ADMIN, "password": password},
            "scram256": {"sasl_mechanism": "SCRAM-SHA-256", "username": ADMIN, "password": password},
            "scram512": {"sasl_mechanism": "SCRAM-SHA-512", "username": ADMIN, "password": password},
            "oauth": {
                "sasl_mechanism": "OAUTHBEARER",
                "oauth_token_endpoint_url": self.oidc.token_url,
                "oauth_client_id": ADMIN,
                "oauth_client_secret": SECRET,
                "oauth_scope": "kafka-admin",
                "oauth_ca_file": str(self.authority.file),
            },
            "mtls": {
                "certificate_file": str(self._client.certificate),
                "key_file": str(self._client.key),
                "key_password": KEY_PASSWORD,
            },
            "open": {},
        }[listener]
        protocol = PROTOCOLS[listener]
        ca = {"ca_file": str(self.authority.file)} if protocol.endswith("SSL") else {}
        address = {"bootstrap_servers": f"127.0.0.1:{self._ports[listener]}", "security_protocol": protocol}
        return KafkaAccess.model_validate(address | ca | members)


@contextlib.contextmanager
def running(directory: Path) -> Iterator[SecuredKafka]:
    """Run the broker for the block."""
    kafka = SecuredKafka(directory)
    try:
        kafka.prepare()
        child = kafka.start()
        try:
            kafka.wait_ready(child)
            yield kafka
        finally:
            child.stop(15)
    finally:
        kafka.close()


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Run the session's broker with a listener per authentication method."""
    with running(tmp_path_factory.mktemp("secured-kafka")) as secured:
        yield secured
