--- Implements ponder.ensemble.debate: rounds in which debaters answer and read the others'
--- answers.

local accounts = require "ponder.think.ensemble.account"
local answers = require "ponder.think.parse.answer"
local json = require "ponder.json"
local options = require "ponder.base.options"
local render = require "ponder.think.prompt.render"

local SCHEMA = accounts.schema {
    prompt = { type = { "string", "table" }, required = true },
    debaters = { type = "table", required = true },
    n_rounds = { type = "integer", min = 1, max = 100, default = 3 },
    adaptive_stop = { type = "boolean", default = false },
    stability_threshold = { type = "number", min = 0, max = 1 },
    extract = { type = "function", default = answers.read },
    normalize = { type = "function", default = answers.normalize },
    on_round = { type = "function" },
}

SCHEMA.model = nil -- each debater has its own
local STABILITY = 0.15

local DEBATER = {
    model = { type = { "string", "table" }, required = true },
    name = { type = "string" },
    system = { type = "string" },
}

local function open_debaters(where, list)
    local debaters = {}
    for i, one in ipairs(list) do
        local given = type(one) == "table" and not one.chat and one or { model = one }
        local what = ("%s: opts.debaters[%d]"):format(where, i)
        given = options.check(what, given, DEBATER, 3)
        debaters[i] = { model = accounts.model(what, given.model, 3), system = given.system,
            name = given.name or "debater " .. i, number = i }
    end
    if #debaters < 2 then
        error(("%s: opts.debaters must list at least 2 (got %d)"):format(where, #debaters), 3)
    end
    return debaters
end

-- The messages for a debater: the question; from the second round on also its own last answer and
-- those of the others.
local function messages_for(debater, debaters, messages, round, opts)
    if round == 1 then
        return messages
    end
    local others = {}
    for _, other in ipairs(debaters) do
        if other ~= debater and other.text then
            others[#others + 1] = { name = other.name, content = other.text }
        end
    end
    local more, message, code = render.of_file("ensemble", "debate", {
        prompt = accounts.question(messages), others = others, round = round,
        n_rounds = opts.n_rounds, has_answer = debater.text ~= nil })
    if not more then
        return nil, message, code
    end
    local all = table.move(messages, 1, #messages, 1, {})
    if debater.text then
        all[#all + 1] = { role = "assistant", content = debater.text }
    end
    return table.move(more, 1, #more, #all + 1, all)
end

-- A debater's reply in a round; or nil, message, code. Its number distinguishes its calls from
-- those of other debaters with the same model.
local function ask(account, debater, debaters, messages, round, opts)
    local mine, message, code = messages_for(debater, debaters, messages, round, opts)
    if not mine then
        return nil, message, code
    end
    local call = accounts.call(opts, mine, debater.number)
    call.system = debater.system or opts.system
    local reply
    reply, message, code = account:chat(debater.model, call)
    return reply and reply.text, message, code
end

-- A debater with the majority answer (ties go to the first), its votes, and how many answered.
local function majority(debaters)
    local votes, best, answered = {}, nil, 0
    for _, debater in ipairs(debaters) do
        if debater.key ~= nil then
            votes[debater.key] = (votes[debater.key] or 0) + 1
            answered = answered + 1
        end
    end
    for _, debater in ipairs(debaters) do
        if debater.key ~= nil and (not best or votes[debater.key] > votes[best.key]) then
            best = debater
        end
    end
    return best, best and votes[best.key] or 0, answered
end

-- Plays a round; a debater that failed keeps its last answer.
local function run_round(account, debaters, messages, round, opts)
    local texts, errors = account:map(debaters, function(debater)
        return ask(account, debater, debaters, messages, round, opts)
    end)
    local record = { round = round, answers = json.array {}, changed = 0 }
    for i, debater in ipairs(debaters) do
        local answer, key
        if texts[i] then
            answer, key = account:read(texts[i])
        end
        if answer ~= nil then
            record.changed = record.changed + (key ~= debater.key and 1 or 0)
            debater.text, debater.answer, debater.key = texts[i], answer, key
        else
            account:fail(i, texts[i] and key or errors[i].message,
                texts[i] and "BAD_REPLY" or errors[i].code, round)
        end
        record.answers[i] = { name = debater.name, text = texts[i] or nil,
            answer = debater.answer, failed = texts[i] == nil or nil }
    end
    local _, votes, answered = majority(debaters)
    record.change, record.answers_missing = record.changed / #debaters, #debaters - answered
    record.agreement = answered > 0 and votes / answered or 0
    return record, answered
end

local function stop_reason(record, round, opts)
    if round == opts.n_rounds then
        return "n_rounds"
    elseif opts.adaptive_stop and record.agreement == 1 and record.answers_missing == 0 then
        return "agreed"
    elseif opts.adaptive_stop and round > 1 and record.change <= opts.stability_threshold then
        return "stable"
    end
end

---See ponder.ensemble.debate.
return function(opts)
    local where = "ensemble.debate"
    opts = options.check(where, opts, SCHEMA)
    if not opts.adaptive_stop and opts.stability_threshold then
        error(where .. ": opts.stability_threshold needs adaptive_stop = true", 2)
    end
    opts.stability_threshold = opts.stability_threshold or STABILITY
    local debaters = open_debaters(where, opts.debaters)
    local messages = accounts.messages(where, opts.prompt, 2)
    local account, rounds, reason = accounts.new(opts), json.array {}, nil
    for round = 1, opts.n_rounds do
        local record, answered = run_round(account, debaters, messages, round, opts)
        rounds[round] = record
        if opts.on_round then
            opts.on_round(record)
        end
        if answered < opts.min_successes then
            return account:give_up("debate", opts.min_successes, answered, { rounds = rounds })
        end
        reason = stop_reason(record, round, opts)
        if reason then
            break
        end
    end
    local best, votes, answered = majority(debaters)
    return account:close { answer = best.answer, text = best.text, score = votes / answered,
        rounds = rounds, stop_reason = reason }
end
