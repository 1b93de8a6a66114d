"""Reads files of records in several formats, and changes the records for a replay.

The files may be compressed.
"""
