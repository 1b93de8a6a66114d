"""The names of internal users that are redacted."""

from pathlib import Path

from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.app.redacted_names import names_to_redact
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubSubscription
from headwater.settings import Settings


def test_of_own_parts_and_bindings(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "data_dir": tmp_path,
            "kafka_bootstrap_servers": "kafka-1.example:9093,kafka-2.example:9093",
            "kafka_username": "the-admin",
            "kafka_password": "p",
            "redis_url": "redis-cluster://setter:p@valkey-1.example:6379,valkey-2.example:6379",
            "database_url": "postgresql://owner:p@db.example:5433/headwater",
        }
    )
    elsewhere = KafkaAccess(bootstrap_servers="other.example:9092", username="theirs", password="p")
    by_token = KafkaAccess(
        bootstrap_servers="third.example:9092",
        oauth_token_endpoint_url="https://idp.example/token",
        oauth_client_id="their-client",
        oauth_client_secret="their-secret",
        key_file="/etc/their.key",
    )
    bindings = Bindings(
        {
            "base.log": KafkaTopic("evm-logs", elsewhere),
            "polygon.log": KafkaTopic("polygon-logs", by_token),
            "base.decoded_log": PubSubSubscription("projects/p1/subscriptions/s1", PubSubAccess(project="p1")),
        }
    )
    found = names_to_redact(Endpoints(settings, DataDirectory(tmp_path)), bindings)
    assert found >= {
        "kafka-1.example:9093,kafka-2.example:9093", "kafka-2.example:9093", "kafka-2.example", "the-admin",
        "valkey-1.example:6379", "valkey-2.example", "db.example:5433", "db.example",
        "evm-logs", "other.example", "theirs",
        "https://idp.example/token", "idp.example", "their-client", "/etc/their.key",
        "projects/p1/subscriptions/s1", "p1", str(tmp_path),
    }  # fmt: skip
    assert not {"", "their-secret"} & found
