"""Validation of scripts before they are saved, which loads them, runs the example record, and collects warnings."""
