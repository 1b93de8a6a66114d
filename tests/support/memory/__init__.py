"""Protocols of outside systems, implemented in memory; the contract suites run them beside the real ones."""
