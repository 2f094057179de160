--- Formats amounts for people: money, times, counts, command lines. "~" is before what is
--- estimated, "?" stands for what is unknown, and "-" for what there is not.

local quote = require "ponder.quote"

local amount = {}

---Formats seconds: 0.4 s, 12 s, 3 min 5 s.
function amount.seconds(s)
    if s < 10 then
        return ("%.1f s"):format(s)
    elseif s < 60 then
        return ("%d s"):format(s // 1)
    end
    return ("%d min %d s"):format(s // 60, s % 60 // 1)
end

---Formats a count: 950, 3.4k, 12k, 1.2M; "?" if unknown.
function amount.count(n)
    if not n then
        return "?"
    elseif n < 1000 then
        return ("%d"):format(n)
    elseif n < 9950 then
        return ("%.1fk"):format(n / 1000)
    elseif n < 999500 then
        return ("%.0fk"):format(n / 1000)
    end
    return ("%.1fM"):format(n / 1000000)
end

---Formats money: $12.30, $0.042, $0.00031; "?" if unknown.
function amount.money(usd)
    if not usd then
        return "?"
    elseif usd == 0 or usd >= 1 then
        return ("$%.2f"):format(usd)
    end
    local digits = 1 - math.floor(math.log(usd, 10)) -- two significant ones
    return ("$%." .. math.min(math.max(digits, 2), 12) .. "f"):format(usd)
end

-- A sum: "~" if a part of it is estimated; "+?" if a part is unknown, "?" if nothing is known.
local function sum(format, known, estimated, unknown)
    local is_unknown = (unknown or 0) > 0
    if is_unknown and (known or 0) == 0 then
        return "?"
    end
    return ((estimated or 0) > 0 and "~" or "") .. format(known or 0) .. (is_unknown and "+?" or "")
end

---The tokens of calls: "3.4k", "~3.4k", "3.4k+?", "?"; "-" without calls.
---@param of {calls: integer?, estimated_tokens: integer?, unmetered: integer?} unmetered: calls
---  whose tokens are unknown
---@param tokens integer? the sum
function amount.tokens(of, tokens)
    return of.calls == 0 and "-"
        or sum(amount.count, tokens, of.estimated_tokens, of.unmetered)
end

---The cost of calls: "$0.042", "~$0.042", "$0.042+?", "?"; "-" without calls.
---@param of {calls: integer?, cost: number?, estimated_cost: number?, unpriced: integer?} unpriced:
---  calls whose cost is unknown
function amount.cost(of)
    return of.calls == 0 and "-" or sum(amount.money, of.cost, of.estimated_cost, of.unpriced)
end

---A score: 0.80; "-" if there is none.
function amount.score(score)
    return score and ("%.2f"):format(score) or "-"
end

---A number of things: "1 call", "3.4k calls".
---@param many? string default one .. "s"
function amount.of(n, one, many)
    return ("%s %s"):format(amount.count(n), n == 1 and one or many or one .. "s")
end

---The totals of calls so far: `{"12 calls", "1 failed", "3 in flight", "~3.4k tokens", "$0.0042",
---"8.1 s"}`.
---@param spent ponder.task.Budget
---@param seconds number since the run began
function amount.spent(spent, seconds)
    local facts = { amount.of(spent.calls, "call") }
    for _, one in ipairs { "failed", "in_flight" } do
        facts[#facts + 1] = spent[one] > 0 and spent[one] .. " " .. one:gsub("_", " ") or nil
    end
    local tokens = amount.tokens({ estimated_tokens = spent.estimated_tokens }, spent.tokens)
    facts[#facts + 1] = tokens .. (tokens == "1" and " token" or " tokens")
    if spent.cost ~= 0 or spent.unpriced > 0 then -- local models cost nothing
        facts[#facts + 1] = (spent.cost == 0 and "cost " or "") .. amount.cost(spent)
    end
    facts[#facts + 1] = amount.seconds(seconds)
    return facts
end

---A point in time in local time.
---@param at number seconds since 1970
---@param format? string of os.date, default "%Y-%m-%d %H:%M:%S"
function amount.when(at, format)
    local ok, text = pcall(os.date, format or "%Y-%m-%d %H:%M:%S", math.floor(at))
    return ok and text or "?"
end

---Seconds after the start: "+12.503".
function amount.after(at, start)
    return at and ("%+.3f"):format(at - start) or "-"
end

---The command line, quoted for a shell.
---@param run {command: string, arguments: any}
function amount.command(run)
    local words = { "ponder", run.command }
    for _, word in ipairs(type(run.arguments) == "table" and run.arguments or {}) do
        words[#words + 1] = quote.shell(tostring(word))
    end
    return table.concat(words, " ")
end

---How long a run took, or has been running.
---@param run {started_at: number, ended_at: number?}
---@param last_at? number time of the last logged event
---@return number? seconds nil: unknown
function amount.duration(run, last_at)
    local ended = run.ended_at or last_at
    return ended and math.max(ended - run.started_at, 0)
end

return amount
