-- Simulates the rules that end sampling (ponder.ensemble), 2,000 times each: what they save and
-- what they lose. Prints the tables of `ponder help samples`. The same numbers every time.
--
--     build/ponder run --no-log scripts/bench/stopping.lua

local ensemble = require "ponder.ensemble"
local stats = require "ponder.stats"
local task = require "ponder.task"

local RUNS, N = 2000, 40

local seed = 0

-- `count` numbers from 0 to below 1.
local function uniform(count)
    seed = seed + 1
    local list = stats.splitmix64_below(seed, 1 << 40, count)
    for i, word in ipairs(list) do list[i] = word / (1 << 40) end
    return list
end

-- A model whose reply to sample i is reply(i): no calls, no time, but for `delays`.
local function model_of(reply)
    return { name = "simulated", chat = function(_, call)
        return reply(call.sample)
    end }
end

local function whole(text) return text end

-- ---- votes ----

-- An answer by its shares; what is left scatters over 20 others.
local function draw(shares, u)
    for i, share in ipairs(shares) do
        if u < share then return "answer " .. i end
        u = u - share
    end
    return "other " .. math.floor(u * 1000) % 20
end

local function vote(shares, opts)
    local right, calls = 0, 0
    for _ = 1, RUNS do
        local us = uniform(N)
        opts.model = model_of(function(i) return { text = draw(shares, us[i]) } end)
        opts.prompt, opts.extract, opts.normalize = "q", whole, whole
        local result = assert(ensemble.self_consistency(opts))
        right = right + (result.answer == "answer 1" and 1 or 0)
        calls = calls + (result.calls or opts.n)
    end
    return 100 * right / RUNS, calls / RUNS
end

local function votes()
    print("| shares of the answers | all 40 | stop_at 0.95, min 3 | samples | stop_at 0.99, min 3 "
        .. "| samples | a vote of 8 |")
    for _, shares in ipairs { { 0.9 }, { 0.7 }, { 0.5, 0.2 }, { 0.5, 0.4 }, { 0.35, 0.3 },
        { 0.2, 0.05 } } do
        local before = seed
        local all = vote(shares, { n = N })
        seed = before
        local some, calls = vote(shares, { n = N, stop_at = 0.95, min_samples = 3 })
        seed = before
        local more, more_calls = vote(shares, { n = N, stop_at = 0.99, min_samples = 3 })
        seed = before
        local eight = vote(shares, { n = 8 })
        print(("| %s | %.1f %% | %.1f %% | %.1f | %.1f %% | %.1f | %.1f %% |"):format(
            table.concat(shares, ", "), all, some, calls, more, more_calls, eight))
    end
end

-- ---- best of n ----

-- Box and Muller's normal number from two uniform ones.
local function normal(u, v)
    return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)
end

local REWARDS = {
    { "exponential", function(u) return -math.log(1 - u[1]) end },
    { "normal", function(u) return normal(u[1], u[2]) end },
    { "uniform", function(u) return u[1] end },
    { "right in 20 %", function(u) return u[1] < 0.2 and 1 or 0 end },
}

