--- Tools as most servers write them: in the form of OpenAI, which others have taken over in part or
--- whole. For providers; see ponder.model.read for single calls and their arguments.

local read = require "ponder.model.read"
local schema = require "ponder.model.schema"

local tool = {}

--- The tools of a request: `{type = "function", function = {name, description, parameters}}`. One
--- that has a `type` is in the provider's own form already.
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

--- Adds the calls of a message (`tool_calls`) to a list.
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
-- Calls that a stream brings in pieces

-- The call that a piece belongs to. Most servers number calls, some from 1; some number none, or
-- all of them 0, and send each whole: there another id with a name starts another call.
local function call_of(calls, id, named, index)
    local last = calls[#calls]
    if not index then
        index = last and last.index + (id and 1 or 0) or 0
    end
    for i = #calls, 1, -1 do
        local call = calls[i]
        if call.index == index and not (named and id and call.id and id ~= call.id) then
            return call
        end
    end
    local call, at = { index = index, pieces = {} }, #calls + 1
    while at > 1 and calls[at - 1].index > index do at = at - 1 end
    table.insert(calls, at, call)
    return call
end

--- Takes one piece of a call. Its id and name come once, its arguments in pieces.
---@param calls table[] the calls so far, to begin with an empty list
---@param piece any as decoded
function tool.merge(calls, piece)
    local id, named = read.text(piece, "id"), read.text(piece, "function", "name")
    local call = call_of(calls, id, named, read.count(piece, "index"))
    call.id, call.name = call.id or id, call.name or named
    local arguments = read.at(piece, "function", "arguments")
    if type(arguments) == "table" then
        arguments = read.tool_call(id, named, arguments).arguments_json
    end
    read.append(call.pieces, arguments)
end

--- The calls that were merged, or nil when there are none.
---@param calls table[]
---@return ponder.model.ToolCall[]?
function tool.merged(calls)
    local out = {}
    for i, call in ipairs(calls) do
        out[i] = read.tool_call(call.id, call.name, read.join(call.pieces))
    end
    return #out > 0 and out or nil
end

return tool
