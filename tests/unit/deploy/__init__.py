"""Tests of the files for deployment and operation."""
