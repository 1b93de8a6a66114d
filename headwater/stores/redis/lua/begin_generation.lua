-- Begins a new generation next to the current one. Returns its number; nil when the set was removed, or was removed and
-- created again, which the seed shows.
-- KEYS: metadata, staging   ARGV: seed, now, increment of the generation number
if redis.call('HGET', KEYS[1], 'hash_key') ~= ARGV[1] then return nil end
local gen = redis.call('HINCRBY', KEYS[1], 'next', ARGV[3])
redis.call('HSET', KEYS[2], gen, ARGV[2])
return gen
