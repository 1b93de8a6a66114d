"""Reads the syntax of users' scripts: what can be said of a script without running it."""
