"""Tests of the Python client, against a local HTTP server."""
