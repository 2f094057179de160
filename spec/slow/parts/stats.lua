-- Whether the intervals and tests of an evaluation do what they promise: coverage, false alarms and
-- power, over simulated evaluations of which the truth is known. `ponder help evaluation` has the
-- tables that this prints (make soak SOAK=stats).

local clusters = require "ponder.base.stats.clusters"
local decide = require "ponder.base.stats.decide"
local distributions = require "ponder.base.stats.distributions"
local estimate = require "ponder.judge.eval.estimate"
local power = require "ponder.judge.eval.power"
local stats = require "ponder.stats"

local COUNTS, EPOCHS = { 4, 8, 20, 50, 200 }, { 1, 2, 5, 10 }
local SHARES = { 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.98 }
local PAIRS = { { 0.02, 0.02 }, { 0.02, 0.98 }, { 0.3, 0.35 }, { 0.5, 0.5 }, { 0.7, 0.9 },
    { 0.9, 0.95 }, { 0.97, 0.97 } }
-- The standard deviation of the items' difficulties, in logits: all runs are independent, items
-- differ, all runs of an item have the same score.
local SPREADS = { 0, 2, 50 }
local LEVELS = 40 -- difficulties of items

local random = math.random

local NORMAL, CHANCES = {}, {}
for level = 1, LEVELS do
    NORMAL[level] = -distributions.normal_upper((level - 0.5) / LEVELS)
end

-- The chance of a right answer at each level of difficulty; their mean is `share`.
local function chances(share, spread)
    local key = share .. " " .. spread
    if CHANCES[key] then
        return CHANCES[key], stats.mean(CHANCES[key])
    end
    local list, low, high = {}, -500.0, 500.0
    for _ = 1, 60 do
        local middle, sum = (low + high) / 2, 0.0
        for level = 1, LEVELS do
            list[level] = 1 / (1 + math.exp(-(middle + spread * NORMAL[level])))
            sum = sum + list[level]
        end
        if sum / LEVELS < share then
            low = middle
        else
            high = middle
        end
    end
    CHANCES[key] = list
    return list, stats.mean(list)
end

-- For each level: the probabilities of at most 0, 1, ... right answers in `epochs` runs.
local function binomials(list, epochs)
    local tables = {}
    for level, chance in ipairs(list) do
        local sum, row = 0.0, {}
        for k = 0, epochs - 1 do
            sum = sum + distributions.binomial_density(k, epochs, chance)
            row[k] = sum
        end
        row[epochs] = 2.0
        tables[level] = row
    end
    return tables
end

local function draw(row)
    local u, k = random(), 0
    while row[k] <= u do
        k = k + 1
    end
    return k
end

local function filled(count, value)
    local list = {}
    for i = 1, count do
        list[i] = value
    end
    return list
end

-- Reports a share, which at the size of `make soak` must be within limits.
local function within(s, what, share, least, most)
    s:report(what, share, ">=", s.full and least or least / 2)
    if s.full then
        s:report(what, share, "<=", most)
    end
end

-- Coverage of one share; `size` evaluations.
local function cover_share(size, count, epochs, share, spread)
    local list, truth = chances(share, spread)
    local tables, sizes, sums, held = binomials(list, epochs), filled(count, epochs), {}, 0
    for _ = 1, size do
        local right, lower, upper, _ = 0
        for g = 1, count do
            sums[g] = draw(tables[random(LEVELS)])
            right = right + sums[g]
        end
        if epochs == 1 and count >= estimate.FEW then
            local interval = stats.wilson(right, count)
            lower, upper = interval[1], interval[2]
        else
            _, lower, upper = clusters.interval(sums, sizes, true, 0.95)
        end
        held = held + (lower <= truth and truth <= upper and 1 or 0)
    end
    return held / size
end

-- Coverage of a difference, of policies whose items have the same difficulties; and how often p is
-- below 0.05.
local function cover_difference(size, count, epochs, pair, spread, common)
    local first, p1 = chances(pair[1], spread)
    local second, p2 = chances(pair[2], spread)
    local truth, held, alarms = p1 - p2, 0, 0
    local tables1, tables2 = binomials(first, epochs), binomials(second, epochs)
    local sizes, sums = filled(count, epochs), {}
    for _ = 1, size do
        local cells, total, lower, upper, is_alarm = { 0, 0, 0, [0] = 0 }, 0
        for g = 1, count do
            local level = random(LEVELS)
            local a = draw(tables1[level])
            local b = draw(tables2[random() < common and level or random(LEVELS)])
            sums[g], total = (epochs + a - b) / 2, total + a - b
            cells[2 * a + b] = (cells[2 * a + b] or 0) + 1
        end
        if epochs == 1 and count >= estimate.FEW then
            local interval = stats.newcombe_paired(cells[3], cells[2], cells[1], cells[0])
            lower, upper = interval[2], interval[3]
            is_alarm = stats.mcnemar_exact(cells[2], cells[1]) < 0.05
        else
            local _, low, high = clusters.interval(sums, sizes, false, 0.95)
            lower, upper = 2 * low - 1, 2 * high - 1
            is_alarm = lower > 0 or upper < 0
        end
        held = held + (lower <= truth + 1e-12 and truth - 1e-12 <= upper and 1 or 0)
        alarms = alarms + (is_alarm and 1 or 0)
    end
    return held / size, alarms / size
