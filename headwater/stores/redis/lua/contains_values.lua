-- Looks up values. Returns the version of the set, and a string with 1 for each member and 0 for each other value; nil
-- when another generation is current. The script runs atomically, so all answers are from one version.
-- KEYS: metadata, bucket of each value...   ARGV: generation, kind, value...
local metadata = redis.call('HMGET', KEYS[1], 'gen', 'ver')
if metadata[1] ~= ARGV[1] then return nil end
local command, digits = ARGV[2] == 'hash' and 'HEXISTS' or 'SISMEMBER', {}
for i = 2, #KEYS do
  digits[i - 1] = redis.call(command, KEYS[i], ARGV[i + 1])
end
return {metadata[2], table.concat(digits)}
