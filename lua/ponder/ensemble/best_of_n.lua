--- ponder.ensemble.best_of_n.

local accounts = require "ponder.ensemble.account"
local options = require "ponder.options"
local task = require "ponder.task"
local vote = require "ponder.ensemble.vote"

local SCHEMA = accounts.schema {
    n = { type = "integer", min = 1, max = 1024, default = 5 },
    judge = { type = { "function", "table", "string" } },
    reward = { type = "function" },
    votes = { type = "integer", min = 1, max = 1024, default = 1 },
    min_successes = { type = "integer", min = 1, default = 1 },
}

-- Scores each candidate; those without a score are out.
local function score_all(account, candidates, reward)
    local scores, errors = task.map(candidates, function(candidate)
        local score, message, code = reward(candidate.text, candidate.sample)
        if score == nil and message ~= nil then
            return nil, message, code
        elseif type(score) ~= "number" or score ~= score then
            return nil, "reward must return a number (got " .. options.show(score) .. ")",
                "BAD_RESULT"
        end
        return score
    end, { concurrency = math.max(1, #candidates), on_error = "collect" })
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

local function ask_function(judge, texts, question)
    local ok, index, message, code = pcall(judge, texts, question)
    if not ok then
        return nil, tostring(index), "ERROR"
    elseif index == nil and message ~= nil then
        return nil, tostring(message), code or "BAD_RESULT"
    end
    index = type(index) == "number" and math.tointeger(index)
    if not index or not texts[index] then
        return nil, ("judge must return a candidate's index from 1 to %d"):format(#texts),
            "BAD_RESULT"
    end
    return index
end

-- The candidate that the judge takes; or nil, message, code.
local function choose(account, candidates, question, judge, opts)
    local texts = {}
    for i, candidate in ipairs(candidates) do
        texts[i] = candidate.text
    end
    if #texts == 1 then
        return candidates[1]
    elseif type(judge) == "function" then
        local index, message, code = ask_function(judge, texts, question)
        return index and candidates[index], message, code
    end
    local index, votes, code = vote.ask(account, judge, question, texts, opts.votes,
        { timeout_ms = opts.timeout_ms, max_retries = opts.max_retries, cache = opts.cache,
            metadata = opts.metadata })
    for i, candidate in ipairs(index and candidates or {}) do
        candidate.votes = votes[i]
    end
    return index and candidates[index], votes, code
end

local function candidates_of(replies, n)
    local list = {}
    for sample = 1, n do
        if replies[sample] then
            list[#list + 1] = { sample = sample, text = replies[sample].text,
                finish_reason = replies[sample].finish_reason }
        end
    end
    return list
end

---See ponder.ensemble.best_of_n.
return function(model, prompt, opts)
    local where = "ensemble.best_of_n"
    local m = accounts.model(where .. ": model", model, 2)
    local messages = accounts.messages(where, prompt, 2)
    opts = options.check(where, opts, SCHEMA)
    if opts.judge and opts.reward then
        error(where .. ": opts must have judge or reward, not both", 2)
    end
    local judge = opts.judge or m
    if type(judge) ~= "function" then
        judge = accounts.model(where .. ": opts.judge", judge, 2)
    end
    local account = accounts.new()
    local candidates = candidates_of(account:sample(m, messages, opts, opts.n), opts.n)
    if #candidates < opts.min_successes then
        return account:give_up("best_of_n", opts.min_successes, #candidates,
            { candidates = candidates })
    end
    local best, message, code
    if opts.reward then
        best = score_all(account, candidates, opts.reward)
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
    return account:close { text = best.text, sample = best.sample, score = best.score,
        candidates = candidates }
end
