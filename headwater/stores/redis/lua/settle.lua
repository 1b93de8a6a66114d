-- Forgets that a set was replaced, unless it was replaced again or something of it is left to remove.
-- KEYS: replaced   ARGV: set, time of the last replace that the caller knows
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
