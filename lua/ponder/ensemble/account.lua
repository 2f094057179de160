--- What the ensembles share: the models and prompts that they take, calls at the same time, and an
--- account of what was called, what it used and what failed.

local options = require "ponder.options"
local task = require "ponder.task"
local chat = require "ponder.model.chat"
local model = require "ponder.model"
local tally = require "ponder.tally"

local account = {}

-- Options of a call that an ensemble sets itself.
local OWN = { n = true, sample = true, tools = true, tool_choice = true }

---An ensemble's schema of options: its own, and those of a call that it hands on.
---@param own OptionSchema
---@return OptionSchema
function account.schema(own)
    local schema = {}
    for name, rule in pairs(chat.OPTIONS) do
        schema[name] = not OWN[name] and rule or nil
    end
    for name, rule in pairs(own) do
        schema[name] = rule
    end
    return schema
end

---An open model, or one opened by name; raises for anything else.
---@param where string "ensemble.best_of_n: model"
---@param value any
---@param level integer whose place the error carries: 1 is this function
---@return ponder.model.Model
function account.model(where, value, level)
    if type(value) == "string" then
        local ok, opened = pcall(model.open, value) -- so that the error carries our caller's place
        return ok and opened or error(opened, level + 1)
    elseif type(value) ~= "table" or type(value.chat) ~= "function" then
        error(("%s must be an open model or a model's name (got %s)"):format(where,
            options.show(value)), level + 1)
    end
    return value
end

---Messages from a prompt: a text, or messages as ponder.model takes them.
---@param where string "ensemble.best_of_n"
---@param prompt any
---@param level integer whose place the error carries: 1 is this function
---@return ponder.model.Message[]
function account.messages(where, prompt, level)
    if type(prompt) == "string" and prompt:find("%S") then
        return { { role = "user", content = prompt } }
    elseif type(prompt) ~= "table" or #prompt == 0 then
        error(("%s: prompt must be a text or a list of messages, not empty (got %s)"):format(where,
            options.show(prompt)), level + 1)
    end
    return prompt
end

---The question in a prompt: the text itself, or what its last user message says.
---@param messages ponder.model.Message[]
---@return string
function account.question(messages)
    for i = #messages, 1, -1 do
        if messages[i].role == "user" and type(messages[i].content) == "string" then
            return messages[i].content
        end
    end
    return ""
end

---The options of one call, out of an ensemble's.
---@param opts table
---@param messages ponder.model.Message[]
---@param sample integer its number, which keeps it apart from equal calls
---@return table call for Model:chat
function account.call(opts, messages, sample)
    local call = { messages = messages, sample = sample }
    for name in pairs(chat.OPTIONS) do
        if not OWN[name] then
            call[name] = opts[name]
        end
    end
    call.on_delta = opts.on_delta and function(text, kind)
        opts.on_delta(text, kind, sample)
    end
    return call
end

---@class ponder.ensemble.Failure
---@field sample integer? which sample, item or debater
---@field round integer? of a debate
---@field message string
---@field code string of ponder.model; "ERROR" where a function raised; "BAD_RESULT" where one
---returned what it should not

---@class ponder.ensemble.Account
---@field calls integer made, failed ones included
---@field failed integer
---@field errors ponder.ensemble.Failure[]
---@field usage ponder.model.Usage sums; nil fields: no reply said
local Account = {}
Account.__index = Account

---@return ponder.ensemble.Account
function account.new()
    return setmetatable({ calls = 0, failed = 0, errors = {}, usage = {} }, Account)
end

---Notes a failure, of a call or of what was made of its reply.
function Account:fail(sample, message, code, round)
    self.failed = self.failed + 1
    self.errors[#self.errors + 1] = { sample = sample, message = tostring(message),
        code = tostring(code or "ERROR"), round = round }
end

---Makes one call; the reply, or nil, message, code. A model that raises has failed, too.
---@param m ponder.model.Model
---@param call table of Model:chat
function Account:chat(m, call)
    self.calls = self.calls + 1
    local reply, message, code = m:chat(call)
    tally.add(self.usage, reply and reply.usage)
    return reply, message, code
end

---Makes `count` calls at the same time that differ in nothing but the sample's number.
---@param m ponder.model.Model
---@param messages ponder.model.Message[]
---@param opts table with options of a call among others
---@param count integer
---@return table<integer, ponder.model.Reply> replies by sample; those that failed are noted
function Account:sample(m, messages, opts, count)
    local numbers = {}
    for i = 1, count do
        numbers[i] = i
    end
    local replies, errors = task.map(numbers, function(sample)
        return self:chat(m, account.call(opts, messages, sample))
    end, { concurrency = count, on_error = "collect" })
    for i = 1, count do
        if not replies[i] then
            self:fail(i, errors[i].message, errors[i].code)
        end
    end
    return replies
end

---Adds the account to a result.
---@param result table
---@return table result
function Account:close(result)
    result.calls, result.failed = self.calls, self.failed
    result.errors, result.usage = self.errors, self.usage
    return result
end

---What an ensemble returns when too little remains: the first failure, and what there is.
---@param where string "best_of_n"
---@param need integer
---@param have integer
---@param partial table
---@return nil, string, string, table
function Account:give_up(where, need, have, partial)
    local first = self.errors[1] or { message = "nothing usable came", code = "BAD_RESULT" }
    return nil, ("ensemble.%s: %d of at least %d succeeded; the first failure: %s"):format(where,
        have, need, first.message), first.code, self:close(partial)
end

return account
