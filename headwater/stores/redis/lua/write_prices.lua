-- Write hours or states, or move the position; returns 1, or 0 when another owner took the partition, or when the
-- position is not the one that this owner wrote last: the server lost that write.
-- KEYS: who, state..., hour...   ARGV: owner, position before or "", position or "", seconds that a state is kept,
--   number of states, state..., then per hour: token, ticks, when it expires in seconds since the epoch
local known = redis.call('HMGET', KEYS[1], 'owner', 'end')
if known[1] ~= ARGV[1] or (known[2] or '') ~= ARGV[2] then return 0 end
local states = tonumber(ARGV[5])
for i = 1, states do redis.call('SET', KEYS[1 + i], ARGV[5 + i], 'EX', ARGV[4]) end
local at = 5 + states
for i = 2 + states, #KEYS do
  redis.call('HSET', KEYS[i], ARGV[at + 1], ARGV[at + 2])
  redis.call('EXPIREAT', KEYS[i], ARGV[at + 3])
  at = at + 3
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'end', ARGV[3]) end
return 1
