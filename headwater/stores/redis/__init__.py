"""Sets and dataset names in Valkey or Redis (6.2 or newer, or a replica group of either)."""
