-- Membership of some values, and what was added since a version that the caller knows; nil when another generation is
-- current. One script is one moment. Reply: {version, stamp, answers as a string of 0 and 1, chain, version and stamp
-- that the chain leads to, packed hashes that were added on the way...}. chain is 0 when the log doesn't tell.
-- KEYS: m, log, bucket of each value...   ARGV: generation, kind, version, stamp, entries at most, value...
local m = redis.call('HMGET', KEYS[1], 'gen', 'ver', 'stamp')
if m[1] ~= ARGV[1] then return nil end
local command, answers = ARGV[2] == 'hash' and 'HEXISTS' or 'SISMEMBER', {}
for i = 3, #KEYS do
  answers[i - 2] = redis.call(command, KEYS[i], ARGV[i + 3])
end
local version, stamp = m[2], m[3] or ''
local reply = {version, stamp, table.concat(answers), 1, ARGV[3], ARGV[4]}
if version == ARGV[3] and stamp == ARGV[4] then return reply end
-- The entry of the known version with the known stamp proves that the log goes on from there: a server that lost its
-- last second counts the same versions again.
local entries = redis.call('XRANGE', KEYS[2], ARGV[3], '+', 'COUNT', ARGV[5] + 1)
for i, entry in ipairs(entries) do
  local operation, packed, entry_stamp = entry[2][1], entry[2][2], entry[2][4]
  if i == 1 and (entry[1] ~= ARGV[3] .. '-0' or entry_stamp ~= ARGV[4]) then break end
  if i > 1 then
    reply[5], reply[6] = entry[1]:match('^%d+'), entry_stamp
    if operation == 'a' then reply[#reply + 1] = packed end
  end
end
if reply[5] == ARGV[3] then reply[4] = 0 end
return reply
