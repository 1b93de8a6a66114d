"""Solana: the transactions of a node's blocks that are no votes."""
