--- Recorded pools: `pool:FILE#FIELD` is a model whose replies were recorded before, so that a table
--- of an evaluation can be had again by everybody, without a key and at no cost.
---
---     local m = model.open("pool:game24_gpt4.jsonl#cot")
---     local reply, message, code = m:chat { messages = {{ role = "user", content = "4 5 6 10" }},
---         sample = 3 }
---
--- FILE has a JSON object a line, for each prompt:
---
---     {"id": "game24-900", "input": "4 5 6 10", "cot": {"answers": ["A", "B"],
---      "samples": [0, 0, 1], "tokens": [20, 21, 19], "input_tokens": 200}}
---
--- `samples` has the index into `answers`, from 0, of each recorded reply in order, `tokens` its
--- output tokens, `input_tokens` those of one request. The request with sample number i gets sample
--- i of the line whose `input` is the text of the last message, or whose `id` is `metadata.id`.
--- There are two failures of its own: `POOL_UNKNOWN`, no line has that input; `POOL_EMPTY`, the
--- line has no sample with that number.
---
--- Replies have `recorded = true`, a cost of 0, and are not cached. `ponder pool record` makes a
--- pool from a log.

local files = require "ponder.run.log.files"
local json = require "ponder.json"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"

local pool = { name = "pool", marks = "recorded" }

---@class ponder.model.PoolField the replies to one input
---@field answers string[]
---@field samples integer[] indices into answers, from 0
---@field tokens integer[]? output tokens of each sample
---@field input_tokens integer? of one request

-- Target of an open model -> its inputs and ids: {string: ponder.model.PoolField}.
local opened = setmetatable({}, { __mode = "k" })

-- What is wrong with the replies of a line.
local function problem_of(field)
    if type(field.answers) ~= "table" or type(field.samples) ~= "table" then
        return "needs the lists `answers` and `samples`"
    end
    for i, index in ipairs(field.samples) do
        local answer = math.type(index) == "integer" and field.answers[index + 1]
        if type(answer) ~= "string" then
            return ("samples[%d] must be the index of a text of `answers`, from 0 (got %s)"):format(
                i, options.show(index))
        end
    end
    local tokens = field.tokens
    if tokens ~= nil and (type(tokens) ~= "table" or #tokens ~= #field.samples) then
        return "`tokens` must be a list as long as `samples`"
    end
end

-- The lines of a pool by input and by id; or nil and what is wrong.
local function read(text, path, name)
    local known, number, names = { inputs = {}, ids = {} }, 0, {}
    for line in text:gmatch("[^\n]+") do
        number = number + 1
        local entry, message = json.decode(line)
        local where = ("%s:%d: "):format(path, number)
        if type(entry) ~= "table" or type(entry.input) ~= "string" then
            return nil, where .. (message or "must be a JSON object with `input`, a text")
        end
        local field = entry[name]
        for other, value in pairs(entry) do
            names[other] = type(value) == "table" or nil
        end
        local problem = type(field) == "table" and problem_of(field)
        if problem then
            return nil, ("%s%s: %s"):format(where, name, problem)
        end
        if type(field) == "table" then -- other lines have replies under other names
            known.inputs[entry.input] = known.inputs[entry.input] or field
            local id = entry.id or known
            known.ids[id] = known.ids[id] == nil and field -- false: several lines have it
        end
    end
    if not next(known.inputs) then
        names = options.names(names)
        return nil, ("%s: no replies under %s%s; there are: %s"):format(path, options.show(name),
            options.hint(name, names), table.concat(names, ", "))
    end
    return known
end

---Reads the file of a model that is being opened.
---@return boolean? ok
---@return string? message with file and line
---@package
function pool.open(target)
    local path, name = target.model:match("^(.+)#([^#]+)$")
    if not path then
        return nil, "expected pool:FILE#FIELD, FIELD being where a line has its replies"
    end
    local text, known, message
    text, message = files.read(path, "data")
    if text then
        known, message = read(text, path, name)
    end
    if not known and scheduler.is_playing() then
        known, message = { inputs = {}, ids = {} }, nil -- calls are answered by the log
    end
    opened[target] = known
    return known ~= nil or nil, message
end

---Answers a request.
---@return table? reply nil: no sample is left, or the input is unknown
---@return string? message
---@return "POOL_EMPTY"|"POOL_UNKNOWN"|nil code
---@package
function pool.call(request)
    local known, metadata = opened[request.target], request.metadata or {}
    local input = request.messages[#request.messages].content
    local field = known.inputs[input]
    if not field and metadata.id ~= nil and known.ids[metadata.id] then
        field = known.ids[metadata.id]
        notice.once(("pool:%s: replies are found by the item's id, since the prompt is not the "
            .. "input of a line"):format(request.target.model))
    end
    if not field then
        return nil, ("the pool has no input %s%s"):format(options.show(input), metadata.id ~= nil
            and " and no id " .. options.show(metadata.id) or ""), "POOL_UNKNOWN"
    end
    local texts, output, first = {}, 0, request.sample
    for i = first, math.min(first + request.n - 1, #field.samples) do
        texts[#texts + 1] = field.answers[field.samples[i] + 1]
        output = output + (field.tokens and field.tokens[i] or 0)
    end
    if not texts[1] then
        return nil, ("sample %d is not in the pool, which has %d of this input"):format(first,
            #field.samples), "POOL_EMPTY"
    end
    return { texts = texts, usage = field.tokens and { input_tokens = field.input_tokens,
        output_tokens = output } or nil }
end

return pool
