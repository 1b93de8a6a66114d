-- Sets the counted offsets of partitions, and takes the partitions away from their workers: the owner becomes empty.
-- KEYS: ownership hash   ARGV: milliseconds to live, then per partition: prefix of its fields, counted offset
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i] .. ':owner', '', ARGV[i] .. ':mark', ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