local function costs()
    print("| rewards | cost | exponential tail: net, calls | normal tail: net, calls | the best "
        .. "fixed n: net, n | n = 32: net |")
    for _, kind in ipairs(REWARDS) do
        for _, cost in ipairs { 0.01, 0.05 } do
            local fixed, cells = {}, { kind[1], ("%g"):format(cost) }
            for n = 1, 32 do fixed[n] = 0.0 end
            local sums = { exponential = { 0.0, 0 }, normal = { 0.0, 0 } }
            for _ = 1, RUNS do
                local us, rewards, best = uniform(64), {}, -math.huge
                for i = 1, 32 do
                    rewards[i] = kind[2] { us[2 * i - 1], us[2 * i] }
                    best = math.max(best, rewards[i])
                    fixed[i] = fixed[i] + best - cost * i
                end
                for tail, sum in pairs(sums) do
                    local result = assert(ensemble.best_of_n { prompt = "q", n = 32, cost = cost,
                        tail = tail, model = model_of(function(i)
                            return { text = ("%.17g"):format(rewards[i]) }
                        end), reward = function(text) return tonumber(text) end })
                    sum[1] = sum[1] + result.score - cost * result.calls
                    sum[2] = sum[2] + result.calls
                end
            end
            local most = 1
            for n = 2, 32 do most = fixed[n] > fixed[most] and n or most end
            for _, tail in ipairs { "exponential", "normal" } do
                cells[#cells + 1] = ("%.3f, %.1f"):format(sums[tail][1] / RUNS,
                    sums[tail][2] / RUNS)
            end
            cells[#cells + 1] = ("%.3f, %d"):format(fixed[most] / RUNS, most)
            cells[#cells + 1] = ("%.3f"):format(fixed[32] / RUNS)
            print("| " .. table.concat(cells, " | ") .. " |")
        end
    end
end

-- ---- the shortest replies ----

-- Right ones have a mean length of 1, wrong ones of `wrong`; lengths are exponential plus a half.
local function shortest()
    print "| length of wrong replies | all 8 | first 3 of 8 | tokens of these |"
    for _, wrong in ipairs { 1.5, 1.2, 1.0, 0.8 } do
        local all, some, tokens, total = 0, 0, 0.0, 0.0
        for _ = 1, RUNS do
            local us, lengths, texts = uniform(24), {}, {}
            for i = 1, 8 do
                local is_right = us[3 * i] < 0.45
                texts[i] = is_right and "right" or "wrong " .. math.floor(us[3 * i - 1] * 4)
                lengths[i] = (is_right and 1 or wrong) * (0.5 - 0.5 * math.log(1 - us[3 * i - 2]))
            end
            local m = model_of(function(i)
                return { text = texts[i], usage = { input_tokens = 1,
                    output_tokens = math.floor(lengths[i] * 1000) } }
            end)
            local opts = { model = m, prompt = "q", n = 8, extract = whole, normalize = whole }
            all = all + (assert(ensemble.self_consistency(opts)).answer == "right" and 1 or 0)
            opts.first, opts.finish = 3, "tokens"
            local result = assert(ensemble.self_consistency(opts))
            some = some + (result.answer == "right" and 1 or 0)
            local last = lengths[result.samples[3].sample]
            for i = 1, 8 do
                tokens, total = tokens + math.min(lengths[i], last), total + lengths[i]
            end
        end
        print(("| %g of right ones | %.1f %% | %.1f %% | %.0f %% |"):format(wrong,
            100 * all / RUNS, 100 * some / RUNS, 100 * tokens / total))
    end
end

-- ---- confidence ----

local KEEP, TOKENS = { 0.9, 0.5, 0.1 }, 32

-- The mean confidence of a reply scatters by 1 about 5, and is higher by `more` if it is right;
-- that of its tokens scatters by 1 about it.
local function confidences()
    print "| shares | right ones surer by | vote of 40 | warmup 16, keep 0.9 | 0.5 | 0.1 |"
    for _, shares in ipairs { { 0.4, 0.35 }, { 0.5, 0.2 } } do
        for _, more in ipairs { 0, 0.5, 1 } do
            local right, tokens = { 0, 0, 0, 0 }, { 0, 0, 0 }
            for _ = 1, RUNS do
                local us, samples, answers, ones = uniform(N * (2 * TOKENS + 3)), {}, {}, {}
                for i = 1, N do
                    local at, list = (i - 1) * (2 * TOKENS + 3), {}
                    answers[i], ones[i] = draw(shares, us[at + 1]), 1
                    local mean = 5 + normal(us[at + 2], us[at + 3])
                        + (answers[i] == "answer 1" and more or 0)
                    for t = 1, TOKENS do
                        list[t] = mean + normal(us[at + 2 + 2 * t], us[at + 3 + 2 * t])
                    end
                    samples[i] = { answers[i], list }
                end
                local all = ensemble.weighted_vote { answers = answers, weights = ones }
                right[4] = right[4] + (all.answer == "answer 1" and 1 or 0)
                for k, keep in ipairs(KEEP) do
                    local result = ensemble.online_confidence { samples = samples, warmup = 16,
                        window = 8, keep = keep }
                    right[k] = right[k] + (result.answer == "answer 1" and 1 or 0)
                    for i = 1, N do tokens[k] = tokens[k] + (result.stops[i] or TOKENS) end
                end
            end
            local cells = { table.concat(shares, ", "), ("%g"):format(more),
                ("%.1f %%"):format(100 * right[4] / RUNS) }
            for k in ipairs(KEEP) do
                cells[#cells + 1] = ("%.1f %% (%.0f %%)"):format(100 * right[k] / RUNS,
                    100 * tokens[k] / (TOKENS * N * RUNS))
            end
            print("| " .. table.concat(cells, " | ") .. " |")
        end
    end
end

task.with_budget({}, function()
    votes()
    print()
    costs()
    print()
    shortest()
    print()
    confidences()
end)
