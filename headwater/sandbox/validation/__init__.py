"""Validation of a script: it is loaded, runs on an example record, and gets warnings."""
