"""Reliability tests of any length: `make chaos`, `make soak`, and others. docs/reliability.md describes them.

Like the acceptance tests, most of them use Headwater only through its processes, HTTP and Kafka.
"""
