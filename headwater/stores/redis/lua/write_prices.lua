-- Write states, then hours, then the position; returns 1, or 0 when another owner took the partition.
-- KEYS: who, state..., hour...   ARGV: owner, position or "", seconds that a state is kept, number of states,
--   state..., then per hour: token, ticks, when it expires in seconds since the epoch
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
local states = tonumber(ARGV[4])
for i = 1, states do redis.call('SET', KEYS[1 + i], ARGV[4 + i], 'EX', ARGV[3]) end
local at = 4 + states
for i = 2 + states, #KEYS do
  redis.call('HSET', KEYS[i], ARGV[at + 1], ARGV[at + 2])
  redis.call('EXPIREAT', KEYS[i], ARGV[at + 3])
  at = at + 3
end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'end', ARGV[2]) end
return 1
