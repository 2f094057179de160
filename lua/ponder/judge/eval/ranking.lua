--- Ranks the policies of an evaluation by comparing, in pairs, what they answered to each item.

local accounts = require "ponder.think.ensemble.account"
local ensemble = require "ponder.ensemble"
local json = require "ponder.json"
local options = require "ponder.base.options"
local task = require "ponder.task"
local text = require "ponder.judge.eval.text"
local vote = require "ponder.think.ensemble.vote"

local SCHEMA = {
    judge = { type = { "table", "string" } },
    compare = { type = "function" },
    logprobs = { type = "boolean" },
    method = { type = "string", enum = { "knockout", "league", "swiss" }, default = "league" },
    repeats = { type = "integer", min = 1, max = 1024 },
    seed = { type = "integer" },
    concurrency = { type = "integer", min = 1, default = 16 },
}

-- The records of each policy by item and epoch, and the keys of these in order.
local function by_item(result)
    local of, keys = {}, {}
    for _, policy in ipairs(result.policies) do
        of[policy.name] = {}
    end
    for _, record in ipairs(result.records) do
        local key = record.id .. " " .. record.epoch
        if not keys[key] and of[record.policy] then
            keys[key], keys[#keys + 1] = true, key
        end
        if of[record.policy] and record.outcome ~= "failed" then
            of[record.policy][key] = record
        end
    end
    return of, keys
end

-- How much a record is better than another without asking anybody; nil: that takes a judge.
local function known(a, b, is_judged)
    if not is_judged then
        local first, second = a.score or 0, b.score or 0
        return first > second and 1 or first == second and 0.5 or 0
    elseif a.answer == nil or b.answer == nil then
        return a.answer ~= nil and 1 or b.answer ~= nil and 0 or 0.5
    end
    return text.of(a.answer) == text.of(b.answer) and 0.5 or nil
end

---See ponder.eval.rank.
return function(result, opts)
    local where = "eval.rank"
    options.argument(where, "result", result, "table")
    opts = options.check(where, opts, SCHEMA)
    if type(result.records) ~= "table" or not result.policies[2] then
        error(where .. ": result must be that of an evaluation of at least 2 policies", 2)
    elseif opts.judge and opts.compare then
        error(where .. ": give opts.judge or opts.compare, not both", 2)
    elseif opts.logprobs and not opts.judge then
        error(where .. ": opts.logprobs needs opts.judge", 2)
    end
    local m = opts.judge and accounts.model(where .. ": opts.judge", opts.judge, 2)
    local is_judged, names = m or opts.compare, {}
    for i, policy in ipairs(result.policies) do
        names[i] = policy.name
    end
    local of, keys = by_item(result)
    local failed, first = 0, nil
    local function compare(a, b, _, _, turn)
        local function judge(key)
            local one, other = of[a][key], of[b][key]
            if not (one and other) then
                return false -- an item that one of them failed on
            end
            local value = known(one, other, is_judged)
            if value then
                return value
            elseif m then
                return vote.compare(m, text.of(one.question or one.id),
                    text.of(one.answer), text.of(other.answer), turn, opts.logprobs)
            end
            return opts.compare(one, other)
        end
        local values, errors = task.map(keys, judge, { concurrency = opts.concurrency,
            on_error = opts.compare and "raise" or "collect" })
        local sum, count = 0.0, 0
        for i = 1, #keys do
            if values[i] then
                sum, count = sum + values[i], count + 1
            elseif values[i] == nil then
                failed, first = failed + 1, first or errors[i]
            end
        end
        if count == 0 then
            return nil, first and first.message or "no item has an answer of both",
                first and first.code or "BAD_RESULT"
        end
        return sum / count
    end
    local ranked, message, code = ensemble.rank { items = names, compare = compare,
        method = opts.method, seed = opts.seed, concurrency = 1,
        repeats = opts.repeats or is_judged and 2 or 1 }
    if not ranked then
        return nil, message, code
    end
    local rows = json.array {}
    for place, i in ipairs(ranked.ranking) do
        rows[place] = { policy = names[i], points = ranked.points and ranked.points[i],
            strength = ranked.scores and ranked.scores[i] }
    end
    return { policies = rows, method = opts.method, rounds = ranked.rounds, failed = failed,
        judge = m and m.name or nil, comparisons = ranked.comparisons, spent = ranked.spent,
        errors = ranked.errors }
end
