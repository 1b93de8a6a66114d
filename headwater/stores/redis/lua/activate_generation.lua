-- Makes a filled generation the current one. Returns the version and the old generation; nil when the generation was
-- marked as dead or the set was removed. The old generation is marked as dead, so that a sweep deletes its buckets even
-- after an interruption.
-- KEYS: metadata, staging, log   ARGV: generation, count, stamp, packed sum of the hashes (see set_digest.py)
local old = redis.call('HGET', KEYS[1], 'gen')
local heartbeat = redis.call('HGET', KEYS[2], ARGV[1])
if not old or not heartbeat or heartbeat == '0' then return nil end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[2], old, '0')
redis.call('HSET', KEYS[1], 'gen', ARGV[1], 'count', ARGV[2], 'stamp', ARGV[3])
local version = redis.call('HINCRBY', KEYS[1], 'ver', 1)
redis.call('HSET', KEYS[1], 'digest', version .. ' ' .. ARGV[4])
redis.call('XADD', KEYS[3], 'MAXLEN', 1, version .. '-0', 'reset', '', 's', ARGV[3])
return {version, old}
