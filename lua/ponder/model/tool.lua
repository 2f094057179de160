--- Tools in OpenAI's form, which most servers use; for providers. See ponder.model.read for single
--- calls and their arguments.

local read = require "ponder.model.read"
local schema = require "ponder.model.schema"

local tool = {}

--- The tools of a request: `{type = "function", function = {name, description, parameters}}`. A
--- tool with a `type` is already in the provider's form.
---@param tools table[]
---@return table[]
function tool.functions(tools)
    local out = {}
    for i, one in ipairs(tools) do
        out[i] = one.type and one or { type = "function", ["function"] = {
            name = one.name, description = one.description, strict = one.strict,
            parameters = one.parameters or schema.NO_ARGUMENTS,
        } }
    end
    return out
end

--- Appends the calls of a message (`tool_calls`) to a list.
---@param calls ponder.model.ToolCall[]
---@param message any as decoded
---@return ponder.model.ToolCall[] calls
function tool.take_calls(calls, message)
    for _, call in ipairs(read.list(message, "tool_calls")) do
        calls[#calls + 1] = read.tool_call(read.text(call, "id"),
            read.text(call, "function", "name"), read.at(call, "function", "arguments"))
    end
    return calls
end

---------------------------------------------------------------------------------------------------
-- Streamed calls

local MAX_CALLS = 1 << 16 -- in one reply

---@class ponder.model.MergedCalls
---@field private list table[] in order of their first pieces
---@field private slots table<integer, {by_id: table<string, table>, last: table}> by number
---@field private highest integer? number

---@return ponder.model.MergedCalls
function tool.new_calls()
    return { list = {}, slots = {} }
end

local function begin_call(calls, slot, index)
    local list = calls.list
    if #list >= MAX_CALLS then return nil end
    local call = { index = index, order = #list + 1, pieces = {} }
    list[call.order], slot.last = call, call
    calls.highest = math.max(index, calls.highest or index)
    return call
end

-- The call that a piece belongs to. Most servers number calls, some from 1. Others send each call
-- in one piece, without a number or with 0: there a new id with a name starts a new call.
local function call_of(calls, id, named, index)
    if not index then
        index = calls.highest and calls.highest + (id and 1 or 0) or 0
    end
    local slot = calls.slots[index]
    if not slot then
        slot = { by_id = {} }
        calls.slots[index] = slot
    end
    local call = slot.last
    if call and named and id and call.id and call.id ~= id then call = slot.by_id[id] end
    call = call or begin_call(calls, slot, index)
    if call and id and not call.id then call.id, slot.by_id[id] = id, call end
    return call
end

--- Adds a piece of a call. Its id and name come once, its arguments in pieces.
---@param calls ponder.model.MergedCalls
---@param piece any as decoded
---@return boolean? ok nil: too many
---@return string? message
function tool.merge(calls, piece)
    local id, named = read.text(piece, "id"), read.text(piece, "function", "name")
    local call = call_of(calls, id, named, read.count(piece, "index"))
    if not call then return nil, ("the reply has more than %d tool calls"):format(MAX_CALLS) end
    call.name = call.name or named
    local arguments = read.at(piece, "function", "arguments")
    if type(arguments) == "table" then
        arguments = read.tool_call(id, named, arguments).arguments_json
    end
    read.append(call.pieces, arguments)
    return true
end

local function is_before(a, b)
    if a.index ~= b.index then return a.index < b.index end
    return a.order < b.order
end

--- The merged calls, by number; nil if there are none.
---@param calls ponder.model.MergedCalls
---@return ponder.model.ToolCall[]?
function tool.merged(calls)
    local sorted, out = table.move(calls.list, 1, #calls.list, 1, {}), {}
    table.sort(sorted, is_before)
    for i, call in ipairs(sorted) do
        out[i] = read.tool_call(call.id, call.name, read.join(call.pieces))
    end
    return #out > 0 and out or nil
end

return tool
