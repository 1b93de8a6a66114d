-- Make somebody the one who writes a partition; returns the position that was reached (false where there is none).
-- KEYS: who.   ARGV: owner
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
return redis.call('HGET', KEYS[1], 'end')
