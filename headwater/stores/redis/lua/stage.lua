-- Begins a new generation beside the current one: its number, or nil when the set is not the one that the caller knows.
-- KEYS: m, staging   ARGV: hash key, now, how far to count on
if redis.call('HGET', KEYS[1], 'hash_key') ~= ARGV[1] then return nil end
local gen = redis.call('HINCRBY', KEYS[1], 'next', ARGV[3])
redis.call('HSET', KEYS[2], gen, ARGV[2])
return gen
