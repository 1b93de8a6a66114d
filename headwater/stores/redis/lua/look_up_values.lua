-- Looks up values, and reads what was added since a version that the caller knows. Returns nil when another generation
-- is current. The script runs atomically.
-- Reply: version, stamp, a string with 1 for each member and 0 for each other value, 1 if the log continues the known
-- version (else 0), version and stamp of the last log entry that was read, and the hashes that each read entry added.
-- KEYS: metadata, log, bucket of each value...
-- ARGV: generation, kind, known version, known stamp, maximum of log entries, value...
local metadata = redis.call('HMGET', KEYS[1], 'gen', 'ver', 'stamp')
if metadata[1] ~= ARGV[1] then return nil end
local command, digits = ARGV[2] == 'hash' and 'HEXISTS' or 'SISMEMBER', {}
for i = 3, #KEYS do
  digits[i - 2] = redis.call(command, KEYS[i], ARGV[i + 3])
end
local version, stamp = metadata[2], metadata[3] or ''
local reply = {version, stamp, table.concat(digits), 1, ARGV[3], ARGV[4]}
if version == ARGV[3] and stamp == ARGV[4] then return reply end
-- Only an entry with the known version and the known stamp proves that the log continues there, because a server that
-- lost its last writes assigns the same versions again, with other stamps.
local entries = redis.call('XRANGE', KEYS[2], ARGV[3], '+', 'COUNT', ARGV[5] + 1)
for i, entry in ipairs(entries) do
  local operation, hashes, entry_stamp = entry[2][1], entry[2][2], entry[2][4]
  if i == 1 and (entry[1] ~= ARGV[3] .. '-0' or entry_stamp ~= ARGV[4]) then break end
  if i > 1 then
    reply[5], reply[6] = entry[1]:match('^%d+'), entry_stamp
    if operation == 'a' then reply[#reply + 1] = hashes end
  end
end
-- No later entry was read, although the version or stamp differs: the log was trimmed, or has other versions.
if reply[5] == ARGV[3] then reply[4] = 0 end
return reply
