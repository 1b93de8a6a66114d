"""Sets of values in Valkey or Redis: storage, replacement, and lookups with Bloom filters."""
