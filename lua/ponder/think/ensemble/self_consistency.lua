--- Implements ponder.think.ensemble.self_consistency: samples, then votes.

local accounts = require "ponder.think.ensemble.account"
local answers = require "ponder.think.parse.answer"
local json = require "ponder.json"
local options = require "ponder.base.options"

local SCHEMA = accounts.schema {
    n = { type = "integer", min = 1, max = 1024, default = 8 },
    extract = { type = "function", default = answers.read },
    normalize = { type = "function", default = answers.normalize },
    vote = { type = "string", enum = { "majority", "weighted" }, default = "majority" },
    confidence = { type = "function" },
}

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

-- Adds the answer, its key and its weight to a sample; or nil, message, code.
local function read(account, sample, reply, opts)
    local answer, key, code = account:read(sample.text, reply.value)
    if answer == nil then
        return nil, key, code
    end
    local weight, message = 1
    if opts.vote == "weighted" then
        weight, message, code = account:try(opts.confidence or mean_probability, answer,
            sample.text, reply)
        if weight == nil and message then
            return nil, message, code or "BAD_RESULT"
        elseif type(weight) ~= "number" or weight < 0 or weight ~= weight
            or weight == math.huge then
            return nil, "confidence must return a finite number >= 0 (got "
                .. options.show(weight) .. ")", "BAD_RESULT"
        end
    end
    sample.answer, sample.key, sample.weight = answer, key, weight
    return true
end

-- The distinct answers, the highest weight first (ties: more samples, then the first to appear),
-- and the entropy of their shares in bits.
local function distribution(samples)
    local list, by_key, weight = json.array {}, {}, 0
    for _, sample in ipairs(samples) do
        local entry = by_key[sample.key]
        if not entry then
            entry = { answer = sample.answer, key = sample.key, count = 0, weight = 0,
                first = #list + 1 }
            by_key[sample.key], list[#list + 1] = entry, entry
        end
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
    return list, math.max(0.0, entropy)
end

local function samples_of(account, replies, opts)
    local samples = json.array {}
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

-- The text of the sample with that key and the highest weight; ties go to the first.
local function text_for(samples, key)
    local best
    for _, sample in ipairs(samples) do
        if sample.key == key and (not best or sample.weight > best.weight) then
            best = sample
        end
    end
    return best.text
end

---See ponder.think.ensemble.self_consistency.
return function(opts, more)
    local where = "ensemble.self_consistency"
    opts = accounts.check(where, opts, SCHEMA, more)
    local m = accounts.model(where .. ": model", opts.model, 2)
    local messages = accounts.messages(where, opts.prompt, 2)
    if opts.confidence and opts.vote ~= "weighted" then
        error(where .. ': opts.confidence needs vote = "weighted"', 2)
    end
    if opts.vote == "weighted" and not opts.confidence and opts.logprobs == nil then
        opts.logprobs = true
    end
    local account = accounts.new(opts)
    local samples = samples_of(account, account:sample(m, messages, opts, opts.n), opts)
    if #samples < opts.min_successes then
        return account:give_up("self_consistency", opts.min_successes, #samples,
            { samples = samples })
    end
    local list, entropy = distribution(samples)
    account:show_samples(samples, list[1].answer)
    return account:close { answer = list[1].answer, score = list[1].share,
        stop_reason = "n", text = text_for(samples, list[1].key), distribution = list,
        entropy = entropy,
        samples = samples }
end
