--- Readers of streams: each folds the pieces of a reply into its samples. A provider says where the
--- pieces are in an event.

local json = require "ponder.json"
local read = require "ponder.model.read"

local stream = {}

---@class ponder.model.StreamReader: ponder.model.Reader
---@field emit fun(text: string, kind: string, sample: integer, tokens: table[]?)
---@field n integer? samples asked for
---@field samples table<integer, table> by number: lists of pieces, and what came once
---@field into table? takes events that have only text: a sample, or a block of one
---@field usage ponder.model.Usage?
---@field model string?
---@field id string?

--- A class of readers; its `new` makes one.
---@param take fun(self, event: table, name: string): string? adds an event; returns what is wrong
---@param plain? fun(data: string, name: string): string|false|nil the text of an event that has
---  nothing else
function stream.class(take, plain)
    local Reader = {}
    Reader.__index = Reader

    function Reader.new(request, emit)
        return setmetatable({ emit = emit, n = request and request.n, samples = {} }, Reader)
    end

    function Reader:plain(name, data)
        local into = self.into
        local text = into and plain(data, name)
        if not text then return false end
        local pieces = into.text
        if pieces then pieces[#pieces + 1] = text else into.text = { text } end
        self.emit(text, "text", 1)
        return true
    end

    function Reader:event(name, data)
        local event = json.decode(data)
        if type(event) ~= "table" then return nil, "an event of the stream is not a JSON object" end
        local problem = take(self, event, name)
        if problem then return nil, problem end
        return event
    end

    Reader.sample, Reader.add, Reader.finish = stream.sample, stream.add, stream.finish
    return Reader
end

--- Appends to a list in a field; ignores nil.
function stream.append(into, field, piece)
    if piece == nil then return end
    local pieces = into[field]
    if pieces then pieces[#pieces + 1] = piece else into[field] = { piece } end
end

--- The sample with a number.
function stream.sample(self, number)
    local sample = self.samples[number] or {}
    self.samples[number] = sample
    return sample
end

--- Adds pieces to a sample, and passes them on: the tokens with the text, else with the reasoning,
--- else alone, with "".
---@param text string?
---@param reasoning string?
---@param tokens table[]? with log probabilities
function stream.add(self, number, text, reasoning, tokens)
    local sample = self:sample(number)
    stream.append(sample, "text", text)
    stream.append(sample, "reasoning", reasoning)
    if tokens then
        local list = sample.logprobs or {}
        sample.logprobs = table.move(tokens, 1, #tokens, #list + 1, list)
    end
    if reasoning then self.emit(reasoning, "reasoning", number, not text and tokens or nil) end
    if text or tokens and not reasoning then self.emit(text or "", "text", number, tokens) end
end

---------------------------------------------------------------------------------------------------
-- Calls of tools

local MAX_CALLS = 1 << 16 -- in one reply

-- Whether a piece with a name begins another call than the last one of its number.
local function is_other(call, id, named)
    if id and call.id then return id ~= call.id end
    return not id and call.name ~= nil and (call.name ~= named
        or call.text and #call.text == 1 and type(json.decode(call.text[1])) == "table")
end

--- Adds a piece of a call of a tool to a sample. A call's id and name come once, its arguments in
--- pieces. Most servers number calls, some from 1. Others send each call in one piece, without a
--- number or with 0: there a new id, or a name without one, starts a call.
---@param piece any as decoded
---@return string? problem too many
function stream.merge_call(sample, piece)
    local calls = sample.calls or { last = {}, by_key = {}, numbers = {}, highest = nil }
    sample.calls = calls
    local id, named = read.text(piece, "id"), read.text(piece, "function", "name")
    local number = read.count(piece, "index") or calls.numbers[id or 0]
        or calls.highest and calls.highest + (id and 1 or 0) or 0
    local key = id and number .. " " .. id
    local call = calls.by_key[key or 0] or calls.last[number]
    if not call or named and is_other(call, id, named) then
        if #calls >= MAX_CALLS then
            return ("the reply has more than %d tool calls"):format(MAX_CALLS)
        end
        call = { number = number, order = #calls + 1 }
        calls[call.order], calls.last[number] = call, call
        calls.highest = math.max(number, calls.highest or number)
    end
    if id and not call.id then
        call.id, calls.by_key[key] = id, call
        calls.numbers[id] = calls.numbers[id] or number
    end
    call.name = call.name or named
    local arguments = read.at(piece, "function", "arguments")
    if type(arguments) == "table" then
        arguments = read.tool_call(id, named, arguments).arguments_json
    end
    stream.append(call, "text", read.text(arguments))
end

--- The calls of a sample, by number.
---@return ponder.model.ToolCall[]
function stream.merged_calls(calls)
    local sorted = table.move(calls, 1, #calls, 1, {})
    table.sort(sorted, function(a, b)
        return a.number < b.number or a.number == b.number and a.order < b.order
    end)
    for i, call in ipairs(sorted) do
        sorted[i] = read.tool_call(call.id, call.name, call.text and table.concat(call.text))
    end
    return sorted
end

---------------------------------------------------------------------------------------------------
-- The reply

--- A sample whose pieces are joined.
function stream.joined(sample)
    for _, field in ipairs { "text", "reasoning", "refusal" } do
        sample[field] = sample[field] and table.concat(sample[field])
    end
    if sample.calls then
        sample.tool_calls, sample.calls = stream.merged_calls(sample.calls), nil
    end
    return sample
end

--- The reply so far. It is complete if every sample has a finish_reason.
function stream.finish(self)
    local samples, whole, last = {}, self.samples[1] ~= nil, 0
    for number in pairs(self.samples) do last = math.max(last, number) end
    for number = 1, last do
        samples[number] = stream.joined(self:sample(number))
        whole = whole and samples[number].finish_reason ~= nil
    end
    return { samples = samples, usage = self.usage, model = self.model, id = self.id }, whole
end

return stream
