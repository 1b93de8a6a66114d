"""Chains with the Ethereum Virtual Machine: blocks and logs of a node become records of five streams."""
