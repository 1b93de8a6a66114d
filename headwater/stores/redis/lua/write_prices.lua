-- Writes archived ticks, states or tails, changes the list of unsettled keys, or advances the position. Returns the new
-- sizes of the tails; nil when another worker writes the partition, or when the stored position differs from the one that
-- this writer wrote last, which means that the server lost a write.
-- KEYS: ownership hash, set of unsettled keys, then state and tail of each token, then per entry of archived ticks: its
--   hash
-- ARGV: writer, position before or "", new position or "", seconds that states and tails are kept, number of states,
--   number of tails, number of keys that become unsettled, number of keys that become settled, states (which replace
--   state and tail), tails (which are appended), keys that become unsettled, keys that become settled, then per entry of
--   archived ticks: field, ticks, seconds since the epoch at which its hash expires
local known = redis.call('HMGET', KEYS[1], 'owner', 'end')
if known[1] ~= ARGV[1] or (known[2] or '') ~= ARGV[2] then return false end
local kept, states, tokens, sizes = ARGV[4], tonumber(ARGV[5]), ARGV[5] + ARGV[6], {}
for i = 1, tokens do
  local state, tail, bytes = KEYS[2 * i + 1], KEYS[2 * i + 2], ARGV[8 + i]
  if i <= states then
    redis.call('SET', state, bytes, 'EX', kept)
    redis.call('DEL', tail)
  else
    sizes[i - states] = redis.call('APPEND', tail, bytes)
    redis.call('EXPIRE', tail, kept)
    redis.call('EXPIRE', state, kept)
  end
end
local last_read = 8 + tokens -- the index of the last argument that was read
for i = last_read + 1, last_read + ARGV[7] do redis.call('SADD', KEYS[2], ARGV[i]) end
last_read = last_read + ARGV[7]
for i = last_read + 1, last_read + ARGV[8] do redis.call('SREM', KEYS[2], ARGV[i]) end
last_read = last_read + ARGV[8]
for i = 3 + 2 * tokens, #KEYS do
  redis.call('HSET', KEYS[i], ARGV[last_read + 1], ARGV[last_read + 2])
  redis.call('EXPIREAT', KEYS[i], ARGV[last_read + 3])
  last_read = last_read + 3
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'end', ARGV[3]) end
return sizes
