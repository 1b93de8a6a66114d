"""The conformance table says which tests prove which line of docs/reference/interface.md."""
