"""Traces of deploys, with the ids of W3C Trace Context, and their export.

Only `otlp.py` imports OpenTelemetry, which is an extra of the package.
"""
