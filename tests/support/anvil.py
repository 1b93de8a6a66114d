"""Runs anvil, a real Ethereum node.

The contracts of tests/support/evm/tokens.sol are compiled with solc.

Both programs are npm packages, pinned by the package-lock.json beside the contracts, and installed into the cache.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from eth_abi.abi import encode
from eth_hash.auto import keccak

from tests.support import node_packages
from tests.support.ports import free_port

FOLDER = Path(__file__).with_name("evm")
CHAIN_ID = 8453
READY_WITHIN_S = 30.0
COMPILE_WITHIN_S = 300.0
GAS = hex(3_000_000)


def installed() -> Path:
    """Return the directory with anvil, solc and the compiled contracts.

    Skip the test without Node, but not in CI.
    """
    return node_packages.installed("evm", FOLDER, _compile)


def _compile(node: str, folder: Path) -> None:
    command = [node, str(FOLDER / "compile.js"), str(FOLDER / "tokens.sol")]
    compiled = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=COMPILE_WITHIN_S)
    (folder / "contracts.json").write_bytes(compiled.stdout)


class Anvil:
    """A chain that mines a block only when `mine` is called.

    Attributes:
        accounts: The addresses for which anvil signs transactions, in lower case.
    """

    def __init__(self, *flags: str) -> None:
        folder = installed()
        self.contracts: dict[str, Any] = json.loads((folder / "contracts.json").read_bytes())
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        binary = folder / "node_modules" / "@foundry-rs" / "anvil-linux-amd64" / "bin" / "anvil"
        options = ["--port", str(self.port), "--chain-id", str(CHAIN_ID), "--no-mining", "--order", "fifo", *flags]
        self._process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
        self._http = httpx2.Client(base_url=self.url, timeout=30)
        self._wait()
        self.accounts: list[str] = [address.lower() for address in self.rpc("eth_accounts")]

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                self.rpc("eth_chainId")
                return
            except httpx2.TransportError:
                assert time.monotonic() < deadline
                assert self._process.poll() is None, "anvil ended"
                time.sleep(0.05)

    def stop(self) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()

    def rpc(self, method: str, *params: Any) -> Any:
        response = self._http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()
        assert "error" not in response, response["error"]
        return response["result"]

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks. The first one includes all pending transactions."""
        self.rpc("anvil_mine", hex(blocks))

    @property
    def height(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def block(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.rpc("eth_getBlockByNumber", hex(number), False)
        return found

    def send(self, to: str, signature: str, *values: Any, sender: int = 0) -> str:
        """Send a contract call as a pending transaction, and return the transaction's hash."""
        kinds = signature[signature.index("(") + 1 : -1]
        data = keccak(signature.encode())[:4] + encode(split_types(kinds), values)
        return self._send({"to": to, "data": "0x" + data.hex()}, sender)

    def deploy(self, name: str, *values: Any, kinds: Sequence[str] = ()) -> str:
        """Deploy a contract, mine a block, and return the contract's address."""
        data = self.contracts[name]["bytecode"] + encode(kinds, values).hex()
        hash_ = self._send({"data": data}, 0)
        self.mine()
        receipt = self.rpc("eth_getTransactionReceipt", hash_)
        assert receipt["status"] == "0x1"
        address: str = receipt["contractAddress"].lower()
        return address

    def _send(self, transaction: dict[str, Any], sender: int) -> str:
        sent: str = self.rpc("eth_sendTransaction", {**transaction, "from": self.accounts[sender], "gas": GAS})
        return sent


def split_types(kinds: str) -> list[str]:
    """Split the types of a signature at commas, but not at commas inside a tuple."""
    found, depth = [""], 0
    for char in kinds:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return [kind for kind in found if kind]


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """Run a new chain whose epoch is one block.

    The finalized block is then two blocks behind the head.
    """
    anvil = Anvil("--slots-in-an-epoch", "1")
    try:
        yield anvil
    finally:
        anvil.stop()
