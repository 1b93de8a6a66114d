"""Stores in SQLite or PostgreSQL.

They hold configurations, deployments, redrives, leases, API keys, sign-in codes, quotas, the rows of datasets, the
audit log, and requests with an Idempotency-Key.

database.py combines the stores.
"""
