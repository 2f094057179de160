--- Asks a model to vote for one of several texts.

local answers = require "ponder.think.parse.answer"
local model_call = require "ponder.model.call"
local render = require "ponder.think.prompt.render"
local typed = require "ponder.think.strategy.typed"
local prose = require "ponder.think.parse.prose"

local vote = {}

---Asks a model `count` times, concurrently, which text is best.
---@param opts table options of a call among others
---@return integer? best ties go to the first
---@return integer[]|string votes by text; or why there is no valid vote
---@return string? code
function vote.ask(account, m, question, texts, count, opts)
    local candidates, ids, place = {}, {}, {}
    for i, text in ipairs(texts) do
        ids[i] = "c" .. i
        place[ids[i]] = i
        candidates[i] = { id = ids[i], content = text }
    end
    local messages, is_own, code = render.of_file("ensemble", "judge", { prompt = question,
        candidates = candidates })
    if not messages then
        return nil, is_own, code
    end
    opts.response_format = not is_own and typed.format(m, "vote", { reason = "string",
        vote = { type = "string", enum = ids } }) or nil
    local votes, best = {}, nil
    for i in ipairs(texts) do
        votes[i] = 0
    end
    local replies = account:sample(m, messages, opts, count)
    for i = 1, count do
        local choice = replies[i] and prose.vote(replies[i].text, ids)
        if choice then
            votes[place[choice]] = votes[place[choice]] + 1
        elseif replies[i] then
            account:fail(i, "a judge's reply did not name a single candidate", "BAD_REPLY")
        end
    end
    for i, n in ipairs(votes) do
        if n > 0 and (not best or n > votes[best]) then
            best = i
        end
    end
    if not best then
        local last = account.errors[#account.errors]
        return nil, "no valid vote: " .. last.message, last.code
    end
    return best, votes
end

local VERDICTS = { A = 1, B = 0, C = 0.5 } -- C: a tie

local TOP = 20 -- alternatives of the first token

-- What a judge answers, as a number: by the probabilities of the letters, or by its letter.
local function read_verdict(reply)
    local sum, total = 0.0, 0.0
    for _, token in ipairs((((reply.logprobs or {})[1]) or {}).top or {}) do
        local verdict = VERDICTS[token.token:match "^%s*(%u)%s*$"]
        if verdict then
            local probability = math.exp(token.logprob)
            sum, total = sum + probability * verdict, total + probability
        end
    end
    if total > 0 then
        return sum / total
    end
    return VERDICTS[answers.choice(reply.text, { "A", "B", "tie" })]
end

---Asks a model which of two texts is better.
---@param a string shown first
---@param turn integer how often the pair was asked, this time included; every other one is in this
---  order
---@param with_logprobs boolean? take the model's probabilities of the letters
---@return number? verdict 1: the first, 0: the second, 0.5: a tie; nil, message, code
---@return string? message
---@return string? code
function vote.compare(m, question, a, b, turn, with_logprobs)
    local messages, message, code = render.of_file("ensemble", "compare", { prompt = question,
        first = a, second = b })
    if not messages then
        return nil, message, code
    end
    local reply
    reply, message, code = model_call.ask(m, { messages = messages, sample = (turn + 1) // 2,
        logprobs = with_logprobs and TOP or nil })
    local verdict = reply and read_verdict(reply)
    if reply and not verdict then
        return nil, "the judge's reply is not A, B or C", "BAD_REPLY"
    end
    return verdict, message, code
end

return vote
