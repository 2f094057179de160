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

local function candidate_of(reply, sample, score)
    return { sample = sample, text = reply.text, finish_reason = reply.finish_reason,
        score = score }
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

-- Scores the candidates, and passes them to a curve; returns the best.
local function score_all(account, candidates, reward)
    local scores, errors = account:map(candidates, function(candidate)
        return score_of(reward, candidate.text, candidate.sample)
    end)
    local best, samples = nil, {}
    for i, candidate in ipairs(candidates) do
        candidate.score = scores[i]
        if not scores[i] then
            account:fail(candidate.sample, errors[i].message, errors[i].code)
        else
            samples[#samples + 1] = { answer = candidate.text, reward = scores[i] }
            best = best and best.score >= scores[i] and best or candidate
        end
    end
    if best then
        account:show_samples(samples, best.text)
    end
    return best
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
        local index, message, code = account:try(judge, texts, question)
        if index == nil and message ~= nil then
            return nil, tostring(message), code or "BAD_RESULT"
        end
        local chosen = type(index) == "number" and candidates[math.tointeger(index)]
        return chosen or nil, ("judge must return a candidate's index from 1 to %d"):format(#texts),
            "BAD_RESULT"
    end
    local index, votes, code = vote.ask(account, judge, question, texts, opts.votes or 1,
        options.pick(opts, { "concurrency", "on_error", "timeout_ms", "max_retries", "cache",
            "metadata" }))
    for i, candidate in ipairs(index and candidates or {}) do
        candidate.votes = votes[i]
    end
    return index and candidates[index], votes, code
end

local MIN_SAMPLES = 3 -- before a cost may end it

-- Samples and scores one after the other until a reward is enough, or another sample is not worth
-- its cost. Returns the candidates, the best one, how far it went, why it ended, and the cap.
local function ask_until(account, m, messages, opts)
    local candidates, rewards, best, settled = json.array {}, {}, nil, 0
    local least = opts.min_samples or opts.cost and MIN_SAMPLES or 1
    local stop_reason, cap
    local counts = account:series(m, messages, opts, {
        read = function(reply, i)
            local score, message, code = account:try(score_of, opts.reward, reply.text, i)
            return score and candidate_of(reply, i, score), message, code
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
    local judge, account, accepted = opts.judge or m, accounts.new(opts), nil
    if type(judge) ~= "function" then
        judge = accounts.model(where .. ": opts.judge", judge, 2)
    end
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
    local replies = account:sample(m, messages, opts, opts.n, opts.verify and function(reply, i)
        local is_right, message, code = account:try(opts.verify, reply.text, i)
        if is_right == nil and message ~= nil then
            account:fail(i, message, code)
        end
        accepted = accepted or is_right and i
        return accepted
    end)
    local candidates, best = json.array {}, nil
    for i = 1, opts.n do
        candidates[#candidates + 1] = replies[i] and candidate_of(replies[i], i)
        best = accepted == i and candidates[#candidates] or best
    end
    local result = { candidates = candidates, stop_reason = accepted and "verified" or "n" }
    if not best and #candidates < opts.min_successes then
        return account:give_up("best_of_n", opts.min_successes, #candidates, result)
    elseif not best and opts.reward then
        best = score_all(account, candidates, opts.reward)
        if not best then
            return account:give_up("best_of_n", 1, 0, result)
        end
    elseif not best then
        local message, code
        best, message, code = choose(account, candidates, accounts.question(messages), judge, opts)
        if not best then
            return nil, where .. ": judge: " .. message, code, account:close(result)
        end
    end
    result.answer, result.sample, result.score = best.text, best.sample, best.score
    return account:close(result)
end
