-- Takes a set away. Its generation is noted as dead, so that a sweep finishes what a kill leaves; who writes under it
-- from now on writes nothing.
-- KEYS: m, log, staging
local gen = redis.call('HGET', KEYS[1], 'gen')
if gen then redis.call('HSET', KEYS[3], gen, '0') end
return redis.call('UNLINK', KEYS[1], KEYS[2])
