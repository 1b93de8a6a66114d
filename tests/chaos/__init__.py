"""Proofs of reliability that run for as long as one wants: `make chaos` and `make soak`. See docs/reliability.md.

They know a whole Headwater by its processes, HTTP and Kafka alone, as the acceptance tests do.
"""
