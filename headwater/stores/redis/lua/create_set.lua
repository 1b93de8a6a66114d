-- Creates the metadata of a set unless it exists. Returns the generation, bits, seed of the hash function, and kind.
-- KEYS: metadata   ARGV: first generation, bits, seed, encoding, kind
if redis.call('HEXISTS', KEYS[1], 'gen') == 0 then
  redis.call('HSET', KEYS[1], 'gen', ARGV[1], 'next', ARGV[1], 'bits', ARGV[2], 'count', 0, 'ver', 0,
    'digest', '0 ' .. string.rep('\0', 16), 'hash_key', ARGV[3], 'enc', ARGV[4], 'kind', ARGV[5])
end
return redis.call('HMGET', KEYS[1], 'gen', 'bits', 'hash_key', 'kind')
