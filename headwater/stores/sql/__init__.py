"""Stores in SQLite or PostgreSQL.

They hold configurations, deployments, leases, API keys, quotas, datasets, the audit log, and requests with an
Idempotency-Key.

database.py combines the stores.
"""
