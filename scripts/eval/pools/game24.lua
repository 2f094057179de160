--- What more samples buy on Game of 24, and what stopping early saves, on recorded replies of
--- GPT-4: 100 puzzles with 100 samples each of two prompts. No key, no network, no cost.
---
---     ponder run scripts/eval/pools/game24.lua             the table of all figures, in a second
---     ponder run scripts/eval/pools/game24.lua --json
---     ponder eval scripts/eval/pools/game24.lua            the same as an evaluation of policies
---
--- The replies are those of Yao et al. 2023, "Tree of Thoughts": see README.md beside this file.
--- Votes compare what is before the equals sign. "First k" are samples 1 to k. Intervals (95 %):
--- normal over puzzles for means, Wilson's for shares.

local data = require "ponder.data"
local ensemble = require "ponder.ensemble"
local json = require "ponder.json"
local model = require "ponder.model"
local stats = require "ponder.stats"
local task = require "ponder.task"

local here = debug.getinfo(1, "S").source:match "^@(.*/)[^/]*$" or "./"
local expression = dofile(here .. "../expression.lua")

local POOL = here .. "game24_gpt4.jsonl"
local PROMPTS = { "io", "cot" }
local GOAL = 24

-- Whether a reply makes 24 of the four numbers, each used once; by exact arithmetic.
local function is_right(puzzle, reply)
    local value, used = expression.find((tostring(reply):gsub("=.*", "")))
    local numbers = {}
    for number in puzzle:gmatch "%d+" do numbers[#numbers + 1] = math.tointeger(number) end
    table.sort(numbers)
    return value ~= nil and table.concat(used, " ") == table.concat(numbers, " ")
        and value.top == GOAL and value.bottom == 1
end

local function key(reply)
    return (reply:gsub("=.*", ""):lower():gsub("%s", ""))
end

local function whole(reply) return reply end

-- ---- as an evaluation ----

if type((...)) == "table" then
    local function policies_of(name)
        local m = "pool:" .. POOL .. "#" .. name
        return {
            [name] = { model = m, prompt = "{{question}}" },
            [name .. "-vote"] = { model = m, prompt = "{{question}}", n = 40, extract = whole,
                normalize = key },
            [name .. "-adaptive"] = { model = m, prompt = "{{question}}", n = 40, stop_at = 0.95,
                min_samples = 3, extract = whole, normalize = key },
            [name .. "-best-of-n"] = { model = m, prompt = "{{question}}", n = 40, enough = 1,
                reward = function(reply, item)
                    return is_right(item.question, reply) and 1 or 0
                end },
        }
    end
    local policies = policies_of "io"
    for name, policy in pairs(policies_of "cot") do policies[name] = policy end
    return {
        name = "game24 pool", baseline = "io", policies = policies,
        data = function(load)
            local items = {}
            for i, line in ipairs(load "game24_gpt4.jsonl") do
                items[i] = { id = line.id, question = line.input }
            end
            return items
        end,
        score = function(item, answer) return is_right(item.question, answer) end,
    }
end

-- ---- as a table ----

local puzzles = assert(data.load(POOL))

-- The mean over puzzles, with its interval.
local function mean_of(values)
    local mean, se = stats.mean(values), stats.se_clt(values)
    local z = 1.959963984540054
    return { mean, mean - z * se, mean + z * se }
end

-- The share of puzzles, with its interval.
local function share_of(count)
    local lower, upper = table.unpack(stats.wilson(count, #puzzles, 0.95))
    return { count / #puzzles, lower, upper }
end

-- The most frequent key of the first k samples (ties: the first seen), and its first sample.
local function majority(field, k)
    local counts, first, best = {}, {}, nil
    for i = 1, k do
        local own = key(field.answers[field.samples[i] + 1])
        counts[own], first[own] = (counts[own] or 0) + 1, first[own] or i
    end
    for own, count in pairs(counts) do
        if not best or count > counts[best]
            or count == counts[best] and first[own] < first[best] then
            best = own
        end
    end
    return best, first[best]
end

local function adaptive(name, min_samples, n)
    local m = model.open("pool:" .. POOL .. "#" .. name)
    local results = task.map(puzzles, function(puzzle)
        return assert(ensemble.self_consistency { model = m, prompt = puzzle.input, n = n,
            stop_at = 0.95, min_samples = min_samples, extract = whole, normalize = key })
    end)
    local samples, tokens, right, agree, sure, total = {}, {}, 0, 0, 0, 0
    for i, result in ipairs(results) do
        samples[i], tokens[i] = result.calls, result.spent.usage.output_tokens
        right = right + (is_right(puzzles[i].input, result.answer) and 1 or 0)
        agree = agree + (key(result.answer) == majority(puzzles[i][name], n) and 1 or 0)
        sure = sure + (result.stop_reason == "sure" and 1 or 0)
        total = total + result.calls
    end
    return { samples = mean_of(samples), tokens = mean_of(tokens), accuracy = share_of(right),
        agreement = share_of(agree), sure = sure, total_samples = total }
end

local function figures(name)
    local out = { pass_at_k = {}, majority = {}, best_of = {}, adaptive = {} }
    for k = 1, 64 do
        local passed = {}
        for i, puzzle in ipairs(puzzles) do
            local _, right = puzzle[name].correct:gsub("1", "")
            passed[i] = stats.pass_at_k(#puzzle[name].samples, right, k)
        end
        out.pass_at_k[tostring(k)] = mean_of(passed)
    end
    for _, k in ipairs { 1, 2, 4, 8, 16, 32, 64 } do
        local by_vote, by_best = 0, 0
        for _, puzzle in ipairs(puzzles) do
            local field = puzzle[name]
            local _, sample = majority(field, k)
            by_vote = by_vote + (field.correct:sub(sample, sample) == "1" and 1 or 0)
            by_best = by_best + (field.correct:sub(1, k):find("1", 1, true) and 1 or 0)
        end
        out.majority[tostring(k)], out.best_of[tostring(k)] = share_of(by_vote), share_of(by_best)
    end
    out.adaptive["p=0.95 min=3 n=40"] = adaptive(name, 3, 40)
    out.adaptive["p=0.95 min=1 n=100"] = adaptive(name, 1, 100)
    return out
end

local tables = {}
for _, name in ipairs(PROMPTS) do tables[name] = figures(name) end

if (...) == "--json" then
    print(json.encode(tables))
    return
end

-- ---- printing ----

local function percent(one, digits)
    local form = digits and "%.1f %% (%.1f..%.1f)" or "%.0f %% (%.0f..%.0f)"
    return form:format(one[1] * 100, one[2] * 100, one[3] * 100)
end

-- Prints rows in columns as wide as their widest cell.
local function print_rows(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
    end
    for _, row in ipairs(rows) do
        local cells = {}
        for i, cell in ipairs(row) do cells[i] = cell .. (" "):rep(widths[i] - #cell) end
        print((table.concat(cells, "  "):gsub("%s+$", "")))
    end
end

local rows = { { "", "pass@1", "pass@4", "pass@16", "pass@64" } }
for i, name in ipairs(PROMPTS) do
    rows[i + 1] = { name }
    for j, k in ipairs { "1", "4", "16", "64" } do
        rows[i + 1][j + 1] = percent(tables[name].pass_at_k[k], true)
    end
end
print_rows(rows)
print()
rows = { { "", "majority of 1", "of 8", "of 64", "best of first 8", "of 64" } }
for i, name in ipairs(PROMPTS) do
    local vote, best = tables[name].majority, tables[name].best_of
    rows[i + 1] = { name, percent(vote["1"]), percent(vote["8"]), percent(vote["64"]),
        percent(best["8"]), percent(best["64"]) }
end
print_rows(rows)
print()
rows = { { "adaptive, stop_at = 0.95", "samples used", "tokens", "sure", "accuracy",
    "agrees with the vote of all n" } }
for _, name in ipairs(PROMPTS) do
    for _, case in ipairs { { "p=0.95 min=3 n=40", "min_samples 3, n 40" },
        { "p=0.95 min=1 n=100", "min_samples 1, n 100" } } do
        local one = tables[name].adaptive[case[1]]
        rows[#rows + 1] = { name .. ", " .. case[2], ("%.2f (%.2f..%.2f)"):format(
            table.unpack(one.samples)), ("%.1f"):format(one.tokens[1]), tostring(one.sure),
            percent(one.accuracy), percent(one.agreement) }
    end
end
print_rows(rows)
