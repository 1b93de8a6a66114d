-- Adds or removes at most 250 values of one generation: {changed, version, count}, or nil when another one is current.
-- KEYS: m, nz, log, bucket...   ARGV: generation, 'a' or 'r', kind, stamp, packed hashes, then per bucket: number, k, v1..vk
local m = redis.call('HMGET', KEYS[1], 'gen', 'ver', 'count')
if m[1] ~= ARGV[1] then return nil end
local add, in_hash, changed, at = ARGV[2] == 'a', ARGV[3] == 'hash', 0, 6

local function add_fields(key, first, last)
  local pairs = {}
  for i = first, last do
    pairs[#pairs + 1] = ARGV[i]
    pairs[#pairs + 1] = ''
  end
  return redis.call('HSET', key, unpack(pairs))
end

for i = 4, #KEYS do
  local k = tonumber(ARGV[at + 1])
  local first, last, n = at + 2, at + 1 + k, 0
  if add and in_hash then
    n = add_fields(KEYS[i], first, last)
  else
    n = redis.call(add and 'SADD' or in_hash and 'HDEL' or 'SREM', KEYS[i], unpack(ARGV, first, last))
  end
  -- The bitmap changes only when a bucket becomes or ceases to be empty; asking is cheaper than writing.
  if n > 0 and redis.call(in_hash and 'HLEN' or 'SCARD', KEYS[i]) == (add and n or 0) then
    redis.call('SETBIT', KEYS[2], ARGV[at], add and 1 or 0)
  end
  changed, at = changed + n, last + 1
end

if changed == 0 then return {0, tonumber(m[2]), tonumber(m[3])} end
local count = redis.call('HINCRBY', KEYS[1], 'count', add and changed or -changed)
local version = redis.call('HINCRBY', KEYS[1], 'ver', 1)
redis.call('HSET', KEYS[1], 'stamp', ARGV[4])
-- Entries for at least 4 % of the values, so that readers catch up; 32,000 entries are at most 64 MB.
local keep = math.min(32000, math.max(4000, math.ceil(count / 6250)))
redis.call('XADD', KEYS[3], 'MAXLEN', '~', keep, version .. '-0', ARGV[2], ARGV[5], 's', ARGV[4])
return {changed, version, count}
