-- All that the store does in Redis, as one script: each operation is one atomic
-- step on keys of one hash slot, and no key is ever without a time to live.
--
-- ARGV[1] is the operation. ARGV[2] is the time, on this server's clock in
-- milliseconds, from which it must not run any more: its caller has given up, and
-- a server that was stopped must not do late what was reported as failed.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if now > tonumber(ARGV[2]) then
  return redis.error_reply('LATE ' .. string.format('%.0f', now))
end

local ops = {}

-- outlive makes a key live at least ttl more milliseconds.
local function outlive(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

-- keep gives a key its time to live and notes it in the index of its scope.
local function keep(key, member, ttl)
  local index = KEYS[1]
  redis.call('PEXPIRE', key, ttl)
  redis.call('ZADD', index, now + ttl, member)
  redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
  outlive(index, ttl)
end

-- KEYS: index, records. ARGV: ttl or 0, members.
function ops.load()
  local found, ttl = {}, tonumber(ARGV[3])
  for i = 2, #KEYS do
    local fields = redis.call('HGETALL', KEYS[i])
    if #fields > 0 and ttl > 0 then
      keep(KEYS[i], ARGV[i + 2], ttl)
    end
    found[i - 1] = fields
  end
  return found
end

-- KEYS: index, record. ARGV: ttl, member, field, value, ...
function ops.put()
  for i = 5, #ARGV, 2 do
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
  keep(KEYS[2], ARGV[4], tonumber(ARGV[3]))
  redis.call('PUBLISH', KEYS[2], '')
  return 1
end

function ops.update()
  if redis.call('EXISTS', KEYS[2]) == 0 then
    return 0
  end
  return ops.put()
end

-- KEYS: index, record. ARGV: ttl, member, field, value.
function ops.settle()
  if redis.call('HSETNX', KEYS[2], ARGV[5], ARGV[6]) == 1 then
    redis.call('PUBLISH', KEYS[2], '')
  end
  keep(KEYS[2], ARGV[4], tonumber(ARGV[3]))
  return redis.call('HGET', KEYS[2], ARGV[5])
end

-- KEYS: index, any keys. ARGV: members.
function ops.delete()
  local n = 0
  for i = 2, #KEYS do
    if redis.call('DEL', KEYS[i]) == 1 then
      n = n + 1
      redis.call('PUBLISH', KEYS[i], '')
    end
    redis.call('ZREM', KEYS[1], ARGV[i + 1])
  end
  return n
end

-- KEYS: index, lease. ARGV: ttl, member, owner.
function ops.renew()
  if redis.call('GET', KEYS[2]) ~= ARGV[5] then
    return 0
  end
  keep(KEYS[2], ARGV[4], tonumber(ARGV[3]))
  return 1
end

function ops.acquire()
  redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[3], 'NX')
  return ops.renew()
end

-- KEYS: index, lease. ARGV: member, owner.
function ops.release()
  if redis.call('GET', KEYS[2]) ~= ARGV[4] then
    return 0
  end
  redis.call('ZREM', KEYS[1], ARGV[3])
  return redis.call('DEL', KEYS[2])
end

-- KEYS: index, bag. ARGV: ttl, member, what to add.
function ops.add()
  redis.call('SADD', KEYS[2], ARGV[5])
  keep(KEYS[2], ARGV[4], tonumber(ARGV[3]))
  return 1
end

-- KEYS: index, bag.
function ops.members()
  return redis.call('SMEMBERS', KEYS[2])
end

-- KEYS: index, bag. ARGV: member, what to remove.
function ops.remove()
  local n = redis.call('SREM', KEYS[2], ARGV[4])
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('ZREM', KEYS[1], ARGV[3])
  end
  return n
end

-- KEYS: index. Live keys of the scope.
function ops.count()
  return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf')
end

-- KEYS: index. ARGV: how many to skip, how many to give. What an index of scopes
-- or of keys names, the first to expire first.
function ops.list()
  return redis.call('ZRANGE', KEYS[1], ARGV[3], ARGV[3] + ARGV[4] - 1)
end

-- KEYS: index of a client's scopes. ARGV: ttl, scope.
function ops.touch()
  local expires, ttl = now + ARGV[3], tonumber(ARGV[3])
  local known = redis.call('ZSCORE', KEYS[1], ARGV[4])
  if not known or tonumber(known) < expires then
    redis.call('ZADD', KEYS[1], expires, ARGV[4])
    outlive(KEYS[1], ttl)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  return 1
end

-- Like touch, but only for a scope that is known.
function ops.slide()
  if not redis.call('ZSCORE', KEYS[1], ARGV[4]) then
    return 0
  end
  return ops.touch()
end

-- KEYS: index of a client's scopes. ARGV: scope.
function ops.forget()
  return redis.call('ZREM', KEYS[1], ARGV[3])
end

-- KEYS: a key nobody uses. Says whether this server takes writes.
function ops.probe()
  return redis.call('DEL', KEYS[1])
end

-- KEYS: a key nobody uses. Tries all commands of this script and names those
-- that the user may not run.
function ops.check()
  local refused = {}
  local function try(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
      refused[#refused + 1] = select(1, ...)
    end
  end
  local key = KEYS[1]
  try('HSET', key, 'f', 'v')
  try('PEXPIRE', key, 1000)
  try('PTTL', key)
  try('EXISTS', key)
  try('HSETNX', key, 'f', 'v')
  try('HGET', key, 'f')
  try('HGETALL', key)
  try('DEL', key)
  try('SADD', key, 'm')
  try('SMEMBERS', key)
  try('SREM', key, 'm')
  try('ZADD', key, 1, 'm')
  try('ZSCORE', key, 'm')
  try('ZCOUNT', key, '-inf', '+inf')
  try('ZRANGE', key, 0, 0)
  try('ZREMRANGEBYSCORE', key, '-inf', 0)
  try('ZREM', key, 'm')
  try('SET', key, 'v', 'PX', 1000, 'NX')
  try('GET', key)
  try('PUBLISH', key, '')
  redis.pcall('DEL', key)
  return refused
end

return ops[ARGV[1]]()
