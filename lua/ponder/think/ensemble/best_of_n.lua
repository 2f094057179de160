--- Implements ponder.ensemble.best_of_n: samples, then chooses by reward, judge or verifier.

local accounts = require "ponder.think.ensemble.account"
local json = require "ponder.json"
local options = require "ponder.base.options"
local rules = require "ponder.think.ensemble.rules"
local stop = require "ponder.think.ensemble.stop"
local vote = require "ponder.think.ensemble.vote"

local SCHEMA = accounts.schema(options.merge({
    n = { type = "integer", min = 1, max = 1024, default = 5 },
    judge = { type = { "function", "table", "string" } },
    reward = { type = "function" },
    verify = { type = "function" },
    votes = { type = "integer", min = 1, max = 1024 },
}, rules.BEST))

-- Passes the samples with a reward to a curve.
local function show_samples(account, candidates, best)
    local samples = {}
    for _, candidate in ipairs(best and candidates or {}) do
        samples[#samples + 1] = candidate.score and { answer = candidate.text,
            reward = candidate.score } or nil
    end
    if best then
        account:show_samples(samples, best.text)
    end
end

-- The reward of a text; or nil, message, code.
local function score_of(reward, text, sample)
    local score, message, code = reward(text, sample)
    if score == nil and message ~= nil then
        return nil, message, code
    elseif not options.is_finite(score) then
        return nil, "reward must return a finite number (got " .. options.show(score) .. ")",
            "BAD_RESULT"
    end
    return score
end

-- Scores the candidates; returns the best.
local function score_all(account, candidates, reward)
    local scores, errors = account:map(candidates, function(candidate)
        return score_of(reward, candidate.text, candidate.sample)
    end)
    local best
    for i, candidate in ipairs(candidates) do
        candidate.score = scores[i]
        if not scores[i] then
            account:fail(candidate.sample, errors[i].message, errors[i].code)
        elseif not best or scores[i] > best.score then
            best = candidate
        end
    end
    return best
end

local function ask_function(account, judge, texts, question)
    local index, message, code = account:try(judge, texts, question)
    if index == nil and message ~= nil then
        return nil, tostring(message), code or "BAD_RESULT"
    end
    index = type(index) == "number" and math.tointeger(index)
    if not index or not texts[index] then
        return nil, ("judge must return a candidate's index from 1 to %d"):format(#texts),
            "BAD_RESULT"
    end
    return index
end

-- The candidate that the judge chooses; or nil, message, code.
local function choose(account, candidates, question, judge, opts)
    local texts = {}
    for i, candidate in ipairs(candidates) do
        texts[i] = candidate.text
    end
    if #texts == 1 then
        return candidates[1]
    elseif type(judge) == "function" then
        local index, message, code = ask_function(account, judge, texts, question)
        return index and candidates[index], message, code
    end
    local index, votes, code = vote.ask(account, judge, question, texts, opts.votes or 1,
        { concurrency = opts.concurrency, on_error = opts.on_error,
            timeout_ms = opts.timeout_ms, max_retries = opts.max_retries, cache = opts.cache,
            metadata = opts.metadata })
    for i, candidate in ipairs(index and candidates or {}) do
        candidate.votes = votes[i]
    end
    return index and candidates[index], votes, code
end

-- Makes a function that says whether a reply was accepted; keeps its sample in `accepted`.
local function verifier(account, opts, accepted)
    return opts.verify and function(reply, sample)
        local is_right, message, code = account:try(opts.verify, reply.text, sample)
        if is_right == nil and message ~= nil then
            account:fail(sample, message, code)
        elseif is_right and not accepted[1] then
            accepted[1] = sample
        end
        return accepted[1] ~= nil
    end or nil
end

local function candidates_of(replies, n)
    local list = json.array {}
    for sample = 1, n do
        if replies[sample] then
            list[#list + 1] = { sample = sample, text = replies[sample].text,
                finish_reason = replies[sample].finish_reason }
        end
    end
    return list
end

local MIN_SAMPLES = 3 -- before a cost may end it

-- Samples and scores one after the other until a reward is enough, or another sample is not worth
-- its cost. Returns the candidates, the best one, how far it went, and why it ended.
local function ask_until(account, m, messages, opts)
    local candidates, rewards, best, settled = json.array {}, {}, nil, 0
    local least = opts.min_samples or opts.cost and MIN_SAMPLES or 1
    local stop_reason, cap
    local counts = account:series(m, messages, opts, {
        read = function(reply, i)
            local score, message, code = account:try(score_of, opts.reward, reply.text, i)
            return score and { sample = i, text = reply.text, score = score,
                finish_reason = reply.finish_reason }, message, code
        end,
        add = function(i, candidate)
            settled = i
            candidates[#candidates + 1] = candidate
            rewards[#rewards + 1] = candidate and candidate.score
            if candidate and (not best or candidate.score > best.score) then
                best = candidate
            end
            if best and opts.enough and best.score >= opts.enough then
                stop_reason = "enough"
            elseif best and opts.cost and i >= least then
                cap = stop.cap(rewards, opts.cost, opts.tail, opts.optimism)
                stop_reason = best.score >= cap and "worth" or nil
            end
            return stop_reason ~= nil or i == opts.n
        end,
        highest = function()
            return opts.eager and opts.n or math.min(opts.n, math.max(least, settled + 1))
        end,
    })
    return candidates, best, counts, stop_reason or "max", cap
end

---See ponder.ensemble.best_of_n.
return function(opts, more)
    local where = "ensemble.best_of_n"
    opts = accounts.check(where, opts, SCHEMA, more, rules.best_problem)
    local m = accounts.model(where .. ": model", opts.model, 2)
    local messages = accounts.messages(where, opts.prompt, 2)
    local judge = opts.judge or m
    if type(judge) ~= "function" then
        judge = accounts.model(where .. ": opts.judge", judge, 2)
    end
    local account, accepted = accounts.new(opts), {}
    if opts.cost or opts.enough then
        local candidates, best, counts, stop_reason, cap = ask_until(account, m, messages, opts)
        local result = accounts.count({ candidates = candidates, stop_reason = stop_reason,
            cap = cap }, counts, #candidates)
        if #candidates < opts.min_successes then
            return account:give_up("best_of_n", opts.min_successes, #candidates, result)
        end
        result.answer, result.sample, result.score = best.text, best.sample, best.score
        return account:close(result)
    end
    local replies = account:sample(m, messages, opts, opts.n, verifier(account, opts, accepted))
    local candidates = candidates_of(replies, opts.n)
    for _, candidate in ipairs(accepted[1] and candidates or {}) do
        if candidate.sample == accepted[1] then
            return account:close { answer = candidate.text, sample = candidate.sample,
                stop_reason = "verified", candidates = candidates }
        end
    end
    if #candidates < opts.min_successes then
        return account:give_up("best_of_n", opts.min_successes, #candidates,
            { candidates = candidates })
    end
    local best, message, code
    if opts.reward then
        best = score_all(account, candidates, opts.reward)
        show_samples(account, candidates, best)
        if not best then
            return account:give_up("best_of_n", 1, 0, { candidates = candidates })
        end
    else
        best, message, code = choose(account, candidates, accounts.question(messages), judge, opts)
        if not best then
            return nil, where .. ": judge: " .. message, code,
                account:close { candidates = candidates }
        end
    end
    return account:close { answer = best.text, sample = best.sample, score = best.score,
        stop_reason = "n", candidates = candidates }
end
