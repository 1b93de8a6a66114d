-- Makes a worker the only writer of partitions. Returns the counted offset of each partition, false for none.
-- KEYS: ownership hash   ARGV: writer, milliseconds to live, then per partition: prefix of its fields
local offsets = {}
for i = 3, #ARGV do
  redis.call('HSET', KEYS[1], ARGV[i] .. ':owner', ARGV[1])
  offsets[#offsets + 1] = redis.call('HGET', KEYS[1], ARGV[i] .. ':mark')
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return offsets
