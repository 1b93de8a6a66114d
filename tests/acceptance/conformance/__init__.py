"""Tests of docs/reference/interface.md, line by line.

Each test names the lines that it proves.
"""
