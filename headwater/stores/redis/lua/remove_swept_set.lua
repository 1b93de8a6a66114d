-- Removes a set from the list of the sets to sweep, unless the set was replaced or dropped again meanwhile.
-- KEYS: list of the sets to sweep   ARGV: name of the set, time of the last replacement or drop that the caller knows
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
