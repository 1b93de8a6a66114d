"""Fixtures shared by all tests; the real servers are in tests/support."""

pytest_plugins = ["tests.support.kafka", "tests.support.valkey"]
