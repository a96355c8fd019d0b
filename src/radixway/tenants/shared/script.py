"""What the server does for one tenant in one step: count what was used, then judge who wants to come in.

The rules are those of `tenants.account.Account`; windows go by the server's clock, days and months by the
names that gateways give them. What a gateway has in hand stands in a field of its own, as its latest step
said, with the time until which it counts: one that is killed holds its places no longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from radixway.config import QuotasSection, RatesSection
from radixway.tenants.account import Estimate

LIMITS = (
    "concurrent",
    "requests_per_minute",
    "tokens_per_minute",
    "tokens_per_day",
    "cost_per_day",
    "tokens_per_month",
    "cost_per_month",
)
"""In the order in which they are judged."""

STEP = """
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
"""


class Verdict(NamedTuple):
    """Of one request."""

    limit: str | None
    """What it is over; None: it is in."""
    wait_s: int
    """Of windows, when there is room; of days and months, the gateway knows."""


def keys_of(prefix: str, tenant: str, day: str) -> list[str]:
    """The server's keys; all of a tenant's in one slot of a cluster. `day`: UTC, as 2026-11-21."""
    home = f"{prefix}{{{tenant}}}:"
    return [
        f"{home}{name}" for name in ("requests", "tokens", f"day:{day}", f"month:{day[:7]}", "hands", "seen")
    ]


def limits_in(rates: RatesSection, quotas: QuotasSection) -> list[str]:
    """A tenant's limits as the script reads them, in the order of `LIMITS`."""
    found: dict[str, float | None] = rates.model_dump() | quotas.model_dump(exclude={"currency"})
    return ["" if found[name] is None else repr(found[name]) for name in LIMITS]


def wanted(estimates: Iterable[Estimate]) -> list[str]:
    """Those who want to come in, as the script reads them."""
    return [text for each in estimates for text in (str(each.tokens), repr(each.cost))]


def read(answer: Sequence[Sequence[bytes | int]]) -> tuple[list[Verdict], dict[str, float]]:
    """What the script says: a verdict for each, in their order, and what is used of each limit."""
    told, sums = answer
    verdicts = [
        Verdict(LIMITS[int(which) - 1] if which else None, int(wait_s))
        for which, wait_s in zip(told[::2], told[1::2], strict=True)
    ]
    return verdicts, {name: float(sum_) for name, sum_ in zip(LIMITS, sums, strict=True)}
