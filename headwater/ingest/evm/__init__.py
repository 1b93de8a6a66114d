"""Converts the blocks and logs of an EVM node to records of five streams."""
