-- Extends the slots of live tails, also slots that have expired meanwhile, because the tails are still open.
-- KEYS: sorted set of "<id>:<owner>", by the time of expiry   ARGV: lifetime in seconds, slots
local time = redis.call('TIME')
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], time[1] + time[2] / 1e6 + tonumber(ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1]) * 1000))
