"""Imports ticks from files into a real Kafka; the last file is damaged."""

import json
from itertools import chain
from pathlib import Path

import pytest

from headwater.app.price_import import PER_BATCH, import_ticks
from headwater.controller.deployment_resources import TICKS_TOPIC_SPEC
from headwater.errors import SetupError
from headwater.model.price.tick import token_key
from headwater.record_files.record_file import RecordFile
from headwater.settings import Settings
from tests.support.kafka import KafkaServer


def test_files_before_a_damaged_one_are_imported(kafka: KafkaServer, tmp_path: Path) -> None:
    if TICKS_TOPIC_SPEC.name not in kafka.admin.list_topics(timeout=10).topics:
        kafka.create_topic(TICKS_TOPIC_SPEC.name, TICKS_TOPIC_SPEC.partitions, dict(TICKS_TOPIC_SPEC.config))
    access = kafka.access
    settings = Settings(
        data_dir=tmp_path,
        kafka_bootstrap_servers=access.bootstrap_servers,
        kafka_username=access.username,
        kafka_password=access.password,
    )
    count = PER_BATCH + 10
    token = kafka.unique("0x")
    tick = {"chain": "base", "token_address": token, "price_usd": 1, "decimals": 8}
    good = tmp_path / "good.jsonl"
    good.write_text("\n".join(json.dumps(tick | {"timestamp": 1_790_000_000 + n}) for n in range(count)))
    files = chain.from_iterable(RecordFile(path, check=False) for path in (good, tmp_path / "nowhere.jsonl"))
    with pytest.raises(SetupError, match=rf"nowhere\.jsonl can't be read: .* The {count} ticks before it are written"):
        import_ticks(settings, files)
    keys = [message.key() for message in kafka.read_all(TICKS_TOPIC_SPEC.name)]
    assert keys.count(token_key("base", token).encode()) == count
