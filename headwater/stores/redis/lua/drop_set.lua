-- Removes a set, except its buckets. Its generation is marked as dead, so that a sweep deletes the buckets even after
-- an interruption. Later writes with this generation change nothing.
-- KEYS: metadata, log, staging
local gen = redis.call('HGET', KEYS[1], 'gen')
if gen then redis.call('HSET', KEYS[3], gen, '0') end
return redis.call('UNLINK', KEYS[1], KEYS[2])
