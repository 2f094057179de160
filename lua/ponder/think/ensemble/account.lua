--- Shared by the ensembles: arguments and options, concurrent calls, and an account of calls, usage
--- and failures.

local answers = require "ponder.think.parse.answer"
local budgets = require "ponder.run.task.budget"
local json = require "ponder.json"
local log = require "ponder.log"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local rules = require "ponder.think.ensemble.rules"
local runs = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"
local task = require "ponder.task"
local typed = require "ponder.think.strategy.typed"
local chat = require "ponder.model.chat"
local model = require "ponder.model"

local account = {}

-- Options of a call that users cannot set; those for tools, where calls of them are no answers.
local OWN, TOOLS = { n = true, sample = true }, { tools = true, tool_choice = true }

-- The options of all ensembles.
local COMMON = {
    concurrency = { type = "integer", min = 1 },
    on_error = { type = "string", enum = { "raise", "collect" }, default = "collect" },
    min_successes = { type = "integer", min = 1, default = 1 },
}

---Checks the one table of an ensemble; raises at its caller.
---@param where string "ensemble.best_of_n"
---@param more any its second argument, of the form before 0.2.0
---@param problem_of? fun(opts: table): string? what does not go together
function account.check(where, opts, schema, more, problem_of)
    if more ~= nil or type(opts) ~= "table" or opts.chat then
        error(("%s takes one table: { %s = ..., %s = ... }"):format(where,
            schema.items and "items" or "model", schema.items and "judge" or "prompt"), 3)
    end
    local checked = options.check(where, opts, schema, 3)
    local problem = checked.n and rules.above_n(checked, "min_successes")
        or problem_of and problem_of(checked)
    return problem and error(("%s: %s"):format(where, problem), 3) or checked
end

---A schema of options: its own and those of a model call.
---@param has_tools boolean? with those for tools
function account.call_schema(own, has_tools)
    local schema = {}
    for name, rule in pairs(chat.OPTIONS) do
        schema[name] = not OWN[name] and (has_tools or not TOOLS[name]) and rule or nil
    end
    options.merge(schema, own)
    return schema
end

---A schema of options for an ensemble: its own, those of a model call and the common ones.
---@param has_tools boolean? with those for tools
function account.schema(own, has_tools)
    local schema = options.merge({ model = { type = "any" }, prompt = { type = "any" } },
        account.call_schema(own, has_tools))
    options.merge(schema, COMMON)
    return schema
end

---The open model that was given directly or by name; anything else raises.
---@param where string "ensemble.best_of_n: model"
---@param level integer the error level: 1 is this function
function account.model(where, value, level)
    if type(value) == "string" then
        local ok, opened = pcall(model.open, value) -- so that the error names our caller's line
        return ok and opened or error(opened, level + 1)
    elseif type(value) ~= "table" or type(value.chat) ~= "function" then
        error(("%s must be an open model or a model's name (got %s)"):format(where,
            options.show(value)), level + 1)
    end
    return value
end

---Messages from a prompt: a text, or messages as ponder.model takes them.
---@param where string "ensemble.best_of_n"
---@param level integer the error level: 1 is this function
function account.messages(where, prompt, level)
    if type(prompt) == "string" and prompt:find("%S") then
        return { { role = "user", content = prompt } }
    elseif type(prompt) ~= "table" or #prompt == 0 then
        error(("%s: prompt must be a non-empty text or list of messages (got %s)"):format(where,
            options.show(prompt)), level + 1)
    end
    return prompt
end

---The question in a prompt: the text of its last user message.
function account.question(messages)
    for i = #messages, 1, -1 do
        if messages[i].role == "user" and type(messages[i].content) == "string" then
            return messages[i].content
        end
    end
    return ""
end

---The options of one call.
---@param opts table of the ensemble
---@param sample integer distinguishes equal calls
---@param watch? fun(tokens: table[]?): any of its stream; a true value ends the reply
---@return table call for Model:chat
function account.call(opts, messages, sample, watch)
    local call, on_delta = { messages = messages, sample = sample }, opts.on_delta
    for name, value in pairs(opts) do
        if chat.OPTIONS[name] and not OWN[name] then
            call[name] = value
        end
    end
    call.on_delta = (on_delta or watch) and function(text, kind, index, tokens)
        if on_delta then
            on_delta(text, kind, sample + index - 1, tokens)
        end
        return watch and watch(tokens) and true
    end
    return call
end

---@class ponder.ensemble.Failure
---@field sample integer? which sample, item or debater
---@field round integer? of a debate
---@field message string
---@field code string of ponder.model; "ERROR": a function raised; "BAD_RESULT": a function returned
---an invalid value

---@class ponder.ensemble.Account
---@field calls integer including failed ones
---@field errors ponder.ensemble.Failure[]
---@field opts table of the ensemble
---@field keys table<string, string> by answer, as answers repeat
local Account = {}
Account.__index = Account

---@param opts table the ensemble's, checked
function account.new(opts)
    return setmetatable({ calls = 0, errors = json.array {}, opts = opts, keys = {},
        budget = budgets.new {} }, Account)
end

