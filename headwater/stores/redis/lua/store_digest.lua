-- Stores the digest of a version, unless the set has changed since. Returns whether it was stored.
-- KEYS: metadata   ARGV: generation, version, packed sum of the hashes (see set_digest.py)
local metadata = redis.call('HMGET', KEYS[1], 'gen', 'ver')
if metadata[1] ~= ARGV[1] or metadata[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'digest', ARGV[2] .. ' ' .. ARGV[3])
return 1
