"""The protocols of the stores. Each has one implementation, in stores/sql or stores/redis.

All methods are synchronous, thread-safe and may block on I/O. They raise DatabaseUnavailable (SQL) or RedisUnavailable
(Valkey or Redis) when the store does not answer; the docstring of a method names its other errors.
"""
