"""The environment of each child process: only the variables and secrets that it needs.

Only the controller and the API get the secret key and the database's URL. A worker gets no setting, because its spec
file holds all values that it needs. A secret that was read from a file is passed on as the path of the file.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from headwater.app.data_directory import DataDirectory
from headwater.children import inherited_environment
from headwater.model import kafka_security
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings
from headwater.settings import SECRETS, Settings, environment_variable, file_environment_variable, secret_file

LIBPQ = ("PG*",)
"""Variables that libpq reads. They may complete the URL of the database."""
GOOGLE = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CONFIG", "GCE_METADATA_*",
          "PUBSUB_EMULATOR_HOST")  # fmt: skip
"""Variables that Google's client library reads when a Pub/Sub binding has no credentials."""
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "no_proxy", "no_grpc_proxy")
PROXIES = (*_PROXIES, *map(str.upper, _PROXIES))
"""Variables for connections through a proxy: to chain nodes, Google, token endpoints and AWS."""
AWS = ("AWS_*",)
"""Variables from which the signer of AWS MSK gets credentials."""
KUBERNETES = ("KUBECONFIG",)
"""The variable that names the file with the address of the Kubernetes API, outside of Pods."""
OPENTELEMETRY = ("OTEL_*",)
"""Variables of OpenTelemetry: where traces go, with which header fields, and the name of the service."""


_DEFAULT_BINDINGS = Bindings()


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The settings and variables that one kind of child process gets.

    Attributes:
        secrets: The names of the secret settings. Settings that are not secret are passed to every child.
        variables: The variables in addition to children.INHERITED.
    """

    secrets: tuple[str, ...]
    variables: tuple[str, ...] = ()

    def with_variables(self, *variables: str) -> "EnvironmentSpec":
        """Return a copy with further variables."""
        return EnvironmentSpec(self.secrets, (*self.variables, *variables))


KAFKA_SECRETS = tuple(f"kafka_{member}" for member in kafka_security.SECRET_FIELDS)
STORE_SECRETS = ("database_url", "redis_url", "secret_key", "old_secret_key")
CONTROLLER = EnvironmentSpec((*STORE_SECRETS, *KAFKA_SECRETS), (*LIBPQ, *GOOGLE, *PROXIES, *KUBERNETES, *OPENTELEMETRY))
API = EnvironmentSpec((*STORE_SECRETS, *KAFKA_SECRETS, "kafka_reader_password"), (*LIBPQ, *OPENTELEMETRY))
PRICES = EnvironmentSpec(("redis_url", *KAFKA_SECRETS))
INGEST = EnvironmentSpec(KAFKA_SECRETS, PROXIES)


def kafka_variables(*mechanisms: str) -> tuple[str, ...]:
    """Return the variables that Kafka clients with these SASL mechanisms read."""
    by_mechanism = {"OAUTHBEARER": PROXIES, "AWS_MSK_IAM": (*AWS, *PROXIES)}
    return tuple(variable for mechanism in mechanisms for variable in by_mechanism.get(mechanism, ()))


def child_environment(
    settings: Settings, data_directory: DataDirectory, spec: EnvironmentSpec, bindings: Bindings = _DEFAULT_BINDINGS
) -> dict[str, str]:
    """Return the environment of a child process that runs a `headwater` command.

    The environment has the explicit settings that are not secret, and the secrets that this kind of child needs. The
    SASL mechanisms in the settings and in `bindings` decide which variables of Kafka clients it has.
    """
    mechanisms = (settings.kafka_sasl_mechanism, *_mechanisms(bindings))
    environment = inherited_environment(*spec.variables, *kafka_variables(*mechanisms))
    for name in settings.model_fields_set:
        if getattr(settings, name) is None:
            continue
        if name not in SECRETS:
            environment[environment_variable(name)] = _text(getattr(settings, name))
        elif name in spec.secrets:
            environment |= _secret(name, getattr(settings, name))
    environment[environment_variable("data_dir")] = str(data_directory.path)
    return environment


def worker_environment(bindings: Bindings, kafka: KafkaAccess | None = None) -> dict[str, str]:
    """Return the environment of workers.

    The environment has Google's variables only when a stream is bound to Pub/Sub, and the variables of AWS only when a
    Kafka client authenticates with AWS.

    Args:
        bindings: The stream bindings.
        kafka: How workers log in to the installation's own Kafka cluster.
    """
    own_mechanism = () if kafka is None else (kafka.sasl_mechanism,)
    google_variables = (*GOOGLE, *PROXIES) if bindings.pubsub_accesses() else ()
    return inherited_environment(*google_variables, *kafka_variables(*own_mechanism, *_mechanisms(bindings)))


def _mechanisms(bindings: Bindings) -> list[str]:
    return [access.sasl_mechanism for access in bindings.kafka_accesses()]


def metrics_environment(directory: Path) -> dict[str, str]:
    """Return the variable with which the API processes share their metrics."""
    return {"PROMETHEUS_MULTIPROC_DIR": str(directory)}


def _secret(name: str, value: SecretStr) -> dict[str, str]:
    """Return the variable that passes a secret to a child.

    Its value is the secret, or the path of the file that holds the secret.
    """
    path = secret_file(name)
    return (
        {environment_variable(name): value.get_secret_value()}
        if path is None
        else {file_environment_variable(name): str(path)}
    )


def _text(value: object) -> str:
    """Return a setting as text.

    Paths become absolute, since children may have another working directory.
    """
    return str(value.expanduser().absolute() if isinstance(value, Path) else value)
