--- Reads untrusted decoded JSON: no value makes these functions raise.

local json = require "ponder.json"
local tally = require "ponder.tally"

local read = {}

local null, type, count = json.null, type, tally.count

-- Follows up to three keys into nested tables; may return JSON null. The functions below do the
-- first step themselves, for speed.
local function follow(value, a, b, c)
    if a == nil or value == nil then return value end
    if type(value) ~= "table" then return nil end
    return follow(value[a], b, c)
end

--- Follows up to three keys or list positions into nested tables.
---@param value any
---@param a? string|integer
---@param b? string|integer
---@param c? string|integer
---@return any? value nil for a missing key or JSON null
function read.at(value, a, b, c)
    if a ~= nil then
        if type(value) ~= "table" then return nil end
        value = value[a]
        if b ~= nil then value = follow(value, b, c) end
    end
    if value == null then return nil end
    return value
end

--- Like `at`, but only a non-empty string counts.
---@return string?
function read.text(value, a, b, c)
    if a ~= nil then
        if type(value) ~= "table" then return nil end
        value = value[a]
        if value == nil then return nil end -- the most frequent case
        if b ~= nil then value = follow(value, b, c) end
    end
    return type(value) == "string" and value ~= "" and value or nil
end

--- Like `at`, but returns an empty table for anything but a table.
---@return table
function read.list(value, a, b, c)
    if a ~= nil then
        if type(value) ~= "table" then return {} end
        value = value[a]
        if b ~= nil then value = follow(value, b, c) end
    end
    return type(value) == "table" and value or {}
end

--- Like `at`, but only a valid count (ponder.tally) counts: of tokens, or an index.
---@return integer?
function read.count(value, a, b, c)
    if a ~= nil then
        if type(value) ~= "table" then return nil end
        value = value[a]
        if value == nil then return nil end
        if b ~= nil then value = follow(value, b, c) end
    end
    return count(value)
end

local function alternatives(one)
    local top = {}
    for i, other in ipairs(read.list(one, "top_logprobs")) do
        top[i] = { token = read.text(other, "token"), logprob = read.at(other, "logprob") }
    end
    return #top > 0 and top or nil
end

--- Appends the log probabilities of tokens at these keys to a list.
---@param list {token: string, logprob: number, top: table[]?}[]
---@return table list
function read.logprobs(list, value, a, b)
    for _, one in ipairs(read.list(value, a, b)) do
        list[#list + 1] = { token = read.text(one, "token"), logprob = read.at(one, "logprob"),
            top = alternatives(one) }
    end
    return list
end

--- The sum of the known parts, or nil if none is known.
---@param a integer?
---@param b integer?
---@return integer?
function read.sum(a, b)
    if a and b then return tally.plus(a, b) end
    return a or b
end

--- Appends a piece to a list of pieces; ignores nil and "".
---@param pieces string[]
---@param piece string?
function read.append(pieces, piece)
    if type(piece) == "string" and piece ~= "" then pieces[#pieces + 1] = piece end
end

--- The pieces as one string, or nil if there are none.
---@param pieces string[]
---@return string?
function read.join(pieces)
    if #pieces > 0 then return table.concat(pieces) end
end

--- The arguments of a tool call as JSON text, from either form in a message.
---@param call table
---@return string
function read.arguments_json(call)
    if type(call.arguments) == "string" then return call.arguments end
    if call.arguments_json then return call.arguments_json end
    return next(call.arguments or {}) == nil and "{}" or json.encode(call.arguments)
end

--- The arguments of a tool call as a table that encodes as a JSON object.
---@param call table
---@return table
function read.arguments(call)
    local arguments = call.arguments
    if type(arguments) == "string" or (arguments == nil and call.arguments_json) then
        arguments = json.decode(arguments or call.arguments_json)
    end
    if type(arguments) ~= "table" or next(arguments) == nil then return json.object() end
    return arguments
end

--- A tool call in the form of replies. Arguments that are not a JSON object remain text.
---@param id string?
---@param name string?
---@param arguments string|table|nil
---@return ponder.model.ToolCall
function read.tool_call(id, name, arguments)
    local call = { id = id, name = name }
    if type(arguments) == "table" then
        local ok, text = pcall(json.encode, arguments) -- a decoded Infinity does not encode
        call.arguments, call.arguments_json = arguments, ok and text or "{}"
        return call
    end
    call.arguments_json = type(arguments) == "string" and arguments ~= "" and arguments or "{}"
    local decoded = json.decode(call.arguments_json)
    if type(decoded) == "table" then call.arguments = decoded end
    return call
end

return read
