"""Changes of filter values and dataset entries take effect immediately, without a redeploy."""

from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, TopicRecord, deployed, pipeline, reading

TOKEN, OTHER, ALWAYS = "0x" + "a" * 40, "0x" + "b" * 40, "0x" + "c" * 40


def transfer(number: int, token: str = TOKEN, sender: str = OTHER) -> dict[str, Any]:
    """Return a record. All records have the same key, so that they are processed in order."""
    return {
        "n": number,
        "token_address": token,
        "from_address": sender,
        "raw_amount": 10**30 + number,
        "transaction_hash": f"0x{1:064x}",
        "log_index": 0,
    }


def numbers(records: list[TopicRecord]) -> list[int]:
    return [record.json()["n"] for record in records]


class TestFilterValues:
    @pytest.mark.proves("1/set-filters", "4.3/changes-take-effect-immediately")
    def test_a_new_value_applies_to_records_sent_after_the_response(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [ALWAYS]}
        expected: list[int] = []
        with deployed(client, pipeline(transforms=[filter_])) as deployment, reading(deployment.sink) as reader:
            for first in range(0, 30, 3):
                token = f"0x{first:040x}"
                installation.feed("base", "erc20_token_transfer", [transfer(first, token), transfer(first + 1, ALWAYS)])
                expected.append(first + 1)
                assert numbers(reader.read(len(expected))) == expected
                added = client.post(deployment.filter_url(), json={"values": [token.upper().replace("X", "x")]})
                assert added.json()["added"] == 1
                installation.feed("base", "erc20_token_transfer", [transfer(first + 2, token)])
                expected.append(first + 2)
                assert numbers(reader.read(len(expected))) == expected
            removed = client.request("DELETE", deployment.filter_url(), json={"values": [token]})
            assert removed.json()["removed"] == 1
            installation.feed("base", "erc20_token_transfer", [transfer(90, token), transfer(91, ALWAYS)])
            assert numbers(reader.read(len(expected) + 1)) == [*expected, 91]

    @pytest.mark.proves("2.2/transform.redis_set_filter")
    def test_filters_do_not_change_the_bytes_of_records(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [TOKEN]}
        odd = b'{ "token_address" : "' + TOKEN.encode() + b'", "n": 1.00, "big": 123456789012345678901234567890 }'
        with deployed(client, pipeline(transforms=[filter_])) as deployment, reading(deployment.sink) as reader:
            installation.feed("base", "erc20_token_transfer", [odd])
            assert reader.read(1)[0].value == odd


class TestDatasets:
    @pytest.mark.proves("1/datasets", "4.4/both-add-values-duplicates-are-ignored")
    def test_a_new_entry_applies_to_records_sent_after_the_response(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        name = "watched wallets"
        dataset = client.post("/api/v1/flow/datasets", json={"name": name})
        assert dataset.status_code == 201, dataset.text
        by_id = f"/api/v1/flow/datasets/{dataset.json()['id']}/entries"
        assert client.post(by_id, json={"values": [ALWAYS]}).json()["count"] == 1
        expected: list[int] = []
        script = f"""function process(record) {{
            return flow.contains({name!r}, [record.from_address]) ? {{...record, seen: true}} : null;
        }}"""
        body = pipeline(transforms=[{"type": "v8", "script": script}])
        with deployed(client, body) as deployment, reading(deployment.sink) as reader:
            for first in range(0, 30, 3):
                wallet = f"0x{first:040x}"
                entries = {"name": name, "values": [wallet]}
                before = [transfer(first, sender=wallet), transfer(first + 1, sender=ALWAYS)]
                installation.feed("base", "erc20_token_transfer", before)
                expected.append(first + 1)
                assert numbers(reader.read(len(expected))) == expected
                assert client.post("/api/v1/flow/datasets/entries", json=entries).json()["count"] == 1
                installation.feed("base", "erc20_token_transfer", [transfer(first + 2, sender=wallet)])
                expected.append(first + 2)
                records = reader.read(len(expected))
                assert numbers(records) == expected
                assert records[-1].json() == {**transfer(first + 2, sender=wallet), "seen": True}
        assert client.delete(f"/api/v1/flow/datasets/{dataset.json()['id']}").status_code == 204

    def test_a_lookup_in_an_unknown_dataset_makes_a_dead_letter(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        script = "const process = (r) => flow.contains('nobody', [r.from_address]) ? r : null;"
        body = pipeline(transforms=[{"type": "v8", "script": script}])
        with (
            deployed(client, body) as deployment,
            reading(deployment.sink, deployment.deploy_response["dead_letter"]["topic"]) as reader,
        ):
            installation.feed("base", "erc20_token_transfer", [transfer(1)])
            letter = reader.read(1)[0]
            assert letter.json() == transfer(1)
            assert "nobody" in letter.headers["headwater-message"]
            assert letter.headers["headwater-transform"] == deployment.uid()
