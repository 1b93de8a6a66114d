"""The conformance table: which test proves which line of docs/reference/interface.md."""
