-- Makes a worker the only writer of a partition. Returns the position up to which ticks are written, false for none.
-- KEYS: ownership hash   ARGV: writer
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
return redis.call('HGET', KEYS[1], 'end')
