--- The prompts of prompts/, or the files that replace them, as prompts of the Model Context
--- Protocol: `tot.generate` with the argument `prompt` returns the messages that `ponder tot` would
--- send.
---
--- Arguments are the context fields that the prompt needs; a list has one item a line. Fields that
--- the client omits are empty: the messages hold nothing of the samples.

local check = require "ponder.think.prompt.check"
local json = require "ponder.json"
local options = require "ponder.base.options"
local prompt = require "ponder.prompt"
local strategy = require "ponder.strategy"

local prompts = {}

local NAMES = { "ensemble", table.unpack(strategy.names) } -- of the files of prompts/
local REQUIRED = { prompt = true, question = true } -- other arguments may be empty
local CHOICES = { wanted = true } -- fields that select a variant of the prompt

-- Converts an argument to the form of a sample's value.
local function in_form_of(sample, text)
    if type(sample) ~= "table" then
        return text
    elseif sample.content then
        return { id = sample.id, content = text }
    end
    local list, first = {}, sample[1]
    for line in text:gmatch "[^\n]+" do
        local n = #list + 1
        local id = (type(first) == "table" and first.id or "n"):match "^%a+" .. n
        list[n] = type(first) ~= "string" and { id = id, name = "Author " .. n, content = line }
            or line
    end
    return list
end

-- The first value of a field that is not empty, which shows its form.
local function form_of(contexts, field)
    for _, context in ipairs(contexts) do
        local value = context[field]
        if type(value) ~= "table" or next(value) ~= nil then
            return value
        end
    end
    return {}
end

-- A value without the made-up texts of samples.
local function blank(value)
    if type(value) == "string" then
        return ""
    elseif type(value) ~= "table" then
        return value
    end
    local record = {}
    for field, inner in pairs(value[1] == nil and value or {}) do
        record[field] = blank(inner)
    end
    return record
end

-- A context made from the client's arguments.
local function fill(contexts, needs, arguments)
    local context = {}
    for field, value in pairs(contexts[1]) do
        context[field] = CHOICES[field] and value or blank(value)
    end
    for _, field in ipairs(needs) do
        context[field] = in_form_of(form_of(contexts, field), arguments[field] or "")
    end
    return setmetatable(context, getmetatable(contexts[1]))
end

local function list()
    local all = {}
    for _, name in ipairs(NAMES) do
        local subject = strategy.subject(name)
        for function_name, contexts in pairs(subject.samples()) do
            if contexts[1] then
                local arguments = json.array {}
                for i, field in ipairs(subject.needs[function_name] or {}) do
                    arguments[i] = { name = field, required = REQUIRED[field] or false,
                        description = ("context.%s of the prompt"):format(field) }
                end
                all[#all + 1] = { name = name .. "." .. function_name, arguments = arguments,
                    description = ("What ponder %s asks a model to %s"):format(name,
                        function_name) }
            end
        end
    end
    table.sort(all, function(a, b) return a.name < b.name end)
    return all
end

local function get(name, arguments)
    local own, function_name = name:match "^([^.]+)%.(.+)$"
    local subject = options.has(NAMES, own) and strategy.subject(own)
    local contexts = subject and subject.samples()[function_name]
    if not contexts or not contexts[1] then
        return nil
    end
    local loaded, problem = prompt.load(subject.name)
    if not loaded then
        return nil, problem
    end
    local needs = subject.needs[function_name] or {}
    for _, field in ipairs(needs) do
        local value = arguments[field]
        if value == nil and REQUIRED[field] then
            return nil, ("the argument %s is missing"):format(field)
        elseif value ~= nil and type(value) ~= "string" then
            return nil, ("the argument %s must be a string"):format(field)
        end
    end
    local messages
    messages, problem = check.render(type(loaded[function_name]) == "function"
        and loaded[function_name] or subject.functions()[function_name],
        fill(contexts, needs, arguments))
    local converted = json.array {}
    for i, message in ipairs(messages or {}) do -- the protocol has two roles only
        converted[i] = { role = message.role == "assistant" and "assistant" or "user",
            content = { type = "text", text = message.content } }
    end
    return messages and { messages = converted }, problem
end

---@type ponder.mcp.Catalog
prompts.catalog = { list = list, get = get }

return prompts
