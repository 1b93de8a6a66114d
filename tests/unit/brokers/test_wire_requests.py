"""Requests and answers, compared with another implementation of the protocol."""

import struct
from typing import Any

import pytest
from aiokafka.protocol import admin, metadata, produce, transaction
from aiokafka.protocol.api import Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import Producer
from headwater.brokers.wire.produce import Produce
from headwater.brokers.wire.protocol import CLIENT_ID, Message
from headwater.brokers.wire.requests import (
    ApiVersions,
    Found,
    InitProducerId,
    Metadata,
    SaslAuthenticate,
    SaslHandshake,
    Token,
    Topic,
)

NUMBER = 70_000
INT16, INT32, INT64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
NAMES = st.text(max_size=30)
NODES = st.lists(INT32, max_size=4)


class MetadataRequest(metadata.MetadataRequest_v4):  # type: ignore[misc]  # it has no types
    """As version 7 is too, which the library does not have."""

    API_VERSION = 7


class MetadataResponse(Response):  # type: ignore[misc]
    """Version 7: with the epochs of leaders, and the replicas that are away."""

    API_KEY, API_VERSION = 3, 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String()), ("port", Int32), ("rack", String()))),
        ("cluster_id", String()),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String()),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline", Array(Int32)),
                    ),
                ),
            ),
        ),
    )


def sent(message: Message[Any]) -> bytes:
    return b"".join(message.parts(NUMBER))


def theirs(request: Any) -> bytes:
    header: bytes = request.build_request_header(NUMBER, CLIENT_ID).encode()
    body: bytes = request.encode()
    return header + body


def read(message: Message[Any], answer: Any) -> Any:
    return message.answer(memoryview(answer.encode()))


class TestRequests:
    def test_versions(self) -> None:
        assert sent(ApiVersions()) == theirs(admin.ApiVersionRequest_v0())

    def test_a_producer(self) -> None:
        assert sent(InitProducerId(1234)) == theirs(transaction.InitProducerIdRequest_v0(None, 1234))

    @given(NAMES)
    def test_a_handshake(self, mechanism: str) -> None:
        assert sent(SaslHandshake(mechanism)) == theirs(admin.SaslHandShakeRequest_v1(mechanism))

    @given(st.binary())
    def test_a_token(self, token: bytes) -> None:
        assert sent(SaslAuthenticate(token)) == theirs(admin.SaslAuthenticateRequest_v0(token))

    @given(st.lists(NAMES, max_size=4))
    def test_topics(self, topics: list[str]) -> None:
        assert sent(Metadata(topics)) == theirs(MetadataRequest(topics, False))

    @given(st.dictionaries(NAMES, st.lists(st.tuples(INT32, st.tuples(st.binary(), st.binary())))))
    def test_batches(self, batches: dict[str, list[tuple[int, tuple[bytes, bytes]]]]) -> None:
        joined = [(topic, [(at, b"".join(batch)) for at, batch in parts]) for topic, parts in batches.items()]
        assert sent(Produce(batches, 1.5)) == theirs(produce.ProduceRequest_v7(None, -1, 1500, joined))


class TestAnswers:
    @given(st.lists(st.tuples(INT16, INT16, INT16), unique_by=lambda row: row[0]))
    def test_versions(self, rows: list[tuple[int, int, int]]) -> None:
        answer = admin.ApiVersionResponse_v0(error_code=0, api_versions=rows)
        assert read(ApiVersions(), answer) == {key: (first, last) for key, first, last in rows}

    @given(INT16, st.lists(NAMES))
    def test_a_handshake(self, code: int, mechanisms: list[str]) -> None:
        answer = admin.SaslHandShakeResponse_v1(error_code=code, enabled_mechanisms=mechanisms)
        assert read(SaslHandshake("PLAIN"), answer) == code

    @given(INT16, st.none() | NAMES, st.binary())
    def test_a_token(self, code: int, reason: str | None, token: bytes) -> None:
        answer = admin.SaslAuthenticateResponse_v0(error_code=code, error_message=reason, sasl_auth_bytes=token)
        assert read(SaslAuthenticate(b""), answer) == Token(code, reason or "", token)

    @given(INT16, INT64, INT16)
    def test_a_producer(self, code: int, producer: int, epoch: int) -> None:
        answer = transaction.InitProducerIdResponse_v0(
            throttle_time_ms=7, error_code=code, producer_id=producer, producer_epoch=epoch
        )
        assert read(InitProducerId(), answer) == (code, Producer(producer, epoch))

    @given(
        st.dictionaries(INT32, st.tuples(NAMES, INT32, st.none() | NAMES), max_size=4),
        st.lists(
            st.tuples(
                INT16,
                NAMES,
                st.booleans(),
                st.lists(
                    st.tuples(INT16, INT32, INT32, INT32, NODES, NODES, NODES), max_size=4, unique_by=lambda row: row[1]
                ),
            ),
            max_size=4,
        ),
        st.none() | NAMES,
    )
    def test_topics(self, brokers: dict[int, tuple[str, int, str | None]], topics: list[Any], cluster: Any) -> None:
        answer = MetadataResponse(
            throttle_time_ms=7,
            brokers=[(number, *rest) for number, rest in brokers.items()],
            cluster_id=cluster,
            controller_id=1,
            topics=topics,
        )
        assert read(Metadata([]), answer) == Found(
            {number: (host, port) for number, (host, port, _) in brokers.items()},
            [
                Topic(code, name, {at: (leader, epoch) for _, at, leader, epoch, *_ in rows})
                for code, name, _, rows in topics
            ],
        )

    @given(st.dictionaries(NAMES, st.lists(st.tuples(INT32, INT16, INT64, INT64, INT64), unique_by=lambda row: row[0])))
    def test_batches(self, topics: dict[str, list[tuple[int, int, int, int, int]]]) -> None:
        answer = produce.ProduceResponse_v7(topics=[*topics.items()], throttle_time_ms=7)
        assert read(Produce({}, 1), answer) == {(name, row[0]): row[1] for name, rows in topics.items() for row in rows}


class TestBrokenAnswers:
    def test_no_part_of_an_answer_is_read_as_one(self) -> None:
        whole = MetadataResponse(
            throttle_time_ms=0,
            brokers=[(1, "a", 9092, None)],
            cluster_id="c",
            controller_id=1,
            topics=[(0, "t", False, [(0, 0, 1, 5, [1], [1], [])])],
        ).encode()
        for size in range(len(whole)):
            with pytest.raises((ValueError, struct.error)):
                Metadata(["t"]).answer(memoryview(whole)[:size])

    @given(st.binary(max_size=100))
    def test_any_bytes_are_read_or_refused(self, payload: bytes) -> None:
        for message in (ApiVersions(), SaslHandshake(""), SaslAuthenticate(b""), Metadata([]), Produce({}, 1)):
            try:
                message.answer(memoryview(payload))
            except (ValueError, struct.error):
                continue
