-- Removes a name, unless it belongs to another dataset by now.
-- KEYS: names of an owner   ARGV: name, dataset id
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
