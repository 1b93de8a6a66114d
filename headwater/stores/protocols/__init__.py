"""The protocols of the stores.

Their implementations in stores/sql and stores/redis store the data. Other packages wrap some of these.

All methods are synchronous, thread-safe and may block on I/O. They raise DatabaseUnavailable (SQL) or RedisUnavailable
(Valkey or Redis) when the store does not answer; the docstring of a method names its other errors. Two
errors are not named: QuotaExceeded, which each write that a quota limits raises, and LeaseLost, which each SQL write
inside `model.lease.fenced_by` raises.
"""
