"""A pipeline from its creation to its end, as a user of the client sees it."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from headwater_client import NotFound, kafka, set_filter, upload, v8
from headwater_client.models.deployment import Deployment
from tests.acceptance.installation import Installation
from tests.support.waiting import until

TOKEN = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
LARGE = 123456789012345678901234567890
ADD_A_MEMBER = "function process(record) { record.seen = true; return record; }"
FAIL = "function process(record) { throw new TypeError('not yet'); }"
unique = itertools.count()


def transfer(number: int, token: str = TOKEN) -> dict[str, Any]:
    return {"token_address": token, "transaction_hash": f"0x{number}", "log_index": number, "raw_amount": LARGE}


@pytest.fixture
def flow(hw: Any) -> Iterator[Any]:
    """Return a pipeline with a filter and a script, which is not deployed."""
    flow = hw.flows.create(
        name=f"client {next(unique)}",
        source=("base", "erc20_token_transfer"),
        transforms=[set_filter("root = this.token_address", values=[TOKEN], name="token"), v8(ADD_A_MEMBER, name="js")],
        sinks=[kafka("out")],
    )
    yield flow
    flow.delete()


def consumed(deployment: Deployment, count: int) -> list[Any]:
    return [record.record for record in itertools.islice(deployment.consume("out", idle_s=60), count)]


def test_a_first_pipeline(installation: Installation, hw: Any, flow: Any) -> None:
    deployment = flow.deploy()
    assert deployment.sink("out").topic == f"flow.{flow.id}.out"
    records = [transfer(1, "0x1"), transfer(2)]
    with flow.tail("out", on_open=lambda: installation.feed("base", "erc20_token_transfer", records)) as items:
        assert next(items).record == {**transfer(2), "seen": True}
    assert consumed(deployment, 1) == [{**transfer(2), "seen": True}]
    assert [item.record["log_index"] for item in flow.records("out")] == [2]
    assert flow.stats().workers_health.healthy_workers == 1
    until(lambda: flow.metrics_summary().messages_sent_per_min > 0, 30, "a metric")
    item = next(item for item in hw.flows.overview(state="deployed") if item.id == flow.id)
    assert item.condition in {"RollingOut", "Stable"}


def test_filter_values(hw: Any, flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "REQUEST_BATCH_VALUES", 15_000)
    token = flow.filters["token"]
    values = [f"0x{number:040x}" for number in range(100_000)]
    added = token.add(iter(values))
    assert (added.sent, added.changed, added.complete) == (100_000, 100_000, 100_000)
    assert token.count().count == 100_001
    assert token.check(values[-1].upper().replace("X", "x"))
    assert sorted(token.values()) == sorted([*values, TOKEN])
    assert token.remove(values[:60_000]).changed == 60_000
    assert token.replace(iter(values)).count == 100_000
    assert token.page(count=10).total_count == 100_000


def test_datasets(hw: Any) -> None:
    name = f"watched {next(unique)}"
    dataset = hw.datasets.create(name)
    assert dataset.add(["0xA", "0xb"]).changed == 2
    assert hw.datasets.add_entries(name, ["0xb", "0xc"]).changed == 1
    assert sorted(dataset.values()) == ["0xa", "0xb", "0xc"]
    assert hw.datasets.find(name).id == dataset.id
    assert dataset.id in [each.id for each in hw.datasets.list(page_size=1)]
    assert dataset.applied(wait_s=5).applied
    dataset.delete()
    assert hw.datasets.find(name) is None


def test_a_redrive(installation: Installation, flow: Any) -> None:
    flow.change_transform("js", v8(FAIL))
    deployment = flow.deploy()
    installation.feed("base", "erc20_token_transfer", (transfer(number) for number in range(5)))
    until(lambda: sum(group.count for group in flow.dead_letters.summary()) == 5, 60, "the letters")
    assert {letter.record["raw_amount"] for letter in flow.dead_letters.list(page_size=2)} == {LARGE}
    flow.change_transform("js", v8(ADD_A_MEMBER))
    assert flow.dead_letters.count(error="TypeError") == 5
    states: list[Any] = []
    assert flow.dead_letters.redrive(error="TypeError", progress=states.append).delivered == 5
    assert states[-1].state == "done"
    assert sorted(record["log_index"] for record in consumed(deployment, 5)) == [0, 1, 2, 3, 4]


def test_pause_rewind_and_rollback(installation: Installation, hw: Any, flow: Any) -> None:
    deployment = flow.deploy()
    installation.feed("base", "erc20_token_transfer", [transfer(7)])
    assert len(consumed(deployment, 1)) == 1
    flow.pause()
    assert flow.deployment().status == "paused"
    assert flow.resume().gaps == []
    assert flow.rewind("latest").positions is not None
    flow.update(description="changed")
    assert flow.deploy().revision == flow.revision == 2
    assert "changed" in flow.diff(2).diff
    assert flow.rollback(1).desired_revision == 3
    assert [revision.revision for revision in flow.revisions(page_size=2)] == [3, 2, 1]
    assert flow.read_revision(2).description == "changed"
    assert flow.rotate_credentials().sink().password != deployment.sink().password
    flow.teardown()
    with pytest.raises(NotFound):
        flow.deployment()


def test_a_trial(hw: Any, flow: Any) -> None:
    document = {"name": "trial", "pipeline_config": flow.config.pipeline_config, "id": flow.id}
    trial = hw.flows.validate(document, records=[transfer(1), transfer(2, "0x1")])
    assert [record.outcome for record in trial.records] == ["sent", "dropped"]
    assert trial.records[0].outputs[0]["raw_amount"] == LARGE


def test_streams_and_prices(installation: Installation, hw: Any) -> None:
    assert ("base", "log") in [(stream.chain, stream.entity) for stream in hw.streams.list()]
    installation.feed("hyperliquid", "block", [{"n": LARGE}])
    assert hw.streams.records("hyperliquid", "block", limit=1)[0].record["n"] == LARGE
    assert hw.prices.get("0xabc", "base") is None
    assert hw.me().owner == "local"
    assert "configurations" in [quota.name for quota in hw.limits()]
    assert hw.readiness().status == "ready"
