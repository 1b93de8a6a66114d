"""Filter values and dataset entries act at once, without a redeploy."""

from typing import Any

import httpx

from tests.acceptance.stack import Stack, deployed, pipeline, reading

TOKEN, OTHER = "0x" + "a" * 40, "0x" + "b" * 40


def transfer(number: int, token: str = TOKEN, sender: str = OTHER) -> dict[str, Any]:
    return {
        "token_address": token,
        "from_address": sender,
        "raw_amount": 10**30 + number,
        "transaction_hash": f"0x{number:064x}",
        "log_index": number,
    }


class TestFilterValues:
    def test_a_value_is_seen_by_records_sent_after_the_answer(self, stack: Stack, client: httpx.Client) -> None:
        body = pipeline(transforms=[{"type": "redis_set_filter", "filter_expr": "root = this.token_address"}])
        with deployed(client, body) as made, reading(made.sink) as reader:
            for round_number in range(5):
                token = f"0x{round_number:040x}"
                stack.feed("base", "erc20_token_transfer", [transfer(2 * round_number, token)])
                added = client.post(made.filter_url(), json={"values": [token.upper().replace("X", "x")]})
                assert added.json()["added"] == 1
                stack.feed("base", "erc20_token_transfer", [transfer(2 * round_number + 1, token)])
                records = reader.read(round_number + 1)
                assert records[-1].json() == transfer(2 * round_number + 1, token)
            removed = client.request("DELETE", made.filter_url(), json={"values": [token]})
            assert removed.json()["removed"] == 1
            stack.feed("base", "erc20_token_transfer", [transfer(90, token), transfer(91, f"0x{0:040x}")])
            assert {record.json()["log_index"] for record in reader.read(6)} == {1, 3, 5, 7, 9, 91}

    def test_records_that_only_filters_touch_leave_byte_for_byte(self, stack: Stack, client: httpx.Client) -> None:
        filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [TOKEN]}
        odd = b'{ "token_address" : "' + TOKEN.encode() + b'", "n": 1.00, "big": 123456789012345678901234567890 }'
        with deployed(client, pipeline(transforms=[filter_])) as made, reading(made.sink) as reader:
            stack.feed("base", "erc20_token_transfer", [odd])
            assert reader.read(1)[0].value == odd


class TestDatasets:
    def test_an_entry_is_seen_by_records_sent_after_the_answer(self, stack: Stack, client: httpx.Client) -> None:
        name = "watched wallets"
        dataset = client.post("/api/v1/flow/datasets", json={"name": name})
        assert dataset.status_code == 201, dataset.text
        script = f"""function process(record) {{
            return flow.contains({name!r}, [record.from_address]) ? {{...record, seen: true}} : null;
        }}"""
        body = pipeline(transforms=[{"type": "v8", "script": script}])
        with deployed(client, body) as made, reading(made.sink) as reader:
            for round_number in range(5):
                wallet = f"0x{round_number:040x}"
                stack.feed("base", "erc20_token_transfer", [transfer(2 * round_number, sender=wallet)])
                by_name = {"name": name, "values": [wallet]}
                assert client.post("/api/v1/flow/datasets/entries", json=by_name).json() == {"count": 1}
                stack.feed("base", "erc20_token_transfer", [transfer(2 * round_number + 1, sender=wallet)])
                record = reader.read(round_number + 1)[-1].json()
                assert record == {**transfer(2 * round_number + 1, sender=wallet), "seen": True}
        assert client.delete(f"/api/v1/flow/datasets/{dataset.json()['id']}").status_code == 204

    def test_an_unknown_dataset_is_a_record_error_and_never_false(self, stack: Stack, client: httpx.Client) -> None:
        script = "const process = (r) => flow.contains('nobody', [r.from_address]) ? r : null;"
        body = pipeline(transforms=[{"type": "v8", "script": script}])
        with (
            deployed(client, body) as made,
            reading(made.sink, made.answer["dead_letter"]["topic"]) as reader,
        ):
            stack.feed("base", "erc20_token_transfer", [transfer(1)])
            letter = reader.read(1)[0]
            assert letter.json() == transfer(1)
            assert "nobody" in letter.headers["headwater-message"]
            assert letter.headers["headwater-transform"] == made.uid()