local function outcome(ok, ...)
    if ok then
        return ...
    end
    return nil, tostring((...)), "ERROR"
end

---Calls a user's function.
---@return any ... its results; nil, message, "ERROR" for an error, unless on_error is "raise"
function Account:try(f, ...)
    if self.opts.on_error == "raise" then
        return f(...)
    end
    return outcome(pcall(f, ...))
end

-- A value of JSON in which 1.0 is 1.
local function with_integers(value)
    if type(value) ~= "table" then
        return math.type(value) and math.tointeger(value) or value
    end
    local copy = setmetatable({}, getmetatable(value))
    for name, inner in pairs(value) do
        copy[name] = with_integers(inner)
    end
    return copy
end

-- A text that equal calls of tools share: their names and arguments, in any order.
local function key_of_calls(calls)
    local keys = {}
    for i, call in ipairs(calls) do
        local ok, text = pcall(json.encode, { call.name, call.arguments
            and with_integers(call.arguments) or call.arguments_json })
        keys[i] = ok and text or ("%s %s"):format(call.name, call.arguments_json) -- an infinity
    end
    table.sort(keys)
    return "calls of tools: " .. table.concat(keys, ", ")
end

---Finds the answer in a text with the user's functions, and the key by which it is compared.
---@param value any? of a reply with `returns`, which is the answer
---@param calls ponder.model.ToolCall[]? of a reply, which then are the answer
---@return any answer nil: none
---@return any key; or a message
---@return string? code
function Account:read(text, value, calls)
    if calls then
        return calls, key_of_calls(calls)
    end
    local answer, message, code = value, nil, nil
    if value == nil then
        answer, message, code = self:try(self.opts.extract, text)
    end
    if answer == nil then
        return nil, message or "no answer was found in the reply", code or "BAD_REPLY"
    end
    local shown, is_own = answer, self.opts.normalize ~= answers.normalize
    if value ~= nil or not is_own and type(answer) ~= "string" then
        shown = type(answer) == "table" and json.encode(answer) or tostring(answer)
    end
    local key = not is_own and self.keys[shown]
    if not key then
        key, message, code = self:try(self.opts.normalize, shown)
        self.keys[shown] = not is_own and key or nil
    end
    if key == nil or key ~= key then
        return nil, message or "normalize returned nothing", code or "BAD_RESULT"
    end
    return answer, key
end

