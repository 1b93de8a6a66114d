"""Many users at once: 50 creates and deploys side by side while the command line writes to the same database."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.acceptance.stack import Stack, beside, pipeline, reading

PARALLEL = 50


class TestFiftyAtOnce:
    @pytest.mark.long
    @pytest.mark.timeout(300)
    @pytest.mark.proves("3/configuration, not deployed: Deploy")
    def test_no_call_fails(self, stack: Stack) -> None:
        commands: list[int] = []

        def busy_command_line(stop: threading.Event) -> None:
            while not stop.wait(0.2):
                commands.append(stack.run("keys", "create", "--owner", "somebody").returncode)

        def one(number: int) -> tuple[list[int], str, dict[str, object]]:
            filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.n", "set_values": [str(number)]}
            with stack.client() as client:
                created = client.post("/api/v1/flow", json=pipeline(transforms=[filter_], name=f"busy {number}"))
                answer = client.post(f"/api/v1/flow/{created.json()['id']}/deploy")
                return [created.status_code, answer.status_code], created.json()["id"], answer.json()

        with beside(busy_command_line), ThreadPoolExecutor(PARALLEL) as pool:
            results = list(pool.map(one, range(PARALLEL)))
        assert Counter(status for statuses, _, _ in results for status in statuses) == {201: PARALLEL, 200: PARALLEL}
        assert set(commands) == {0}
        stack.feed("base", "erc20_token_transfer", ({"n": n} for n in range(PARALLEL)))
        for number in (0, 17, PARALLEL - 1):
            with reading(results[number][2]["sinks"][0]) as reader:  # type: ignore[index]  # JSON
                assert reader.read(1)[0].json() == {"n": number}
        self.clean_up(stack, [config_id for _, config_id, _ in results])

    def clean_up(self, stack: Stack, config_ids: list[str]) -> None:
        def delete(config_id: str) -> httpx.Response:
            with stack.client() as client:
                return client.delete(f"/api/v1/flow/{config_id}")

        with ThreadPoolExecutor(PARALLEL) as pool:
            assert {answer.status_code for answer in pool.map(delete, config_ids)} == {200}
        assert stack.workers() == []
