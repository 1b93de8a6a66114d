-- Takes one token from a token bucket. The server's clock is used, so that all callers agree. Returns 1 if a token was
-- taken, else 0, and how many are left, in millionths.
-- KEYS: bucket   ARGV: tokens per second, size
local rate, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local passed = math.max(0, now - (tonumber(bucket[2]) or now))
local tokens = math.min(size, (tonumber(bucket[1]) or size) + passed * rate)
local taken = tokens >= 1
if taken then
  tokens = tokens - 1
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(size / rate * 1000) + 1000)
return {taken and 1 or 0, math.floor(tokens * 1e6)}
