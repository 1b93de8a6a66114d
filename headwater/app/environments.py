"""The environment of each child process: only the variables and settings that it needs.

Only the controller and the API get the secret key and the database's URL. A worker gets no setting: its spec
file holds what it needs. A secret that was given by a file is passed on as the path of the file.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from headwater.app.home import Home
from headwater.children import inherited
from headwater.model import kafka_security
from headwater.model.binding import Bindings
from headwater.model.worker import KafkaAccess
from headwater.settings import SECRETS, Settings, file_variable, secret_file, variable

LIBPQ = ("PG*",)
"""libpq's own variables, which may hold what the database's URL leaves out."""
GOOGLE = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CONFIG", "GCE_METADATA_*",
          "PUBSUB_EMULATOR_HOST")  # fmt: skip
"""What Google's client library reads where a binding to Pub/Sub names no credentials of its own."""
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "no_proxy", "no_grpc_proxy")
PROXIES = (*_PROXIES, *map(str.upper, _PROXIES))
"""How chain nodes, Google, token endpoints and AWS are reached from behind a proxy."""
AWS = ("AWS_*",)
"""Where the signer of AWS MSK finds credentials, or how it asks for them."""


_DEFAULT = Bindings()


@dataclass(frozen=True, slots=True)
class Needs:
    """What one kind of child needs.

    Attributes:
        secrets: the settings that are secrets; the others are passed to all kinds.
        variables: the variables that it gets beside those of children.INHERITED.
    """

    secrets: tuple[str, ...]
    variables: tuple[str, ...] = ()

    def also(self, *variables: str) -> "Needs":
        """The same with more variables."""
        return Needs(self.secrets, (*self.variables, *variables))


KAFKA_SECRETS = tuple(f"kafka_{member}" for member in kafka_security.SECRETS)
CONTROLLER = Needs(("database_url", "redis_url", "secret_key", *KAFKA_SECRETS), (*LIBPQ, *GOOGLE, *PROXIES))
API = Needs(("database_url", "redis_url", "secret_key", *KAFKA_SECRETS, "kafka_reader_password"), LIBPQ)
PRICES = Needs(("redis_url", *KAFKA_SECRETS))
INGEST = Needs(KAFKA_SECRETS, PROXIES)


def kafka_variables(*mechanisms: str) -> tuple[str, ...]:
    """What clients of Kafka read from the environment where they log in by these SASL mechanisms."""
    by_mechanism = {"OAUTHBEARER": PROXIES, "AWS_MSK_IAM": (*AWS, *PROXIES)}
    return tuple(variable for mechanism in mechanisms for variable in by_mechanism.get(mechanism, ()))


def child_environment(settings: Settings, home: Home, needs: Needs, bindings: Bindings = _DEFAULT) -> dict[str, str]:
    """The environment of a child that runs a command of Headwater's: every setting that was given and that it needs.

    bindings: of the streams that the child reads.
    """
    mechanisms = (settings.kafka_sasl_mechanism, *_mechanisms(bindings))
    environment = inherited(*needs.variables, *kafka_variables(*mechanisms))
    for name in settings.model_fields_set:
        if getattr(settings, name) is None:
            continue
        if name not in SECRETS:
            environment[variable(name)] = _text(getattr(settings, name))
        elif name in needs.secrets:
            environment |= _secret(name, getattr(settings, name))
    environment[variable("data_dir")] = str(home.path)
    return environment


def worker_environment(bindings: Bindings, kafka: KafkaAccess | None = None) -> dict[str, str]:
    """The environment of workers. They reach Google and AWS only where a stream is bound to one of them.

    kafka: how they log in to the own cluster.
    """
    own = () if kafka is None else (kafka.sasl_mechanism,)
    google = (*GOOGLE, *PROXIES) if bindings.pubsub() else ()
    return inherited(*google, *kafka_variables(*own, *_mechanisms(bindings)))


def _mechanisms(bindings: Bindings) -> list[str]:
    return [access.sasl_mechanism for access in bindings.clusters()]


def metrics_environment(directory: Path) -> dict[str, str]:
    """What the API processes need to share their metrics."""
    return {"PROMETHEUS_MULTIPROC_DIR": str(directory)}


def _secret(name: str, value: SecretStr) -> dict[str, str]:
    path = secret_file(name)
    return {variable(name): value.get_secret_value()} if path is None else {file_variable(name): str(path)}


def _text(value: object) -> str:
    """A setting as its variable has it. Children have another working directory: paths become absolute."""
    return str(value.expanduser().absolute() if isinstance(value, Path) else value)
