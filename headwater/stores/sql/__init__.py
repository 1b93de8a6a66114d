"""Configurations, deployments, keys and the names of datasets in SQLite or PostgreSQL; see database.py."""
