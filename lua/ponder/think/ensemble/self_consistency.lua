--- Implements ponder.ensemble.self_consistency: samples, as many as it takes, and votes.

local accounts = require "ponder.think.ensemble.account"
local answers = require "ponder.think.parse.answer"
local confidence = require "ponder.think.ensemble.confidence"
local json = require "ponder.json"
local options = require "ponder.base.options"
local rules = require "ponder.think.ensemble.rules"
local stop = require "ponder.think.ensemble.stop"

local SCHEMA = accounts.schema(options.merge({
    n = { type = "integer", min = 1, max = 1024, default = 8 },
    extract = { type = "function", default = answers.read },
    normalize = { type = "function", default = answers.normalize },
}, rules.VOTE), true)

local TOP = 20 -- alternatives of each token, of which the paper's confidence is the mean

-- exp of the mean log probability of a reply's tokens: the normalized weight of Wang et al.
local function mean_probability(_, _, reply)
    local sum, count = 0, 0
    for _, token in ipairs(reply.logprobs or {}) do
        sum, count = sum + token.logprob, count + 1
    end
    if count == 0 then
        return nil, "the reply has no logprobs: give opts.confidence", "BAD_RESULT"
    end
    return math.exp(sum / count)
end

-- The confidence that opts.confidence names.
local function by_name(reply, opts)
    local values = confidence.values(reply.logprobs)
    if not values[1] then
        return nil, "the reply has no logprobs: give opts.confidence, a function", "BAD_RESULT"
    end
    return confidence.measure(values, { window = opts.window })[opts.confidence]
end

-- Adds the answer, its key and its weight to a sample; or nil, message, code.
local function read(account, sample, reply, opts)
    local answer, key, code = account:read(sample.text, reply.value, reply.tool_calls)
    if answer == nil then
        return nil, key, code
    end
    local weight, message = 1
    if opts.vote == "weighted" then
        if type(opts.confidence) == "string" then
            weight, message, code = by_name(reply, opts)
        else
            weight, message, code = account:try(opts.confidence or mean_probability, answer,
                sample.text, reply)
        end
        if weight == nil and message then
            return nil, message, code or "BAD_RESULT"
        elseif not options.is_finite(weight) or weight < 0 then
            return nil, "confidence must return a finite number >= 0 (got "
                .. options.show(weight) .. ")", "BAD_RESULT"
        end
    end
    sample.answer, sample.key, sample.weight = answer, key, weight
    sample.tool_calls = reply.tool_calls
    return true
end