end

-- A table by clusters and epochs: the lowest, mean and highest of `figures(count, epochs)`.
local function grid(s, title, figures)
    local lowest, sum, n = 1.0, 0.0, 0
    s.print("  " .. title .. ": lowest, mean, highest")
    for _, count in ipairs(COUNTS) do
        local line = { ("  | %8d "):format(count) }
        for _, epochs in ipairs(EPOCHS) do
            local list = figures(count, epochs)
            table.sort(list)
            lowest, sum, n = math.min(lowest, list[1]), sum + stats.mean(list), n + 1
            line[#line + 1] = ("| %5.1f %5.1f %5.1f "):format(100 * list[1],
                100 * stats.mean(list), 100 * list[#list])
        end
        s.print(table.concat(line) .. "|")
    end
    return lowest, sum / n
end

local function coverage(s)
    math.randomseed(s.seed, 1)
    local lowest, mean = grid(s, "coverage of a share", function(count, epochs)
        local list = {}
        for _, share in ipairs(SHARES) do
            for _, spread in ipairs(epochs == 1 and { 0 } or SPREADS) do
                list[#list + 1] = cover_share(s.size, count, epochs, share, spread)
            end
        end
        return list
    end)
    s:report("mean coverage of shares", mean, ">=", 0.94)
    s:report("lowest coverage of shares", lowest, ">=", s.full and 0.9 or 0.6)
end

local function differences(s)
    math.randomseed(s.seed, 2)
    local alarms = {}
    local lowest, mean = grid(s, "coverage of a difference", function(count, epochs)
        local list = {}
        for _, pair in ipairs(PAIRS) do
            for _, spread in ipairs(epochs == 1 and { 0 } or SPREADS) do
                for _, common in ipairs(spread > 0 and { 0, 0.9 } or { 0 }) do
                    local held, alarm = cover_difference(s.size, count, epochs, pair, spread,
                        common)
                    list[#list + 1] = held
                    if pair[1] == pair[2] then
                        alarms[count * 100 + epochs] = alarms[count * 100 + epochs] or {}
                        table.insert(alarms[count * 100 + epochs], alarm)
                    end
                end
            end
        end
        return list
    end)
    s:report("mean coverage of differences", mean, ">=", 0.94)
    s:report("lowest coverage of differences", lowest, ">=", s.full and 0.85 or 0.6)
    local most = 0.0
    grid(s, "false alarms of equal policies", function(count, epochs)
        local list = alarms[count * 100 + epochs]
        most = math.max(most, table.unpack(list))
        return list
    end)
    s:report("most false alarms at p < 0.05", most, "<=", s.full and 0.07 or 0.4)
end

-- Pairs of scores of independent items: the chance that only the first, only the second is right.
local function pairs_of(n, only_first, only_second, b, c)
    for _ = 1, n do
        local u = random()
        if u < only_first then
            b = b + 1
        elseif u < only_first + only_second then
            c = c + 1
        end
    end
    return b, c
end

-- Any false alarm among five equal policies, compared with one of them or each with each.
local function families(s)
    math.randomseed(s.seed, 3)
    local items = {}
    for i = 1, 100 do
        items[i] = i
    end
    for _, all in ipairs { false, true } do
        local alarms = 0
        for _ = 1, s.size do
            local right, ps = {}, {}
            for policy = 1, 5 do
                right[policy] = {}
                for i = 1, 100 do
                    right[policy][i] = random() < 0.7 and 1 or 0
                end
                for other = 1, all and policy - 1 or math.min(1, policy - 1) do
                    ps[#ps + 1] = estimate.difference(right[policy], right[other], items, items).p
                end
            end
            alarms = alarms + (math.min(table.unpack(stats.holm(ps))) < 0.05 and 1 or 0)
        end
        s:report(("families of %d comparisons with a false alarm"):format(all and 10 or 4),
            alarms / s.size, "<=", s.full and 0.06 or 0.25)
    end
end

local function power_before(s)
    math.randomseed(s.seed, 4)
    for _, case in ipairs { { 0.05, 0.5, 0.5 }, { 0.05, 0.9, 0.3 }, { 0.1, 0.7, 0.0 },
        { 0.1, 0.3, 0.8 }, { 0.2, 0.5, 0.3 } } do
        local delta, accuracy, correlation = table.unpack(case)
        local variance = power.variance(accuracy, accuracy + delta, correlation)
        local n, found = power.items(delta, variance), 0
        local apart = variance + delta * delta
        for _ = 1, s.size do
            local b, c = pairs_of(n, (apart + delta) / 2, (apart - delta) / 2, 0, 0)
            found = found + (stats.mcnemar_exact(b, c) < 0.05 and 1 or 0)
        end
        local what = ("found: %.2f above %.2f, r = %.1f, %d items"):format(delta, accuracy,
            correlation, n)
        within(s, what, found / s.size, 0.78, 0.82)
    end
end

-- Evaluations that decide nothing, and go on for as long as the report says. The truth is drawn
-- evenly, since what is said holds for all true differences together.
local function power_after(s)
    math.randomseed(s.seed, 5)
    for _, n in ipairs { 50, 100, 200 } do
        local undecided, decided, alone = 0, 0, 0.4
        while undecided < s.size do
            local delta = (2 * random() - 1) * alone
            local only = { (alone + delta) / 2, (alone - delta) / 2 }
            local b, c = pairs_of(n, only[1], only[2], 0, 0)
            if b + c > 0 and stats.mcnemar_exact(b, c) >= 0.05 then
                local value = (b - c) / n
                local more = power.more({ clusters = n, value = value, method = "newcombe, mcnemar",
                    spread = math.sqrt(((b + c) / n - value ^ 2) * n / (n - 1)) }, 0.05)
                b, c = pairs_of(more, only[1], only[2], b, c)
                undecided = undecided + 1
                decided = decided + (stats.mcnemar_exact(b, c) < 0.05 and 1 or 0)
            end
        end
        within(s, ("decided by the items said, after %d"):format(n), decided / undecided, 0.78,
            0.82)
    end
end

-- The same with several runs of each item, whose difficulty both policies share; and the plan
-- before, with the variance that the items have.
local function power_clustered(s)
    math.randomseed(s.seed, 6)
    local function add(sums, count, epochs, delta)
        for _ = 1, count do
            local chance, sum = 0.2 + 0.6 * random(), 0
            for _ = 1, epochs do
                sum = sum + (random() < chance + delta / 2 and 1 or 0)
                    - (random() < chance - delta / 2 and 1 or 0)
            end
            sums[#sums + 1] = (epochs + sum) / 2
        end
    end
    local function test(sums, epochs)
        local mean, lower, upper = clusters.interval(sums, filled(#sums, epochs), false, 0.95)
        return lower > 0.5 or upper < 0.5, { clusters = #sums, value = 2 * mean - 1,
            method = "clustered difference",
            spread = 2 / epochs * stats.se_clt(sums) * math.sqrt(#sums) }
    end
    for _, case in ipairs { { 30, 5, 0.1 }, { 60, 3, 0.15 } } do
        local count, epochs, delta = table.unpack(case)
        local decided, undecided, found, sums = 0, 0, 0
        while undecided < s.size do
            local truth = (2 * random() - 1) * 0.4
            sums = {}
            add(sums, count, epochs, truth)
            local is_found, difference = test(sums, epochs)
            if not is_found then
                add(sums, power.more(difference, 0.05), epochs, truth)
                undecided, decided = undecided + 1, decided + (test(sums, epochs) and 1 or 0)
            end
        end
        -- The mean of p1 (1 - p1) + p2 (1 - p2) over chances from 0.2 to 0.8.
        local n = power.items(delta, (0.5 - 2 * 0.03 - delta ^ 2 / 2) / epochs,
            "clustered difference")
        for _ = 1, s.size do
            sums = {}
            add(sums, n, epochs, delta)
            found = found + (test(sums, epochs) and 1 or 0)
        end
        within(s, ("decided by the items said, after %d of %d epochs"):format(count, epochs),
            decided / s.size, 0.78, 0.82)
        within(s, ("found: %.2f, %d epochs, %d items"):format(delta, epochs, n), found / s.size,
            0.78, 0.82)
    end
end

-- Of pairs that differ on a share of the items, how many --decide decides, a look after every item.
local function decisions(s)
    math.randomseed(s.seed, 7)
    for _, case in ipairs { { 0.1, 0, 2000, 0, 0.06 }, { 0.3, 0, 2000, 0, 0.06 },
        { 0.6, 0, 2000, 0, 0.06 }, { 0.2, 0.05, 1000, 0.7, 0.78 }, { 0.3, 0.1, 1000, 0.98, 1 } } do
        local share, delta, items, least, most = table.unpack(case)
        local decided, wrong, saved = 0, 0, 0
        for _ = 1, s.size do
            local one = decide.begin(0.05)
            for _ = 1, items do
                local at = random()
                local d = at < (share + delta) / 2 and 1 or at < share and -1 or 0
                if one:add(d) then
                    break
                end
            end
            decided, saved = decided + (one.verdict and 1 or 0), saved + 1 - one.at / items
            wrong = wrong + (delta > 0 and one.verdict == "lower" and 1 or 0)
        end
        within(s, ("decided: %.2f, differ on %.1f"):format(delta, share), decided / s.size, least,
            most)
        s:report("on the wrong side", wrong / s.size, "<=", s.full and 0.01 or 0.1)
        s:report("share of items saved", saved / s.size, ">=", 0)
    end
end

return {
    size = 2000, -- evaluations, of each kind
    in_test = true,
    steps = {
        { "coverage", coverage },
        { "differences", differences },
        { "families", families },
        { "power before", power_before },
        { "power after", power_after },
        { "power in clusters", power_clustered },
        { "decisions", decisions },
    },
}
