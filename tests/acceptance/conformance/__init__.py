"""What docs/reference/interface.md says, line by line; each test names the lines that it proves."""
