-- Removes a set from the list of replaced sets, unless it was replaced again since.
-- KEYS: replaced   ARGV: set, time of the last replacement that the caller knows
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
