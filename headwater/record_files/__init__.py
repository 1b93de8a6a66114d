"""Reads files of records in several formats, also compressed files, and changes the records for a replay."""
