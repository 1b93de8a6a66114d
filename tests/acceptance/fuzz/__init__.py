"""What Schemathesis is told, see tests/acceptance/test_description.py."""
