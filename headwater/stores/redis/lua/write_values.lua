-- Adds or removes at most 250 values. Returns the number of changed values, the version and the count; nil when another
-- generation is current.
-- KEYS: metadata, bitmap of buckets that are not empty, log, bucket...
-- ARGV: generation, 'a' (add) or 'r' (remove), kind, stamp, the values' hashes, the values' hashes for the digest, the
--   sums of the 32-bit words of these hashes (the lowest word first), then per bucket: number, k, v1..vk
local HASH_BYTES, WORD = 16, 4294967296
local metadata = redis.call('HMGET', KEYS[1], 'gen', 'ver', 'count', 'digest')
if metadata[1] ~= ARGV[1] then return nil end
local add, in_hash, changed = ARGV[2] == 'a', ARGV[3] == 'hash', 0
local number_index = 11 -- the index of the argument with the number of the next bucket
local value_number = 0
local sums = {tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])} -- of the changed values

-- Returns 1 when the value was added or removed.
local function write(key, value)
  if not add then return redis.call(in_hash and 'HDEL' or 'SREM', key, value) end
  if in_hash then return redis.call('HSET', key, value, '') end
  return redis.call('SADD', key, value)
end

-- Takes the hash of a value that has not changed out of the sums. Most writes change all of their values.
local function subtract_from_sums(hash_number)
  local d, c, b, a = struct.unpack('>I4I4I4I4', ARGV[6], HASH_BYTES * hash_number + 1)
  sums[1], sums[2], sums[3], sums[4] = sums[1] - a, sums[2] - b, sums[3] - c, sums[4] - d
end

-- Returns the digest with the sums added or subtracted.
local function next_digest(packed)
  local words, carry, sign = {struct.unpack('<I4I4I4I4', packed)}, 0, add and 1 or -1
  for i = 1, 4 do
    local sum = words[i] + sign * sums[i] + carry
    words[i], carry = sum % WORD, math.floor(sum / WORD)
  end
  return struct.pack('<I4I4I4I4', words[1], words[2], words[3], words[4])
end

for i = 4, #KEYS do
  local k = tonumber(ARGV[number_index + 1])
  local first, last, n = number_index + 2, number_index + 1 + k, 0
  for j = first, last do
    if write(KEYS[i], ARGV[j]) == 1 then
      n = n + 1
    else
      subtract_from_sums(value_number)
    end
    value_number = value_number + 1
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
-- Without the digest of the version before, the digest stays unknown until SetStore.summary reads all values.
local prefix = metadata[2] .. ' '
local digest = metadata[4] or ''
if string.sub(digest, 1, #prefix) == prefix then
  redis.call('HSET', KEYS[1], 'digest', version .. ' ' .. next_digest(string.sub(digest, #prefix + 1)))
end
-- The log keeps count / 6,250 entries. An upload writes entries of 250 values, so the log covers the last 4 % of the
-- set's values; a reader that is further behind reads the whole set again. 32,000 entries are at most 64 MB.
local keep = math.min(32000, math.max(4000, math.ceil(count / 6250)))
redis.call('XADD', KEYS[3], 'MAXLEN', '~', keep, version .. '-0', ARGV[2], ARGV[5], 's', ARGV[4])
return {changed, version, count}
