--- Replies that are asked for in a schema, where the model takes one, and read as prose where they
--- do not fit: strategies and judges know best how to ask again.

local model_call = require "ponder.model.call"
local schema = require "ponder.model.schema"

local typed = {}

-- Models whose servers have refused a schema.
local refused = setmetatable({}, { __mode = "k" })

---Whether model.open made a model, which then takes schemas; a custom one may have any other field.
function typed.is_open(m)
    return m.target ~= nil and m.client ~= nil
end

---The option `response_format` of a call, whose reply the model does not repair.
---@param returns string|table|nil a schema or its shorthand
---@return table? format nil: the model takes none
function typed.format(m, name, returns)
    if not returns or refused[m] or not typed.is_open(m) then
        return nil
    end
    return { type = "json_schema", name = name, schema = assert(schema.returns(returns)).schema }
end

---Asks with a format, and without it if the server refuses one. A reply that does not fit is a
---reply.
---@return ponder.model.Reply? reply
---@return string? message
---@return string? code
---@return table? partial
function typed.ask(m, opts)
    local reply, message, code, partial = model_call.ask(m, opts)
    if opts.response_format and (code == "BAD_REQUEST" or code == "UNSUPPORTED") then
        refused[m], opts.response_format = true, nil
        reply, message, code, partial = model_call.ask(m, opts)
    elseif opts.response_format and code == "BAD_REPLY" and partial then
        return partial
    end
    return reply, message, code, partial
end

return typed
