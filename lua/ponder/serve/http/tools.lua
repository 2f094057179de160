--- Tools that clients offer, calls of them in answers, and their results in later requests: the
--- forms of the three APIs, and the one that policies see (that of ponder.model).

local errors = require "ponder.serve.http.errors"
local json = require "ponder.json"
local options = require "ponder.base.options"
local random = require "ponder.core.random"
local read = require "ponder.model.read"

local tools = {}

---Reads the tools of a request: {type = "function", function = {...}}, {type = "function",
---name...} or {name, input_schema}.
---@return {name: string, description: string?, parameters: table?}[]? nil: none
function tools.read(list)
    if type(list) ~= "table" or next(list) == nil then
        return nil
    end
    local offered = {}
    for i, one in ipairs(list) do
        local where = ("tools[%d]"):format(i - 1)
        local about = type(one) == "table" and (one["function"] or one)
        if type(about) ~= "table" or type(about.name) ~= "string"
            or one.type ~= nil and one.type ~= "function" and one.type ~= "custom" then
            error(errors.new(400, "invalid_value", where
                .. " must be a function with a name; other tools are not supported", where), 0)
        end
        local parameters = about.parameters or about.input_schema
        offered[i] = { name = about.name, description = about.description ~= json.null
            and about.description or nil, parameters = type(parameters) == "table" and parameters
            or nil }
    end
    return offered
end

---Reads which tool is to be called.
---@param choice any in any of the forms
---@return string|{name: string}|nil choice "auto", "none", "required" or one tool
function tools.choice(choice)
    if type(choice) ~= "table" then
        return choice
    end
    local name = type(choice["function"]) == "table" and choice["function"].name or choice.name
    local kind = choice.type == "any" and "required" or choice.type
    return name and { name = name } or kind
end

---Reads the calls of an assistant's message in OpenAI's form.
function tools.calls(list)
    local calls = {}
    for i, one in ipairs(type(list) == "table" and list or {}) do
        local f = type(one) == "table" and one["function"]
        calls[i] = type(f) == "table" and read.tool_call(one.id, f.name, f.arguments) or nil
    end
    return calls[1] and calls or nil
end

---Rewrites Anthropic's messages: blocks of calls and their results become calls and messages of the
---role `tool`.
function tools.from_anthropic(list)
    if type(list) ~= "table" then
        return list
    end
    local out = {}
    for _, message in ipairs(list) do
        local blocks = type(message) == "table" and message.content
        local rest, calls = {}, {}
        for _, block in ipairs(type(blocks) == "table" and blocks or {}) do
            local kind = type(block) == "table" and block.type
            if kind == "tool_use" then
                calls[#calls + 1] = { id = block.id, ["function"] = { name = block.name,
                    arguments = block.input } }
            elseif kind == "tool_result" then
                out[#out + 1] = { role = "tool", tool_call_id = block.tool_use_id,
                    content = block.content }
            else
                rest[#rest + 1] = block
            end
        end
        if type(blocks) ~= "table" or #rest == #blocks then
            out[#out + 1] = message
        elseif rest[1] or calls[1] then
            out[#out + 1] = { role = message.role, content = json.array(rest),
                tool_calls = calls[1] and calls or nil }
        end
    end
    return out
end

---The message for an item of the Responses API; nil: another kind of item.
function tools.from_item(item)
    if item.type == "function_call" then
        return { role = "assistant", content = "", tool_calls = { { id = item.call_id,
            ["function"] = { name = item.name, arguments = item.arguments } } } }
    elseif item.type == "function_call_output" then
        return { role = "tool", tool_call_id = item.call_id, content = item.output }
    end
end

---The calls that a policy returned.
---@param list any {id?, name, arguments? or arguments_json?}
---@return ponder.model.ToolCall[]? calls
---@return string? message what is wrong
function tools.returned(list)
    if type(list) ~= "table" or #list == 0 then
        return nil, "its tool_calls must be a list of calls (got " .. options.show(list) .. ")"
    end
    local calls = {}
    for i, one in ipairs(list) do
        if type(one) ~= "table" or type(one.name) ~= "string" then
            return nil, ("its tool_calls[%d] must be a table with a name (got %s)"):format(i,
                options.show(one))
        end
        local arguments = one.arguments or one.arguments_json or "{}"
        if type(arguments) ~= "table" and type(arguments) ~= "string" then
            return nil, ("its tool_calls[%d].arguments must be a table or JSON text (got %s)")
                :format(i, options.show(arguments))
        elseif not pcall(json.encode, arguments) then
            return nil, ("its tool_calls[%d].arguments cannot be JSON"):format(i)
        end
        calls[i] = read.tool_call(one.id or ("call_%016x"):format(random.draw()), one.name,
            arguments)
    end
    return calls
end

---Calls in the form of OpenAI's chat completions.
function tools.openai(calls)
    local list = {}
    for i, call in ipairs(calls) do
        list[i] = { id = call.id, type = "function", ["function"] = { name = call.name,
            arguments = call.arguments_json } }
    end
    return list
end

return tools
