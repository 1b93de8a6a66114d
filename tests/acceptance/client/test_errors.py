"""A running installation sends the problem documents that the errors are made from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headwater_client import (
    Conflict,
    ConnectionFailed,
    Headwater,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    RevisionChanged,
    Unauthenticated,
    Unprocessable,
    kafka,
    set_filter,
    v8,
)
from tests.acceptance.installation import Installation

SOURCE = ("base", "log")
SINKS = [kafka("out")]


@contextmanager
def client_of(installation: Installation, owner: str, *flags: str) -> Iterator[Headwater]:
    created = installation.run("keys", "create", "--owner", owner, *flags)
    with Headwater(installation.url, created.stdout.strip()) as client:
        yield client


def test_a_fault_names_the_member(hw: Any) -> None:
    with pytest.raises(Unprocessable) as caught:
        hw.flows.create(name="x", source=SOURCE, transforms=[v8("function process(")], sinks=SINKS)
    assert caught.value.errors[0].pointer == "/pipeline_config/transforms/0/script"
    assert caught.value.problem.request_id


def test_nothing_has_the_id(hw: Any) -> None:
    with pytest.raises(NotFound):
        hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
    with pytest.raises(NotFound):
        hw.datasets.add_entries("no such dataset", ["a"])


def test_the_key_is_invalid(installation: Installation) -> None:
    with Headwater(installation.url, "hw_live_x") as hw, pytest.raises(Unauthenticated):
        hw.me()


def test_the_key_lacks_a_scope(installation: Installation) -> None:
    with client_of(installation, "client-reader", "--scope", "flow:read") as hw, pytest.raises(NotAllowed) as caught:
        hw.flows.create(name="x", source=SOURCE, sinks=SINKS)
    assert not isinstance(caught.value, QuotaExceeded)
    assert "flow:write" in caught.value.problem.detail


def test_a_quota_is_used_up(installation: Installation) -> None:
    with client_of(installation, "client-small") as hw:
        installation.run("owners", "set", "client-small", "--max-datasets", "1")
        hw.datasets.create("one")
        with pytest.raises(QuotaExceeded) as caught:
            hw.datasets.create("two")
    assert (caught.value.used, caught.value.allowed) == (1, 1)


def test_a_conflict_and_a_changed_revision(hw: Any) -> None:
    flow = hw.flows.create(name="x", source=SOURCE, transforms=[set_filter("root = this.a")], sinks=SINKS)
    try:
        other = hw.flows.get(flow.id)
        other.update(description="by somebody else")
        with pytest.raises(RevisionChanged):
            flow.update(description="mine")
        assert flow.refresh().update(description="mine").revision == 3
        with pytest.raises(Conflict, match="draft"):
            flow.pause()
    finally:
        flow.delete()


def test_the_server_is_unreachable(installation: Installation) -> None:
    with Headwater("http://127.0.0.1:1", installation.key, retries=1) as hw, pytest.raises(ConnectionFailed):
        hw.me()
