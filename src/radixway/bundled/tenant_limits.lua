-- Counts what a tenant used, then judges who wants to come in. tenants/shared_limits.py calls it.
local requests, tokens, day, month, hands, seen = unpack(KEYS)
local gateway, holds_s, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local own = {tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
local used_tokens, used_cost = tonumber(ARGV[7]), tonumber(ARGV[8])
local limit = {}
for i = 1, 7 do limit[i] = tonumber(ARGV[8 + i]) end
local time = redis.call('TIME')
local second = tonumber(time[1])

local function window(key)
  local slots, total = {}, 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local at, count = tonumber(all[i]), tonumber(all[i + 1])
    if at + 61 <= second then redis.call('HDEL', key, all[i])
    else slots[#slots + 1] = {at, count}; total = total + count end
  end
  return slots, total
end

local function frees_in(slots, amount)
  table.sort(slots, function(a, b) return a[1] < b[1] end)
  for _, slot in ipairs(slots) do
    amount = amount - slot[2]
    if amount <= 0 then return math.max(slot[1] + 61 - second, 1) end
  end
  return 61
end

local function count(key, amount)
  if amount > 0 then
    redis.call('HINCRBY', key, second, amount)
    redis.call('EXPIRE', key, 62)
  end
end

local function spend(key, keep_s)
  if used_tokens > 0 then redis.call('HINCRBY', key, 'tokens', used_tokens) end
  if used_cost > 0 then redis.call('HINCRBYFLOAT', key, 'cost', used_cost) end
  redis.call('EXPIRE', key, keep_s)
  local spent = redis.call('HMGET', key, 'tokens', 'cost')
  return {tonumber(spent[1] or 0) or 0, tonumber(spent[2] or 0) or 0}
end

if tonumber(redis.call('HGET', seen, gateway) or 0) < number then
  redis.call('HSET', seen, gateway, number)
else
  used_tokens, used_cost = 0, 0
end
redis.call('EXPIRE', seen, 86400)
count(tokens, used_tokens)
local today, thismonth = spend(day, 172800), spend(month, 5356800)
local request_slots, request_total = window(requests)
local token_slots, token_total = window(tokens)

local held = {own[1], own[2], own[3]}
local all = redis.call('HGETALL', hands)
for i = 1, #all, 2 do
  local ends, n, t, c = string.match(all[i + 1], '(%S+) (%S+) (%S+) (%S+)')
  if tonumber(ends) <= second then redis.call('HDEL', hands, all[i])
  elseif all[i] ~= gateway then
    held = {held[1] + tonumber(n), held[2] + tonumber(t), held[3] + tonumber(c)}
  end
end

local function over(used, reserved, wanted, most)
  return used >= most or used + reserved + math.min(wanted, most) > most + 1e-9
end

local function judge(wanted_tokens, wanted_cost)
  if limit[1] and held[1] >= limit[1] then return 1, 1 end
  if limit[2] and request_total >= limit[2] then return 2, frees_in(request_slots, 1) end
  if limit[3] then
    local beyond = token_total + held[2] + math.min(wanted_tokens, limit[3]) - limit[3]
    if beyond > 0 then
      return 3, token_total > 0 and frees_in(token_slots, math.min(beyond, token_total)) or 1
    end
  end
  if limit[4] and over(today[1], held[2], wanted_tokens, limit[4]) then return 4, 0 end
  if limit[5] and over(today[2], held[3], wanted_cost, limit[5]) then return 5, 0 end
  if limit[6] and over(thismonth[1], held[2], wanted_tokens, limit[6]) then return 6, 0 end
  if limit[7] and over(thismonth[2], held[3], wanted_cost, limit[7]) then return 7, 0 end
  return 0, 0
end

local verdicts, let_in = {}, 0
for i = 16, #ARGV, 2 do
  local wanted = {tonumber(ARGV[i]), tonumber(ARGV[i + 1])}
  local which, wait_s = judge(wanted[1], wanted[2])
  if which == 0 then
    let_in = let_in + 1
    request_total = request_total + 1
    for _, sum in ipairs({own, held}) do
      sum[1], sum[2], sum[3] = sum[1] + 1, sum[2] + wanted[1], sum[3] + wanted[2]
    end
  end
  verdicts[#verdicts + 1] = which
  verdicts[#verdicts + 1] = wait_s
end
if limit[2] then count(requests, let_in) end
if own[1] > 0 then
  local said = string.format('%d %d %.0f %.9f', second + holds_s, own[1], own[2], own[3])
  redis.call('HSET', hands, gateway, said)
  redis.call('EXPIRE', hands, holds_s * 2)
else
  redis.call('HDEL', hands, gateway)
end
local sums = {held[1], request_total, token_total, today[1], today[2], thismonth[1], thismonth[2]}
for i, sum in ipairs(sums) do sums[i] = string.format('%.9f', sum) end
return {verdicts, sums}
