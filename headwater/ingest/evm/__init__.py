"""EVM chains: blocks and logs of a node become records of five streams."""
