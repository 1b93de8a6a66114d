-- Makes a filled generation the current one: {version, old generation}, or nil when it was given up or the set is gone.
-- The old generation is noted as dead, so that a sweep finishes what a kill leaves.
-- KEYS: m, staging, log   ARGV: generation, count, stamp
local old = redis.call('HGET', KEYS[1], 'gen')
local seen = redis.call('HGET', KEYS[2], ARGV[1])
if not old or not seen or seen == '0' then return nil end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[2], old, '0')
redis.call('HSET', KEYS[1], 'gen', ARGV[1], 'count', ARGV[2], 'stamp', ARGV[3])
local version = redis.call('HINCRBY', KEYS[1], 'ver', 1)
redis.call('XADD', KEYS[3], 'MAXLEN', 1, version .. '-0', 'reset', '', 's', ARGV[3])
return {version, old}
