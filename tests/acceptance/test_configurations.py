"""Edit, copy, validate and redeploy configurations."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, deployed, pipeline, reading

FLOW = "/api/v1/flow"
ENTITY = "erc20_token_transfer"
TOKEN, OTHER = "0x" + "a" * 40, "0x" + "b" * 40
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


def transfer(number: int, token: str = TOKEN) -> dict[str, Any]:
    """Return a record.

    All records have the same key, so that they stay in order on one partition.
    """
    return {"n": number, "token_address": token, "transaction_hash": f"0x{1:064x}", "log_index": 0}


def marks(mark: str) -> dict[str, str]:
    """Return a script that adds a mark to each record."""
    return {"type": "v8", "script": f"function process(record) {{ record.mark = {mark!r}; return record; }}"}


def ok(response: httpx2.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


class TestSaved:
    def test_get_edit_put_and_copy(self, client: httpx2.Client) -> None:
        body = pipeline(transforms=[FILTER | {"set_values": [TOKEN]}, marks("a")])
        created = client.post(FLOW, json=body)
        assert created.headers["etag"] == '"1"'
        path = f"{FLOW}/{created.json()['id']}"
        read = client.get(path)
        edited = read.json() | {"name": "edited", "tags": ["new"]}
        edited["pipeline_config"]["transforms"][1] |= marks("b")
        put = client.put(path, json=edited, headers={"If-Match": read.headers["etag"]})
        saved = ok(put)
        assert (saved["revision"], put.headers["etag"], saved["name"]) == (2, '"2"', "edited")
        assert saved["pipeline_config"] == edited["pipeline_config"]
        late = client.put(path, json=edited, headers={"If-Match": read.headers["etag"]})
        assert late.status_code == 412
        assert '"2"' in late.json()["detail"]
        assert client.delete(path, headers={"If-Match": '"1"'}).status_code == 412
        uid = saved["pipeline_config"]["transforms"][0]["uid"]
        assert ok(client.get(f"{path}/transforms/{uid}/filter-values"))["values"] == [TOKEN]
        copy = client.post(FLOW, json=saved)
        assert copy.status_code == 201, copy.text
        assert copy.json()["id"] != saved["id"]
        for config_id in (copy.json()["id"], saved["id"]):
            assert client.delete(f"{FLOW}/{config_id}").status_code == 200

    def test_scripts_are_compiled_and_run_on_an_example(self, client: httpx2.Client) -> None:
        flow = client.post(FLOW, json=pipeline(transforms=[marks("a")])).json()
        path, uid = f"{FLOW}/{flow['id']}", flow["pipeline_config"]["transforms"][0]["uid"]
        broken = {"type": "v8", "script": "function process(r) {\n  return r..a\n}"}
        throws = {"type": "v8", "script": "function process(r) { return r.no.such.member }"}
        for answer, pointer in (
            (client.put(path, json=pipeline(transforms=[broken])), "/pipeline_config/transforms/0/script"),
            (client.put(f"{path}/transforms", json=[marks("a"), broken]), "/1/script"),
            (client.patch(f"{path}/transforms/{uid}", json=broken), "/script"),
        ):
            assert answer.status_code == 422, answer.text
            [fault] = answer.json()["errors"]
            assert fault["pointer"] == pointer
            assert "in line 2, column 12" in fault["detail"]
        assert ok(client.get(path))["revision"] == 1
        assert client.put(f"{path}/transforms", json=[]).status_code == 422
        [warned] = ok(client.put(f"{path}/transforms", json=[throws]))
        assert [w["pointer"] for w in warned["warnings"]] == ["/0/script"]
        assert "TypeError" in warned["warnings"][0]["detail"]
        assert client.delete(path).status_code == 200

    def test_concurrent_changes_are_all_saved(self, client: httpx2.Client) -> None:
        flow = client.post(FLOW, json=pipeline(transforms=[marks(str(i)) for i in range(4)])).json()
        path = f"{FLOW}/{flow['id']}"
        uids = [t["uid"] for t in flow["pipeline_config"]["transforms"]]

        def change(number: int) -> int:
            return client.patch(f"{path}/transforms/{uids[number]}", json=marks(f"new {number}")).status_code

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(change, range(4))) == {200}
        saved = ok(client.get(path))
        assert saved["revision"] == 5
        wanted = [marks(f"new {number}") | {"uid": uid} for number, uid in enumerate(uids)]
        assert saved["pipeline_config"]["transforms"] == wanted
        assert client.delete(path).status_code == 200


class TestDeployed:
    @pytest.mark.slow
    def test_a_patch_applies_to_records_after_its_response(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        with deployed(client, pipeline(transforms=[marks("old")])) as deployment, reading(deployment.sink) as reader:
            installation.feed("base", ENTITY, [transfer(0)])
            assert reader.read(1)[0].json()["mark"] == "old"
            changed = ok(client.patch(f"{FLOW}/{deployment.id}/transforms/{deployment.uid()}", json=marks("new")))
            assert changed == marks("new") | {"uid": deployment.uid()}
            now = ok(client.get(f"{FLOW}/{deployment.id}/deploy"))
            assert (now["revision"], now["sinks"]) == (2, deployment.deploy_response["sinks"])
            installation.feed("base", ENTITY, [transfer(1)])
            assert [(r.json()["n"], r.json()["mark"]) for r in reader.read(2)] == [(0, "old"), (1, "new")]

    @pytest.mark.slow
    def test_put_takes_effect_at_the_next_deploy(self, installation: Installation, client: httpx2.Client) -> None:
        with deployed(client, pipeline(transforms=[marks("old")])) as deployment, reading(deployment.sink) as reader:
            ok(client.put(f"{FLOW}/{deployment.id}", json=pipeline(transforms=[marks("new")])))
            installation.feed("base", ENTITY, [transfer(0)])
            assert reader.read(1)[0].json()["mark"] == "old"
            ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
            installation.feed("base", ENTITY, [transfer(1)])
            assert reader.read(2)[1].json()["mark"] == "new"

    def test_replacing_the_list_adds_removes_updates_and_reorders_transforms(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        body = pipeline(transforms=[marks("gone"), FILTER | {"set_values": [TOKEN]}, marks("old")])
        with deployed(client, body) as deployment, reading(deployment.sink) as reader:
            ok(client.post(deployment.filter_url(1), json={"values": [OTHER]}))
            removed, kept, script = deployment.configuration["pipeline_config"]["transforms"]
            added = {"type": "redis_set_filter", "filter_expr": "root = this.n", "set_values": ["1", "3"]}
            sent = [marks("new") | {"uid": script["uid"]}, kept, added]
            answer = ok(client.put(f"{FLOW}/{deployment.id}/transforms", json=sent))
            assert [t["uid"] for t in answer[:2]] == [script["uid"], kept["uid"]]
            assert answer[2]["uid"] not in {removed["uid"], kept["uid"], script["uid"]}
            installation.feed(
                "base", ENTITY, [transfer(0), transfer(1, OTHER), transfer(2), transfer(3), transfer(3, "0xno")]
            )
            records = [record.json() for record in reader.read(2)]
            assert [(r["n"], r["token_address"], r["mark"]) for r in records] == [(1, OTHER, "new"), (3, TOKEN, "new")]
            assert client.get(f"{FLOW}/{deployment.id}/transforms/{removed['uid']}/filter-values").status_code in (
                404,
                409,
            )


class TestValidate:
    def test_transforms_run_on_the_given_records(self, installation: Installation, client: httpx2.Client) -> None:
        dataset = client.post(f"{FLOW}/datasets", json={"name": "tried"}).json()
        client.post(f"{FLOW}/datasets/{dataset['id']}/entries", json={"values": [OTHER]})
        script = """
            function process(record) {
                console.log('n is', record.n);
                if (record.n === 1) for (;;);
                if (record.n === 2) return null;
                if (record.n === 3) throw new RangeError('three');
                if (!flow.contains('tried', [record.who])) return null;
                return [record, {again: record.n}];
            }"""
        body = pipeline(transforms=[FILTER | {"set_values": [TOKEN]}, {"type": "v8", "script": script}])
        big = f'{{"n": 12345678901234567890, "token_address": "{TOKEN.upper()}", "who": "{OTHER}"}}'
        small = [f'{{"n":{n},"token_address":"{TOKEN}"}}' for n in (1, 2, 3)]
        records = ",".join([big, *small, '{"n": 4}'])
        text = json.dumps(body | {"records": 0}).replace('"records": 0', f'"records": [{records}]')
        before = client.get(FLOW).json()
        answer = client.post(f"{FLOW}/validate", content=text, headers={"Content-Type": "application/json"})
        sent, timeout, null, thrown, dropped = ok(answer)["records"]
        assert sent["outcome"] == "sent"
        assert [output.get("n", output.get("again")) for output in sent["outputs"]] == [12345678901234567890] * 2
        assert sent["steps"][1]["logs"] == ["n is 12345678901234567890n"]
        assert timeout["outcome"] == "error"
        assert timeout["steps"][1]["errors"][0]["error"] == "Timeout"
        assert (null["outcome"], null["steps"][1]["dropped"]) == ("dropped", 1)
        [error] = thrown["steps"][1]["errors"]
        assert (error["error"], error["message"], error["line"]) == ("RangeError", "three", 6)
        assert (dropped["outcome"], len(dropped["steps"])) == ("dropped", 1)
        assert client.get(FLOW).json() == before
        assert client.delete(f"{FLOW}/datasets/{dataset['id']}").status_code == 204

    def test_an_unpaired_surrogate_is_returned_as_it_is_written(self, client: httpx2.Client) -> None:
        script = "function process(record) { return {short: record.name.slice(0, 1), long: 10n ** 5000n}; }"
        body = pipeline(transforms=[{"type": "v8", "script": script}]) | {"records": [{"name": "\U0001f680"}]}
        [tried] = json.loads(client.post(f"{FLOW}/validate", json=body).content, parse_int=str)["records"]
        assert (tried["outcome"], tried["outputs"]) == ("sent", [{"short": "\ud83d", "long": "1" + "0" * 5000}])

    def test_validate_rejects_what_create_rejects(self, client: httpx2.Client) -> None:
        body = pipeline(transforms=[{"type": "v8", "script": "let x = ;"}])
        answers = [client.post(path, json=body) for path in (FLOW, f"{FLOW}/validate")]
        assert [answer.status_code for answer in answers] == [422, 422]
        assert answers[0].json()["errors"] == answers[1].json()["errors"]
