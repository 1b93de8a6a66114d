"""Acceptance tests of the calls for living with a pipeline."""
