"""The Python client, synchronous and asynchronous, against a running installation."""
