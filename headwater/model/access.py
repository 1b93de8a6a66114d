"""The addresses of Kafka clusters and of Google Pub/Sub, and how to authenticate there."""

from pydantic import BaseModel, ConfigDict

from headwater.model.kafka_security import KafkaSecurity


class KafkaAccess(KafkaSecurity):
    """The address of a Kafka cluster, and how to authenticate there."""

    bootstrap_servers: str


class PubSubAccess(BaseModel):
    """How to reach Google Pub/Sub.

    Attributes:
        project: The project of the subscriptions.
        credentials_file: The credentials of a service account; empty means Application Default Credentials.
        endpoint: `host:port` of an emulator, which uses neither credentials nor encryption; empty means Google's.
    """

    model_config = ConfigDict(frozen=True)

    project: str
    credentials_file: str = ""
    endpoint: str = ""
