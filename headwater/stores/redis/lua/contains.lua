-- Membership of each value, as a string of 0 and 1, and the version that it holds for; nil when another generation is
-- current. One script is one moment, and costs a third of as many pipelined commands.
-- KEYS: m, bucket of each value...   ARGV: generation, kind, value...
local m = redis.call('HMGET', KEYS[1], 'gen', 'ver')
if m[1] ~= ARGV[1] then return nil end
local command, answers = ARGV[2] == 'hash' and 'HEXISTS' or 'SISMEMBER', {}
for i = 2, #KEYS do
  answers[i - 1] = redis.call(command, KEYS[i], ARGV[i + 1])
end
return {m[2], table.concat(answers)}
