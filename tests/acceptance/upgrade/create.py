"""Creates the data directories of an older Headwater that the tests of upgrades start on.

`python -m tests.acceptance.upgrade.create COMMAND` writes `stopped.tar.xz` and `killed.tar.xz` beside this file.
COMMAND is the `headwater` of the older version, in a virtual environment of its own. Both archives contain running
pipelines that have records left to read; Headwater was stopped in order in one, and killed with all its processes in
the other. The archives that are committed are from commit 45231c1. Kafka keeps the committed offsets in them for a
year; after November 2027 they must be created again.

`facts.json` in an archive says what its data directory must contain; its members are the attributes of Facts.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import redis
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.acceptance import installation
from tests.acceptance.installation import Deployed, Installation, deploy, pipeline, reading
from tests.acceptance.upgrade.facts import FACTS, Facts, Pipeline
from tests.support.processes import alive
from tests.support.waiting import until

FOLDER = Path(__file__).parent
FLOW = "/api/v1/flow"
STATS = "/api/v1/developer/prices/stats"
RECORDS = 3000
READ_BEFORE_THE_END = 300
LEFT_OUT = ("--exclude=./logs/*", "--exclude=./kafka/tmp/*", "--exclude=*.sock")
SLOW = "for (let i = 0; i < 40000; i++) Math.sqrt(i);"
"""Makes a script so slow that records are left to read when Headwater ends."""
FAILING = "if (r.n % 100 === 99) throw new RangeError(`n is ${r.n}`);"


def hexadecimal() -> str:
    """Return a random address."""
    return "0x" + secrets.token_hex(20)


def main(command: str) -> None:
    """Create both archives."""
    installation.HEADWATER[:] = [command]
    for name in ("stopped", "killed"):
        with tempfile.TemporaryDirectory(prefix="headwater-old-") as folder:
            os.chdir(folder)
            facts = run(Installation(Path(folder, "data")), name)
            Path(folder, "data", FACTS).write_text(facts.to_json(), "utf-8")
            pack(Path(folder, "data"), FOLDER / f"{name}.tar.xz")


def run(old: Installation, end: str) -> Facts:
    """Run the older Headwater until it has read some records, and return the facts."""
    old.start()
    with old.client() as client:
        facts = use(old, client)
        keep_topics(old)
        feed(old, facts)
        keep_prices(old, facts, client)
        with reading(facts.pipelines["slow"].sink) as reader:
            reader.read(READ_BEFORE_THE_END)
    if end == "stopped":
        assert old.stop() == 0
    else:
        kill_all(old)
    return facts


def use(old: Installation, client: httpx2.Client) -> Facts:
    """Create and deploy pipelines, a dataset, prices and a key of another owner."""
    tokens = [hexadecimal() for _ in range(50)]
    dataset = client.post(f"{FLOW}/datasets", json={"name": "watched"}).json()
    entries = [hexadecimal() for _ in range(50)]
    client.post(f"{FLOW}/datasets/{dataset['id']}/entries", json={"values": entries}).raise_for_status()
    values = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
    script = f"function process(r) {{ {FAILING} return {{n: r.n}}; }}"
    watched = "function process(r) { return flow.contains('watched', [r.from_address]) ? {n: r.n} : null; }"
    slow = f"function process(r) {{ {SLOW} return {{n: r.n}}; }}"
    bodies = {
        "filtered": pipeline(
            transforms=[values | {"set_values": tokens}, {"type": "v8", "script": script}], parallelism=2
        ),
        "watched": pipeline(transforms=[{"type": "v8", "script": watched}]),
        "slow": pipeline(transforms=[{"type": "v8", "script": slow}], parallelism=2),
        "exactly once": pipeline(transforms=[{"type": "v8", "script": slow}], delivery="exactly_once"),
        "prices": pipeline("log", sinks=[{"type": "prices", "name": "ticks"}]),
    }
    deployed = {name: deploy(client, body | {"name": name}) for name, body in bodies.items()}
    draft = client.post(FLOW, json=pipeline(name="draft", transforms=[values | {"set_values": tokens[:3]}])).json()
    removed = deploy(client, pipeline(name="torn down"))
    client.post(f"{FLOW}/{removed.id}/teardown").raise_for_status()
    return Facts(
        tokens=tokens,
        entries=entries,
        dataset_id=dataset["id"],
        draft=draft,
        torn_down=removed.id,
        pipelines={name: described(flow) for name, flow in deployed.items()},
        other_owner_key=old.run("keys", "create", "--owner", "acme").stdout.strip().splitlines()[-1],
    )


def described(flow: Deployed) -> Pipeline:
    """Return the facts of a deployed pipeline."""
    sinks = [sink for sink in flow.deploy_response.get("sinks", []) if sink.get("topic")]
    return Pipeline(configuration=flow.configuration, sink=sinks[0] if sinks else {})


def keep_topics(old: Installation) -> None:
    """Let Kafka keep the records of all topics, so that the archive does not age."""
    admin = AdminClient(old.admin_config())
    forever = [
        ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.bytes", "-1", incremental_operation=AlterConfigOpType.SET),
    ]
    topics = [name for name in admin.list_topics(timeout=20).topics if not name.startswith("_")]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=forever) for name in topics]
    for changed in admin.incremental_alter_configs(resources).values():
        changed.result()


def feed(old: Installation, facts: Facts) -> None:
    """Write the records of all pipelines to the streams."""

    now = int(time.time() * 1000)
    facts.priced = [
        {"chain": "base", "token_address": hexadecimal(), "price_usd": 1.5 + n, "timestamp": now, "decimals": 6}
        for n in range(20)
    ]
    old.feed("base", "log", [record | {"block_number": n, "log_index": 0} for n, record in enumerate(facts.priced)])
    old.feed("base", "erc20_token_transfer", map(facts.transfer, range(RECORDS)))
    facts.records = RECORDS


def keep_prices(old: Installation, facts: Facts, client: httpx2.Client) -> None:
    """Wait for the prices, and let Valkey keep them, so that the archive does not age."""
    asked = [{"token_address": record["token_address"], "chain": "base"} for record in facts.priced]
    until(lambda: len(client.post(STATS, json=asked).json()["items"]) == len(asked), 60, "all prices")
    [socket] = (old.data_dir / "valkey").glob("*.sock")
    valkey = redis.Redis(unix_socket_path=str(socket))
    for key in valkey.scan_iter("{px:*"):
        valkey.persist(key)


def kill_all(old: Installation) -> None:
    """Kill Headwater and all its processes at once."""
    assert old.process is not None
    below = [*old.processes("")]
    for pid in (old.process.pid, *below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    old.process.wait(10)
    until(lambda: not any(map(alive, below)), 20, "the end of all processes")


def pack(data_dir: Path, archive: Path) -> None:
    """Pack a data directory without its logs and sockets."""
    subprocess.run(
        ["tar", "--create", "--sparse", "--xz", *LEFT_OUT, "--file", archive, "--directory", data_dir, "."],
        env=os.environ | {"XZ_OPT": "-9e"},
        check=True,
    )
    print(f"{archive.name}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
