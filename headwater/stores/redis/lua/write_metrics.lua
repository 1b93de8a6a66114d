-- Adds counts and durations to one interval of each resolution, adds totals, and advances the counted offsets. Returns
-- the field prefixes of the partitions whose counts were rejected, because another worker writes the partitions.
-- KEYS: ownership hash, interval..., hash of the totals, hash of the first and last time of each total
-- ARGV: writer, milliseconds to live of each key except the last two, maximum number of totals, number of partitions,
--   then per partition: prefix of its fields, end offset, number of the following arguments, name, count..., number of
--   the following arguments, name, total...; then the histograms of durations: name of a bin, count...
local MAX_FIELDS = 500 -- in one command, because Lua limits the number of arguments
local INTERVALS_END = #KEYS - 2
local writer, max_totals, partition_count, rejected = ARGV[1], tonumber(ARGV[#KEYS]), tonumber(ARGV[#KEYS + 1]), {}
local totals, total_times = KEYS[#KEYS - 1], KEYS[#KEYS]

local names, sums = {}, {} -- what is added to the intervals: the names in order, and the sum of each name

local function collect(first, last)
  for i = first, last, 2 do
    local name = ARGV[i]
    if not sums[name] then names[#names + 1] = name end
    sums[name] = (sums[name] or 0) + tonumber(ARGV[i + 1])
  end
end

-- One HMGET and one HSET block the server for less time than one HINCRBY per field.
local function add_sums(key)
  for first = 1, #names, MAX_FIELDS do
    local last, arguments = math.min(#names, first + MAX_FIELDS - 1), {}
    local known = redis.call('HMGET', key, unpack(names, first, last))
    for i = first, last do
      arguments[#arguments + 1] = names[i]
      arguments[#arguments + 1] = string.format('%.0f', (tonumber(known[i - first + 1]) or 0) + sums[names[i]])
    end
    redis.call('HSET', key, unpack(arguments))
  end
end

-- When there are too many totals, the count of a new name is added to `<first part of the name>/other`, for example
-- `letters/other`.
local function add_totals(first, last)
  if first > last then return end
  local time = redis.call('TIME')
  local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  local size = redis.call('HLEN', totals)
  for i = first, last, 2 do
    local name = ARGV[i]
    if redis.call('HEXISTS', totals, name) == 0 then
      if size >= max_totals then name = string.match(name, '^[^/]*') .. '/other' end
      if redis.call('HSETNX', total_times, name .. ':first', now_ms) == 1 then size = size + 1 end
    end
    redis.call('HINCRBY', totals, name, ARGV[i + 1])
    redis.call('HSET', total_times, name .. ':last', now_ms)
  end
end

local advanced = false -- whether a counted offset advanced
local has_counts = false -- whether any counts of an interval were added
local first = #KEYS + 2 -- the index of the first argument of the next partition; after the loop, that of the histograms
for _ = 1, partition_count do
  local field, end_offset = ARGV[first], ARGV[first + 1]
  local first_count = first + 3
  local first_total = first_count + tonumber(ARGV[first + 2]) + 1
  local next_first = first_total + tonumber(ARGV[first_total - 1])
  local known = redis.call('HMGET', KEYS[1], field .. ':owner', field .. ':mark')
  if known[1] and known[1] ~= writer then
    rejected[#rejected + 1] = field
  elseif not known[2] or tonumber(known[2]) < tonumber(end_offset) then
    redis.call('HSET', KEYS[1], field .. ':owner', writer, field .. ':mark', end_offset)
    collect(first_count, first_total - 2)
    add_totals(first_total, next_first - 1)
    advanced = true
    has_counts = has_counts or first_total - 2 > first_count
  end
  first = next_first
end

if has_counts then redis.call('HSET', KEYS[1], 'at', redis.call('TIME')[1]) end
if advanced or partition_count == 0 then
  collect(first, #ARGV)
  for k = 2, INTERVALS_END do add_sums(KEYS[k]) end
  for k = 1, INTERVALS_END do redis.call('PEXPIRE', KEYS[k], ARGV[k + 1]) end
end
return rejected
