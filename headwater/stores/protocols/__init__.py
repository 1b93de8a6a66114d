"""The protocols of the stores.

Their implementations in stores/sql and stores/redis store the data. Other packages wrap some of these.

All methods are synchronous, thread-safe and may block on I/O. They raise DatabaseUnavailable (SQL) or RedisUnavailable
(Valkey or Redis) when the store does not answer; the docstring of a method names its other errors. Only QuotaExceeded
is not named: each write that a quota limits raises it.
"""
