"""The configuration of Schemathesis for tests/acceptance/test_description.py."""
