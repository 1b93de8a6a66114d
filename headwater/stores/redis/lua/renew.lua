-- A sign of life of a generation that is being filled: 1, or 0 when it was given up.
-- KEYS: staging   ARGV: generation, now
local seen = redis.call('HGET', KEYS[1], ARGV[1])
if not seen or seen == '0' then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