-- The distinct answers, the highest weight first (ties: more samples, then the first to appear),
-- the entropy of their shares in bits, and the sample of the first answer with the highest weight.
local function distribution(samples)
    local list, by_key, weight, best = json.array {}, {}, 0, {}
    for _, sample in ipairs(samples) do
        local entry = by_key[sample.key]
        if not entry then
            entry = { answer = sample.answer, key = sample.key, count = 0, weight = 0,
                first = #list + 1 }
            by_key[sample.key], list[#list + 1], best[entry] = entry, entry, sample
        end
        best[entry] = sample.weight > best[entry].weight and sample or best[entry]
        entry.count, entry.weight = entry.count + 1, entry.weight + sample.weight
        weight = weight + sample.weight
    end
    table.sort(list, function(a, b)
        if a.weight ~= b.weight then return a.weight > b.weight end
        if a.count ~= b.count then return a.count > b.count end
        return a.first < b.first
    end)
    local entropy = 0.0
    for _, entry in ipairs(list) do
        entry.first = nil
        entry.share = weight > 0 and entry.weight / weight or entry.count / #samples
        if entry.share > 0 then
            entropy = entropy - entry.share * math.log(entry.share, 2)
        end
    end
    return list, math.max(0.0, entropy), best[list[1]]
end

-- All n samples that have an answer.
local function ask_all(account, m, messages, opts)
    local replies, samples = account:sample(m, messages, opts, opts.n), json.array {}
    for i = 1, opts.n do
        if replies[i] then
            local sample = { sample = i, text = replies[i].text }
            local ok, message, code = read(account, sample, replies[i], opts)
            if ok then
                samples[#samples + 1] = sample
            else
                account:fail(i, message, code)
            end
        end
    end
    return samples
end

-- Samples until the vote is sure, or until the first replies have come. Returns those that vote,
-- how far it went, and why it ended.
local function ask_until(account, m, messages, opts)
    local samples, lengths = json.array {}, {}
    local votes = stop.votes(opts.n, opts.stop_at, math.max(opts.min_samples or 1,
        opts.min_successes))
    local is_timed = opts.first and opts.finish ~= "tokens"
    local counts = account:series(m, messages, opts, {
        as_they_come = is_timed,
        read = function(reply, i)
            local sample = { sample = i, text = reply.text }
            local ok, message, code = read(account, sample, reply, opts)
            lengths[i] = opts.first and { reply.usage and reply.usage.output_tokens, #reply.text }
            return ok and sample or nil, message, code
        end,
        add = function(_, sample)
            samples[#samples + 1] = sample
            return votes:add(sample and sample.key) or is_timed and #samples == opts.first
        end,
        highest = function()
            return opts.eager and opts.n or votes.highest
        end,
    })
    if not opts.first then
        return samples, counts, votes.stop_reason, votes
    end
    if not is_timed then
        local answered, sizes, has_tokens = {}, {}, true
        for _, sample in ipairs(samples) do
            has_tokens = has_tokens and lengths[sample.sample][1] ~= nil
        end
        for i, sample in ipairs(samples) do
            answered[i], sizes[i] = true, lengths[sample.sample][has_tokens and 1 or 2]
        end
        samples = json.array(options.at(samples, (stop.shortest(answered, sizes, opts.first))))
    end
    return samples, counts, #samples == opts.first and "first" or "max"
end

-- Samples whose streams are cancelled once they are less confident than those of the warm-up.
-- Returns those with an answer, how far it went, why it ended, and the votes.
local function ask_online(account, m, messages, opts)
    local samples, votes = json.array {}, confidence.votes(opts)
    local counts = account:series(m, messages, opts, {
        watch = function(i)
            if i <= opts.warmup then
                return nil
            end
            local falls = confidence.watch(opts.window, votes.threshold)
            return function(tokens)
                return falls(confidence.values(tokens))
            end
        end,
        read = function(reply, i)
            local values = confidence.values(reply.logprobs)
            if not values[1] and reply.text ~= "" then
                return nil, "the reply has no logprobs", "BAD_RESULT"
            end
            local sample = { sample = i, text = reply.text, answer = false,
                weight = confidence.lowest(values, opts.window),
                stopped = i > opts.warmup
                    and confidence.watch(opts.window, votes.threshold)(values)
                    or reply.finish_reason == "cancelled" and #values } -- for another threshold
            if not sample.stopped then
                local answer, key, code = account:read(reply.text, reply.value, reply.tool_calls)
                sample.answer, sample.key, sample.tool_calls = answer, key, reply.tool_calls
                sample.failure = answer == nil and { key, code } or nil
            end
            return sample
        end,
        add = function(i, sample)
            if not sample then
                return votes:add(false, nil, false) or i == opts.n
            elseif sample.failure then
                account:fail(i, sample.failure[1], sample.failure[2])
            elseif not sample.stopped then
                samples[#samples + 1], sample.stopped = sample, nil
            end
            return votes:add(sample.answer and sample.key, sample.weight, sample.stopped or false)
                or i == opts.n
        end,
        highest = function()
            local settled = votes.settled
            return settled < opts.warmup and opts.warmup
                or (opts.eager or not opts.consensus) and opts.n or math.min(opts.n, settled + 1)
        end,
    })
    return samples, counts, votes.stop_reason or "max", votes
end

-- Of weighted samples those that vote, `numbers`; else of the highest weights the share `keep`.
local function keep_best(samples, keep, numbers, threshold)
    local order, weights, kept, votes = {}, {}, json.array {}, {}
    for i, sample in ipairs(samples) do
        order[i], weights[i] = sample.sample, sample.weight
    end
    if not numbers then
        local chosen = confidence.vote { answers = order, weights = weights, keep = keep }
        numbers, threshold = options.at(order, chosen.kept), chosen.threshold
    end
    for _, number in ipairs(numbers) do
        votes[number] = true
    end
    for _, sample in ipairs(samples) do
        sample.kept = votes[sample.sample] or false
        kept[#kept + 1] = sample.kept and sample or nil
    end
    return kept, threshold
end

---See ponder.ensemble.self_consistency.
return function(opts, more)
    local where = "ensemble.self_consistency"
    opts = accounts.check(where, opts, SCHEMA, more, rules.vote_problem)
    local m = accounts.model(where .. ": model", opts.model, 2)
    local messages = accounts.messages(where, opts.prompt, 2)
    if opts.warmup or opts.consensus then
        opts.confidence, opts.warmup = "lowest", opts.warmup or rules.WARMUP
        opts.window, opts.keep = opts.window or 2048, opts.keep or 0.1
    end
    if opts.vote == "weighted" and type(opts.confidence) ~= "function" and opts.logprobs == nil then
        opts.logprobs = type(opts.confidence) == "string" and TOP or true
    end
    local account, stop_reason = accounts.new(opts), "n"
    local samples, counts, votes
    if opts.stop_at or opts.first or opts.warmup then
        samples, counts, stop_reason, votes = (opts.warmup and ask_online or ask_until)(account, m,
            messages, opts)
    else
        samples = ask_all(account, m, messages, opts)
    end
    local voting, threshold, stops = samples, nil, opts.warmup and votes.stops
    if opts.keep then
        voting, threshold = keep_best(samples, opts.keep, opts.warmup and votes.kept, votes
            and votes.threshold)
    end
    local result = { stop_reason = stop_reason, threshold = threshold, stops = stops,
        samples = samples }
    if counts then
        accounts.count(result, counts, #voting)
    end
    if #samples < opts.min_successes or not voting[1] then
        if samples[1] then
            account.errors[1] = account.errors[1] or { code = "BAD_RESULT",
                message = "no sample with an answer is confident enough to vote" }
        end
        return account:give_up("self_consistency", opts.min_successes, #voting, result)
    end
    local list, entropy, best = distribution(voting)
    options.merge(result, { answer = list[1].answer, score = list[1].share, share = list[1].share,
        text = best.text, tool_calls = best.tool_calls and list[1].answer, distribution = list,
        entropy = entropy,
        certainty = opts.vote == "majority" and stop.certainty(list[1].count,
            list[2] and list[2].count or 0) or nil })
    if counts and opts.stop_at then
        result.certainty = votes:certainty()
    elseif not counts and not opts.keep then
        account:show_samples(samples, list[1].answer)
    end
    return account:close(result)
end
