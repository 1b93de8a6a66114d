-- Takes slots for live tails of one owner. Expired slots are removed first. The server's clock is used, so that all
-- callers agree. Returns '' if a slot was
-- taken for each id; otherwise takes none, and returns the limit that leaves too few: 'total' or 'owner'.
-- KEYS: sorted set of "<id>:<owner>", by the time of expiry
-- ARGV: lifetime in seconds, total limit, limit of an owner, owner, ids
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local owner, wanted = ARGV[4], #ARGV - 4
local taken = redis.call('ZRANGE', KEYS[1], 0, -1)
if #taken + wanted > tonumber(ARGV[2]) then
  return 'total'
end
local owned = 0
for _, slot in ipairs(taken) do
  if string.sub(slot, string.find(slot, ':', 1, true) + 1) == owner then
    owned = owned + 1
  end
end
if owned + wanted > tonumber(ARGV[3]) then
  return 'owner'
end
for i = 5, #ARGV do
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[i] .. ':' .. owner)
end
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1]) * 1000))
return ''
