-- Gives up a generation without a sign of life: 1 when its buckets may be removed now. One that is neither current nor
-- being filled is nobody's: its set was removed, or another call gave it up.
-- KEYS: m, staging   ARGV: generation, time before which it must have been seen last
if redis.call('HGET', KEYS[1], 'gen') == ARGV[1] then return 0 end
local seen = redis.call('HGET', KEYS[2], ARGV[1])
if not seen then return 1 end
if tonumber(seen) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], '0')
return 1
