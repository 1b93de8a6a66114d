"""Configurations, deployments, keys and dataset names in SQLite or PostgreSQL.

database.py combines the stores.
"""