---`task.map` with the options `concurrency` and `on_error`.
function Account:map(list, f)
    return task.map(list, f, { concurrency = self.opts.concurrency or math.max(1, #list),
        on_error = self.opts.on_error })
end

---Records a failure of a call or of reading its reply.
function Account:fail(sample, message, code, round)
    self.errors[#self.errors + 1] = { sample = sample, message = tostring(message),
        code = tostring(code or "ERROR"), round = round }
end

---Makes one call. Returns the reply, or nil, message, code.
---@param call table of Model:chat
function Account:chat(m, call)
    self.calls = self.calls + 1
    return budgets.within(self.budget, typed.ask, m, call)
end

-- Equal samples are worth one sample: the model or its server does not vary them.
local function warn_if_equal(replies, opts)
    local first, n = nil, 0
    for _, reply in pairs(replies) do
        first, n = first or reply.text, n + 1
        if reply.text ~= first then
            return
        end
    end
    if n > 1 then
        notice.once(("ensemble: all %d samples are equal%s"):format(n, (opts.temperature or 1) == 0
            and ": the temperature is 0" or "; a higher temperature may vary them"),
            "equal samples")
    end
end

-- The reply that one of several samples of a request is; or nil, message, code.
local function reply_of(reply, i, returns, message, code)
    local its = reply.samples[i]
    if not its then
        return nil, message or "the reply has too few samples", code or "BAD_REPLY"
    elseif its.finish_reason == "content_filter" or its.refusal and not its.text then
        return nil, its.refusal or "the provider's filter withheld the reply", "CONTENT_FILTER"
    elseif returns ~= nil and (reply.values or {})[i] == nil then
        return nil, message or "the reply does not fit", code or "BAD_REPLY"
    end
    return options.merge({ text = reply.texts[i], value = reply.values and reply.values[i] }, its)
end

-- Asks for several samples in one request. Returns for each {reply}, or {nil, message, code}.
local function ask_together(self, m, call, n, returns)
    call.n = n
    local reply, message, code, partial = self:try(self.chat, self, m, call)
    -- Samples that a server left out are asked for one by one; the others stay if that fails.
    local has_some = partial and not partial.truncated and (code ~= "BAD_REPLY" or partial.values)
    local whole, results = reply or has_some and partial, {}
    for i = 1, n do
        results[i] = whole and table.pack(reply_of(whole, i, returns, message, code))
            or { nil, message, code }
    end
    return results
end

---@class ponder.ensemble.Plan how far to ask, decided after each sample
---@field read fun(reply: ponder.model.Reply, sample: integer): table? what a sample contributes, or
---  nil, message, code; called when the reply arrives, and may wait
---@field add fun(sample: integer, value: table?): boolean whether it is over; called in the order
---  of the samples, and may not wait; nil: the sample failed
---@field highest fun(): integer the highest sample that may be asked for by now
---@field watch (fun(sample: integer): fun(tokens: table[]?): any)? of the sample's stream
---@field as_they_come boolean? call `add` in the order in which replies arrive
---@field n integer? samples at most; default opts.n

---Asks for samples as far as a plan goes. What is in flight when it is over is cancelled.
---@param opts table with options of a call among others, and `n`
---@return {stopped_at: integer, calls: integer, cancelled: integer, saved: integer} counts
---  `stopped_at`: samples that were added; `calls`: asked; `cancelled`: of these, ended before
---  their reply; `saved`: of n, never asked
function Account:series(m, messages, opts, plan)
    local done, replies, added, is_over = {}, {}, 0, false
    local n, requests, calls, ended = plan.n or opts.n, 0, 0, 0
    -- Shares of a request are no answers by time, and say nothing of their own length.
    local per = (plan.as_they_come or opts.first or opts.eager) and 1
        or chat.samples_per_request(m, opts)
    local function add(sample)
        local one = done[sample]
        added = added + 1
        if one.value == nil then
            self:fail(sample, one.message, one.code)
        end
        is_over = plan.add(sample, one.value)
    end
    local function settle(sample, reply, message, code)
        local value
        if reply then
            value, message, code = plan.read(reply, sample)
        end
        done[sample] = { value = value, message = message, code = code }
        replies[sample] = reply
        if plan.as_they_come and not is_over then
            add(sample)
        end
        while not plan.as_they_come and not is_over and done[added + 1] do
            add(added + 1)
        end
    end
    local function watch_next()
        return plan.watch and plan.watch(calls + 1)
    end
    scopes.series("ensemble", function()
        local first, watch = calls + 1, watch_next()
        local count = watch and 1 or math.min(plan.highest() - calls, per)
        requests, calls = requests + 1, calls + count
        local call = account.call(opts, messages, first, watch)
        if count == 1 then
            local reply, message, code = self:try(self.chat, self, m, call)
            ended = ended + (reply and reply.finish_reason == "cancelled" and 0 or 1)
            return settle(first, reply, message, code)
        end
        local results = ask_together(self, m, call, count, opts.returns)
        ended = ended + count
        if not is_over then
            scopes.series("ensemble", function(i)
                settle(first + i - 1, table.unpack(results[i], 1, 3))
            end, count, function() return not is_over and count or nil end)
        end
    end, opts.concurrency or n, function()
        local missing = not is_over and plan.highest() - calls
        return missing and requests + math.ceil(missing / (watch_next() and 1 or per)) or nil
    end)
    -- A judge's votes, with their own options, may well be equal, and so may the few replies that
    -- were enough.
    if opts == self.opts and (opts.temperature == 0 or calls == n) then
        warn_if_equal(replies, opts)
    end
    return { stopped_at = added, calls = calls, cancelled = calls - ended, saved = n - calls }
end

---Asks for `count` samples, concurrently; in one request where the service has that (`n`), so that
---the prompt is paid once.
---@param opts table with options of a call among others
---@param is_enough? fun(reply: ponder.model.Reply, sample: integer): boolean called for each reply;
---  after the first true no call starts, and those in flight are cancelled
---@return table<integer, ponder.model.Reply> replies by sample; failures are recorded
function Account:sample(m, messages, opts, count, is_enough)
    local replies, is_over = {}, false
    self:series(m, messages, opts, { n = count, as_they_come = is_enough ~= nil,
        read = function(reply, i)
            replies[i] = reply
            is_over = is_enough ~= nil and is_enough(reply, i) or is_over
            return reply
        end,
        add = function() return is_over end,
        highest = function() return count end })
    return replies
end

---Adds to a result how far its samples were asked for, which the log records, too.
---@param result table with `stop_reason`
---@param counts table of Account:series
---@param used integer samples that the choice is from
---@return table result
function account.count(result, counts, used)
    options.merge(result, counts)
    result.used = used
    if not scheduler.tape() then
        return result
    end
    log.event("ensemble.stopped", { measurements = options.merge({ used = used }, counts),
        metadata = { stop_reason = result.stop_reason } })
    return result
end

---Passes the samples to a run that measures a curve (ponder.eval).
---@param samples {answer: any, key: any, reward: number?}[]
---@param chosen any the answer, as a policy would return it
function Account:show_samples(samples, chosen)
    local run = runs.current()
    if run and run.on_samples then
        run:on_samples(samples, chosen, self.calls)
    end
end

---Adds the account to a result.
---@return table result
function Account:close(result)
    result.failed, result.errors, result.spent = #self.errors, self.errors, self.budget:account()
    return result
end

---The results of an ensemble with too few successes.
---@param where string "best_of_n"
---@return nil, string, string, table
function Account:give_up(where, need, have, partial)
    local first = self.errors[1] or { message = "no usable result", code = "BAD_RESULT" }
    return nil, ("ensemble.%s: %d of at least %d succeeded; the first failure: %s"):format(where,
        have, need, first.message), first.code, self:close(partial)
end

return account
