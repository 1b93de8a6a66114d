"""A changed configuration is validated on the stream and compared with what is deployed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import owner
from tests.acceptance.installation import Installation, deployed, pipeline

CHAIN, ENTITY = "base", "erc721_token_transfer"
FLOW = "/api/v1/flow"
VALIDATE = f"{FLOW}/validate"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
KEPT, OTHER = "0x" + "a" * 40, "0x" + "b" * 40
BIG = 123456789012345678901234567890
PADDING = "x" * 700
COUNT = 2000


def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def v8(script: str) -> dict[str, Any]:
    return {"type": "v8", "script": f"function process(record) {{ {script} }}"}


def body(*transforms: dict[str, Any], **members: Any) -> dict[str, Any]:
    return pipeline(ENTITY, CHAIN, transforms=list(transforms)) | members


def records(first: int, count: int) -> list[dict[str, Any]]:
    """Return transfers of which every second one has the token KEPT."""
    return [
        {
            "n": n,
            "big": BIG,
            "token_address": OTHER if n % 2 else KEPT,
            "padding": PADDING,
            "transaction_hash": f"0x{n:064x}",
            "log_index": 0,
        }
        for n in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def stream(installation: Installation, client: httpx2.Client) -> Installation:
    """Return the installation after COUNT records were written to the stream."""
    with deployed(client, body()):
        pass  # the first deploy creates the topic of the stream
    installation.feed(CHAIN, ENTITY, records(0, COUNT))
    return installation


def validate(client: httpx2.Client, sent: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = ok(client.post(VALIDATE, json=sent))
    return answer


@pytest.mark.usefixtures("stream")
class TestSample:
    @pytest.mark.proves("11/POST /validate")
    def test_the_newest_records(self, client: httpx2.Client) -> None:
        sent = body(FILTER | {"set_values": [KEPT]}, v8("return {n: record.n, big: record.big + 1n};"))
        answer = validate(client, sent | {"sample": {"last": COUNT}})
        assert answer["sample"] | {"shown": 0} == {
            "requested": COUNT,
            "read": COUNT,
            "done": COUNT,
            "shown": 0,
            "reason": "",
        }
        summary = answer["summary"]
        assert [summary[name] for name in ("sent", "dropped", "error", "unfinished")] == [COUNT / 2, COUNT / 2, 0, 0]
        assert [step["received"] for step in summary["transforms"]] == [COUNT, COUNT / 2]
        shown = answer["records"]
        assert 0 < len(shown) == answer["sample"]["shown"] <= COUNT
        for record in shown:
            n = record["input"]["record"]["n"]
            assert record["outputs"] == ([] if n % 2 else [{"n": n, "big": BIG + 1}])

    @pytest.mark.proves("11/POST /validate")
    def test_records_of_the_sample_are_those_of_the_stream(self, client: httpx2.Client) -> None:
        items = ok(client.get(f"{FLOW}/streams/{CHAIN}/{ENTITY}/records", params={"limit": 50}))["items"]
        newest = validate(client, body() | {"sample": {"last": 50}})["records"]
        assert [record["input"] for record in newest] == items
        positions = [f"{item['partition']}/{item['offset']}" for item in reversed(items)]
        chosen = validate(client, body() | {"sample": {"positions": positions}})["records"]
        assert [record["input"] for record in chosen] == items[::-1]
        sample = {"from": items[0]["timestamp"], "count": 10}
        since = validate(client, body() | {"sample": sample})
        assert since["sample"]["done"] == 10
        assert all(record["input"]["timestamp"] >= items[0]["timestamp"] for record in since["records"])

    def test_scripts_see_the_time_of_the_broker(self, client: httpx2.Client) -> None:
        script = v8("return {time: new Date().toISOString()};")
        for record in validate(client, body(script) | {"sample": {"last": 5}})["records"]:
            assert record["outputs"] == [{"time": record["input"]["timestamp"]}]

    @pytest.mark.proves("11/POST /validate")
    def test_nothing_is_saved(self, client: httpx2.Client) -> None:
        before = client.get(FLOW).json()
        validate(client, body(v8("return record;")) | {"sample": {"last": 5}, "detail": "summary"})
        assert client.get(FLOW).json() == before


class TestAgainst:
    @pytest.mark.proves("11/POST /validate (against)")
    def test_a_change_of_a_deployed_configuration(self, stream: Installation, client: httpx2.Client) -> None:
        with deployed(client, body(FILTER | {"set_values": [KEPT]}, v8("return record;"))) as running:
            uid = running.uid()
            ok(client.post(running.filter_url(), json={"values": [OTHER]}))
            changed = body(FILTER | {"uid": uid}, v8("return record.n % 4 === 0 ? null : {...record, seen: true};"))
            request = {"id": running.id, "sample": {"last": COUNT}, "against": "deployed", "detail": "summary"}
            answer = validate(client, changed | request)
            comparison = answer["comparison"]
            assert "records" not in answer
            assert answer["sample"]["done"] == COUNT
            counts = [comparison[name] for name in ("same", "changed", "only_before", "only_after")]
            assert counts == [0, COUNT * 3 / 4, COUNT / 4, 0]
            kinds = [example["difference"] for example in comparison["examples"]]
            assert (kinds.count("changed"), kinds.count("only_before")) == (5, 5)
            example = next(each for each in comparison["examples"] if each["difference"] == "changed")
            assert example["before"]["outputs"] == [example["input"]]
            assert example["after"]["outputs"] == [example["input"] | {"seen": True}]
            # What is deployed is compared, whatever was saved since.
            ok(client.put(f"{FLOW}/{running.id}", json=changed))
            again = validate(client, changed | request)["comparison"]
            assert again["only_before"] == COUNT / 4
            same = validate(client, changed | request | {"against": 2})["comparison"]
            assert same["same"] == COUNT

    def test_states(self, client: httpx2.Client, stream: Installation) -> None:
        created = ok(client.post(FLOW, json=body(v8("return record;"))), 201)
        request = body(v8("return record;")) | {"sample": {"last": 5}}
        draft = client.post(VALIDATE, json=request | {"id": created["id"], "against": "deployed"})
        assert (draft.status_code, "draft" in draft.json()["detail"]) == (409, True)
        assert client.post(VALIDATE, json=request | {"against": 1}).status_code == 422
        assert client.post(VALIDATE, json=request | {"id": created["id"], "against": 9}).status_code == 404
        with owner(stream, "stranger") as other:
            stranger = other.http.post(VALIDATE, json=request | {"id": created["id"], "against": 1})
        assert stranger.status_code == 404
        assert client.delete(f"{FLOW}/{created['id']}").status_code == 200


@pytest.mark.usefixtures("stream")
class TestHostile:
    @pytest.mark.parametrize(
        "bomb",
        ["for (;;);", "const all = []; for (;;) all.push(new Array(1e6).fill(1));", "(function f() { f(); })();"],
    )
    def test_the_next_call_is_unaffected(self, client: httpx2.Client, bomb: str) -> None:
        hostile = body(v8(f"if (record.n === 1000) {{ {bomb} }} return record;"))
        answer = validate(client, hostile | {"sample": {"last": COUNT}, "detail": "summary"})
        assert (answer["summary"]["error"], answer["summary"]["sent"]) == (1, COUNT - 1)
        [error] = answer["summary"]["errors"]
        assert error["message"]
        good = validate(client, body(v8("return record;")) | {"sample": {"last": COUNT}, "detail": "summary"})
        assert good["summary"]["sent"] == COUNT

    @pytest.mark.long
    def test_four_at_once_leave_lists_saves_and_deploys_alone(
        self, client: httpx2.Client, stream: Installation
    ) -> None:
        """The calls are repeated until the deploy has ended."""
        endless = body(v8("for (;;);")) | {"sample": {"last": 200}, "detail": "summary"}
        ended = threading.Event()

        def repeat(caller: httpx2.Client) -> list[dict[str, Any]]:
            answers = [validate(caller, endless)]
            while not ended.is_set():
                answers.append(validate(caller, endless))
            return answers

        with owner(stream, "first") as first, owner(stream, "second") as second, ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(repeat, each.http) for each in (first, second) * 2]
            try:
                with deployed(client, body(v8("return record;"))):
                    assert client.get(FLOW).status_code == 200
            finally:
                ended.set()
        assert all(answer["summary"]["unfinished"] for call in calls for answer in call.result())
