"""Reads files of records in several formats, compressed or not, and changes their records for a replay."""
