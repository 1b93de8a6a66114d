"""A worker that only copies records survives faults.

It is killed and stopped, other workers join, and Kafka rejects records.
"""

import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headwater.brokers.base import Acl, DeploymentResources, User
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.model.deployment import transactional_id_prefix
from headwater.model.flow import DeliveryMode
from tests.integration.engine.harness import PARTITIONS, Pipeline, check_copy
from tests.support.kafka import KafkaServer
from tests.support.waiting import until

ROUNDS, PER_ROUND = 4, 5000
BOTH = ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)]


def numbered(start: int, stop: int) -> list[dict[str, object]]:
    return [{"n": n, "pad": "x" * 300} for n in range(start, stop)]


def blocks_sigterm(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (blocked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(blocked, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.long
class TestKill:
    def test_nothing_is_lost_and_repeats_carry_their_origin(self, kafka: KafkaServer, tmp_path: Path) -> None:
        """In each round the worker is killed as soon as it has sent a new record."""
        pipeline = Pipeline(kafka, tmp_path)
        for number in range(ROUNDS):
            pipeline.feed(numbered(number * PER_ROUND, (number + 1) * PER_ROUND))
            with pipeline.watch_sink() as came, pipeline.worker() as worker:
                came()
                worker.kill()
        with pipeline.worker():
            pipeline.wait_committed(ROUNDS * PER_ROUND)
        check_copy(pipeline, numbered(0, ROUNDS * PER_ROUND), repeats=True)


class TestPlannedChanges:
    def test_stop_and_start_repeat_nothing(self, kafka: KafkaServer, tmp_path: Path) -> None:
        pipeline = Pipeline(kafka, tmp_path)
        pipeline.feed(numbered(0, 3000))
        with pipeline.worker() as worker:
            worker.ready()
            pipeline.feed(numbered(3000, 6000))
            assert worker.terminate() == 0
        done = pipeline.committed()
        assert pipeline.sent() == done
        with pipeline.worker():
            pipeline.wait_committed(6000)
        check_copy(pipeline, numbered(0, 6000), repeats=False)

    @pytest.mark.parametrize("delivery", get_args(DeliveryMode))
    def test_a_worker_can_be_stopped_while_it_starts(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        with Pipeline(kafka, tmp_path, delivery=delivery).worker() as worker:
            until(lambda: blocks_sigterm(worker.pid), what="a blocked SIGTERM")
            assert worker.terminate() == 0

    @pytest.mark.slow
    def test_a_second_worker_takes_its_share_and_repeats_nothing(self, kafka: KafkaServer, tmp_path: Path) -> None:
        pipeline = Pipeline(kafka, tmp_path)
        fed = 0
        with pipeline.worker(0) as first:
            first.ready()
            with pipeline.worker(1) as second:
                second.ready()
                while not second.beats or not second.beats[-1].committed_batches:
                    pipeline.feed(numbered(fed, fed + 400))
                    fed += 400
                    second.wait(lambda beat: True)
                pipeline.wait_committed(fed)
                assert second.terminate() == 0
                assert first.terminate() == 0
        check_copy(pipeline, numbered(0, fed), repeats=False)


class TestRefusal:
    def test_records_are_read_again_in_order(self, kafka: KafkaServer, tmp_path: Path) -> None:
        """The sink topic rejects large records for a while.

        The worker waits, and continues when it accepts them.
        """
        pipeline = Pipeline(kafka, tmp_path, sink_config={"max.message.bytes": "2000"})
        with pipeline.worker() as worker:
            worker.ready()
            pipeline.feed(numbered(0, 4 * PARTITIONS))
            big = [{"n": n, "pad": random.randbytes(4000).hex()} for n in range(100, 104)]
            pipeline.feed(big)
            pipeline.feed(numbered(200, 300))
            assert "was not written" in worker.wait(lambda beat: beat.state == "waiting").reason
            allow_large_records(kafka, pipeline.sink)
            pipeline.wait_committed(4 * PARTITIONS + 4 + 100)
            worker.ready()
            assert worker.terminate() == 0
        check_copy(pipeline, [*numbered(0, 4 * PARTITIONS), *big, *numbered(200, 300)], repeats=True)


@pytest.mark.long
class TestTopicDeleted:
    @pytest.mark.parametrize("delivery", BOTH)
    def test_the_worker_reports_a_deleted_topic_and_continues_when_it_exists_again(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
        with pipeline.worker() as worker:
            worker.ready()
            kafka.admin.delete_topics([pipeline.sink])[pipeline.sink].result(30)
            # Until the broker has applied the deletion, it acknowledges records that the deletion then removes.
            until(lambda: pipeline.sink not in kafka.admin.list_topics(timeout=10).topics, what="the deletion")
            pipeline.feed(numbered(0, 40))
            assert worker.wait(lambda beat: beat.state == "waiting").reason
            kafka.create_topic(pipeline.sink, PARTITIONS)
            pipeline.wait_committed(40)
            worker.ready()
            assert worker.terminate() == 0
        check_copy(pipeline, numbered(0, 40), repeats=delivery == "at_least_once")


class TestRights:
    @pytest.mark.long
    @pytest.mark.parametrize("delivery", BOTH)
    def test_the_worker_waits_for_a_revoked_acl(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        broker, user = KafkaClusterAdmin(kafka.access), User(kafka.unique("wrk"), "a password")
        pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
        ids = transactional_id_prefix(pipeline.spec.config_id)
        acls = (
            Acl(user.name, "topic", pipeline.source, ("READ",)),
            Acl(user.name, "group", pipeline.group, ("READ",)),
            Acl(user.name, "topic", pipeline.dead, ("WRITE",)),
            Acl(user.name, "transactional_id", ids, ("WRITE",), prefixed=True),
            Acl(user.name, "topic", pipeline.sink, ("WRITE",)),
        )
        owned = DeploymentResources((), (user,), acls)
        broker.ensure(owned)
        access = kafka.user(user.name, user.password)
        pipeline.spec = pipeline.spec.model_copy(update={"kafka": access})
        with pipeline.worker() as worker:
            pipeline.feed(numbered(0, 40))
            pipeline.wait_committed(40)
            broker.remove_stale(replace(owned, acls=acls[:-1]), [])
            pipeline.feed(numbered(40, 80))
            worker.wait(lambda beat: beat.state == "waiting" and "uthorization" in beat.reason)
            broker.ensure(owned)
            pipeline.wait_committed(80)
            worker.ready()
            assert worker.terminate() == 0
        check_copy(pipeline, numbered(0, 80), repeats=delivery == "at_least_once")


class TestGap:
    @pytest.mark.long
    @pytest.mark.parametrize("delivery", BOTH)
    def test_deleted_records_are_reported_and_skipped(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        """The records were deleted while no worker ran.

        The first worker is killed after it has reported the gap.
        """
        pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
        records = numbered(0, 40)
        pipeline.feed(records)
        kafka.truncate(pipeline.source, 0, 5)
        sentence = f"{pipeline.source}, partition 0, were deleted before they were read: offsets [0, 5)"
        with pipeline.worker() as worker:
            beat = worker.wait(lambda beat: sentence in beat.reason)
            assert [line.level for line in beat.logs if sentence in line.message] == ["error"]
            worker.kill()
        with pipeline.worker() as worker:
            pipeline.wait_committed(40)
            assert worker.ready().terminate() == 0
        check_copy(pipeline, [r for r in records if r not in records[::PARTITIONS][:5]], repeats=True)

    @pytest.mark.parametrize("delivery", BOTH)
    def test_the_end_of_a_gap_is_committed_without_further_records(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
        pipeline.feed(numbered(0, 8))
        kafka.truncate(pipeline.source, 0, 2)
        with pipeline.worker():
            pipeline.wait_committed(8)


@pytest.mark.long
class TestSourceMadeAgain:
    @pytest.mark.parametrize("delivery", BOTH)
    def test_the_worker_ends_and_reads_nothing_of_the_new_topic(
        self, kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode
    ) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
        pipeline.feed(numbered(0, 40))
        with pipeline.worker() as worker:
            pipeline.wait_committed(40)
            kafka.recreate_topic(pipeline.source, PARTITIONS)
            pipeline.feed(numbered(100, 120))
            assert "was deleted and created again" in worker.wait(lambda beat: beat.state == "failed").reason
            assert worker.exit_status() == 1
        with pipeline.worker() as worker:
            assert "created again" in worker.wait(lambda beat: beat.state == "failed").reason
        check_copy(pipeline, numbered(0, 40), repeats=False)


def allow_large_records(kafka: KafkaServer, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", "1048588", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in kafka.admin.incremental_alter_configs([change]).values():
        future.result(30)
