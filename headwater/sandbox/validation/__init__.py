"""Validates scripts before they are saved: loads, runs the example, collects warnings."""
