"""A node of an EVM chain of random blocks: `python -m tests.support.evm_node CHAIN_ID`.

It prints the variable with its URL, and has a new block every two seconds, until Ctrl-C.
"""

import contextlib
import random
import sys
import time

from tests.support.evm_chain import FakeChain
from tests.support.node import Node, results

FIRST_BLOCKS = 100
BLOCK_S = 2.0


def main() -> None:
    """Serve a chain with the chain id of the command line."""
    chain = FakeChain(random.Random(), chain_id=int(sys.argv[1]))
    chain.mine(FIRST_BLOCKS)
    with Node(lambda request: results(request, chain.answer)) as node, contextlib.suppress(KeyboardInterrupt):
        print(f"export HEADWATER_EVM_RPC={node.address}", flush=True)
        while True:
            time.sleep(BLOCK_S)
            chain.mine()


if __name__ == "__main__":
    main()
