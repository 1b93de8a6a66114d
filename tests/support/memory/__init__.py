"""Implementations in memory of the protocols of external systems.

The contract tests run them and the real ones.
"""
