-- Marks a generation as dead when its writer has sent no heartbeat since a time. Returns 1 when its buckets may be
-- deleted. A generation that is neither current nor in `staging` is an orphan: another call has marked it as dead and
-- deleted its buckets. Buckets that its writer has filled since then may be deleted too.
-- KEYS: metadata, staging   ARGV: generation, time: a generation whose last heartbeat is not after this time is dead
if redis.call('HGET', KEYS[1], 'gen') == ARGV[1] then return 0 end
local heartbeat = redis.call('HGET', KEYS[2], ARGV[1])
if not heartbeat then return 1 end
if tonumber(heartbeat) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], '0')
return 1
