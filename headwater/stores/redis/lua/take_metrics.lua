-- Make somebody the one who counts some partitions; returns their marks (false where there is none).
-- KEYS: who.   ARGV: owner, milliseconds to live, then per partition: field
local marks = {}
for i = 3, #ARGV do
  redis.call('HSET', KEYS[1], ARGV[i] .. ':owner', ARGV[1])
  marks[#marks + 1] = redis.call('HGET', KEYS[1], ARGV[i] .. ':mark')
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return marks
