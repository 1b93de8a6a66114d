"""Reads the non-vote transactions in the blocks of a Solana node."""
