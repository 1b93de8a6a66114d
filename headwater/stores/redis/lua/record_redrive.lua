-- Stores the outcomes of letters, and counts each letter of a redrive once. Returns "1" when the redrive is throttled.
-- redrives.py describes the keys, blocks and entries.
-- KEYS: redrive:NUMBER, redrives, then per block: redriven:PARTITION
-- ARGV: milliseconds to live, suffix of each entry (time and number of the redrive), letters per block, then per block:
--   redriven:PARTITION, number of the block, one character for each offset of the block: the outcome of its letter, or
--   "\0" when the entry stays
local ttl, entry_suffix, letters_per_block = ARGV[1], ARGV[2], tonumber(ARGV[3])
local number_bytes, entry_bytes = 2, #entry_suffix + 1
local number = string.sub(entry_suffix, -number_bytes)
local counts = {}

local function count(outcome, difference)
  outcome = string.lower(outcome)
  counts[outcome] = (counts[outcome] or 0) + difference
end

for k = 3, #KEYS do
  local first = 4 + 3 * (k - 3)
  local key_suffix, block, outcomes = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local known = redis.call('HGET', KEYS[k], block) or string.rep('\0', entry_bytes * letters_per_block)
  local parts, copied_to = {}, 0
  for i = 1, #outcomes do
    local outcome = string.sub(outcomes, i, i)
    if outcome ~= '\0' then
      local before = (i - 1) * entry_bytes
      local entry = string.sub(known, before + 1, before + entry_bytes)
      local previous = string.sub(entry, 1, 1)
      if previous ~= '\0' and string.sub(entry, -number_bytes) == number then count(previous, -1) end
      count(outcome, 1)
      parts[#parts + 1] = string.sub(known, copied_to + 1, before)
      parts[#parts + 1] = outcome .. entry_suffix
      copied_to = before + entry_bytes
    end
  end
  parts[#parts + 1] = string.sub(known, copied_to + 1)
  redis.call('HSET', KEYS[k], block, table.concat(parts))
  redis.call('SADD', KEYS[2], key_suffix)
end
for outcome, difference in pairs(counts) do
  if difference ~= 0 then redis.call('HINCRBY', KEYS[1], outcome, string.format('%.0f', difference)) end
end
for k = 1, #KEYS do redis.call('PEXPIRE', KEYS[k], ttl) end
return redis.call('HGET', KEYS[1], 'yields')
