-- Records the time of a heartbeat of the writer of a generation. Returns 0 when the generation was marked as dead.
-- KEYS: staging   ARGV: generation, now
local heartbeat = redis.call('HGET', KEYS[1], ARGV[1])
if not heartbeat or heartbeat == '0' then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
