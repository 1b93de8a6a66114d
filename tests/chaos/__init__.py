"""Reliability tests of any length, such as `make chaos` and `make soak`.

docs/reliability.md describes them.

Like the acceptance tests, most of them use Headwater only through its processes, HTTP and Kafka.
"""
