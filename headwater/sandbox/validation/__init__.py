"""Validates scripts before they are saved: loads them, runs the example record and collects warnings."""
