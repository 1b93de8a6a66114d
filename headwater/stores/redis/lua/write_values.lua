-- Adds or removes at most 250 values. Returns the number of changed values, the version and the count; nil when another
-- generation is current.
-- KEYS: metadata, bitmap of buckets that are not empty, log, bucket...
-- ARGV: generation, 'a' (add) or 'r' (remove), kind, stamp, the values' hashes, then per bucket: number, k, v1..vk
local metadata = redis.call('HMGET', KEYS[1], 'gen', 'ver', 'count')
if metadata[1] ~= ARGV[1] then return nil end
local add, in_hash, changed = ARGV[2] == 'a', ARGV[3] == 'hash', 0
local number_index = 6 -- the index of the argument with the number of the next bucket

local function add_fields(key, first, last)
  local pairs = {}
  for i = first, last do
    pairs[#pairs + 1] = ARGV[i]
    pairs[#pairs + 1] = ''
  end
  return redis.call('HSET', key, unpack(pairs))
end

for i = 4, #KEYS do
  local k = tonumber(ARGV[number_index + 1])
  local first, last, n = number_index + 2, number_index + 1 + k, 0
  if add and in_hash then
    n = add_fields(KEYS[i], first, last)
  else
    n = redis.call(add and 'SADD' or in_hash and 'HDEL' or 'SREM', KEYS[i], unpack(ARGV, first, last))
  end
  -- The bitmap changes only when the bucket was empty before or is empty now. Reading the size is cheaper than writing.
  if n > 0 and redis.call(in_hash and 'HLEN' or 'SCARD', KEYS[i]) == (add and n or 0) then
    redis.call('SETBIT', KEYS[2], ARGV[number_index], add and 1 or 0)
  end
  changed, number_index = changed + n, last + 1
end

if changed == 0 then return {0, tonumber(metadata[2]), tonumber(metadata[3])} end
local count = redis.call('HINCRBY', KEYS[1], 'count', add and changed or -changed)
local version = redis.call('HINCRBY', KEYS[1], 'ver', 1)
redis.call('HSET', KEYS[1], 'stamp', ARGV[4])
-- The log keeps count / 6,250 entries. An upload writes entries of 250 values, so the log covers the last 4 % of the
-- set's values; a reader that is further behind reads the whole set again. 32,000 entries are at most 64 MB.
local keep = math.min(32000, math.max(4000, math.ceil(count / 6250)))
redis.call('XADD', KEYS[3], 'MAXLEN', '~', keep, version .. '-0', ARGV[2], ARGV[5], 's', ARGV[4])
return {changed, version, count}
