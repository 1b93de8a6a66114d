-- The values of some buckets, one list per bucket; nil when another generation is current.
-- KEYS: m, bucket...   ARGV: generation, kind
if redis.call('HGET', KEYS[1], 'gen') ~= ARGV[1] then return nil end
local command, found = ARGV[2] == 'hash' and 'HKEYS' or 'SMEMBERS', {}
for i = 2, #KEYS do
  found[i - 1] = redis.call(command, KEYS[i])
end
return found
