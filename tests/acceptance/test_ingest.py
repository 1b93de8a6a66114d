"""`headwater up` with an ingest: events of a chain arrive in the output of a pipeline."""

import json
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation, deployed, kill, pipeline, reading
from tests.support.anvil import Anvil


@pytest.mark.slow
def test_transfers_of_a_chain_reach_a_pipeline(
    own_installation: Installation, anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ingest is killed, `up` restarts it, and no event is missing or duplicated."""
    coin = anvil.deploy("Coin", 10**30, kinds=["uint256"])
    monkeypatch.setenv("THE_NODE", anvil.url)
    monkeypatch.chdir(tmp_path)
    entry = {"type": "evm", "chain": "base", "rpc": "$THE_NODE", "finality": 1, "poll_s": 0.1, "from_block": 0}
    Path("ingests.json").write_text(json.dumps({"the-chain": entry}))
    own_installation.flags = ("--ingests", "ingests.json")
    own_installation.start()
    transforms = [{"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [coin]}]
    body = pipeline("erc20_token_transfer", "base", transforms=transforms)
    body["pipeline_config"]["source"]["start_at"] = "earliest"
    with own_installation.client() as client, deployed(client, body) as deployment, reading(deployment.sink) as reader:
        for amount in range(1, 11):
            anvil.send(coin, "transfer(address,uint256)", anvil.accounts[1], amount)
            anvil.mine(2)
            if amount == 5:
                reader.read(6)
                kill(own_installation.processes("ingest run the-chain"))
        records = reader.read(11)
    assert sorted(int(record.json()["raw_amount_str"]) for record in records) == [*range(1, 11), 10**30]
    assert "THE_NODE" not in own_installation.log()
