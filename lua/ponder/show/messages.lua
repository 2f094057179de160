--- Converts requests (of OpenAI, Anthropic and Ollama) and replies to the form of OpenTelemetry's
--- gen_ai.input.messages: messages with a role and parts.

local json = require "ponder.json"
local options = require "ponder.base.options"
local read = require "ponder.model.read"

local messages = {}

local function text_part(s)
    return { type = "text", content = s }
end

local function is_list(value)
    return type(value) == "table" and (#value > 0 or next(value) == nil)
end

local PARTS = {
    text = function(part) return text_part(tostring(part.text)) end,
    thinking = function(part) return { type = "reasoning", content = tostring(part.thinking) } end,
    tool_use = function(part)
        return { type = "tool_call", id = part.id, name = tostring(part.name),
            arguments = part.input }
    end,
    tool_result = function(part)
        return { type = "tool_call_response", id = part.tool_use_id,
            response = part.content == nil and "" or part.content }
    end,
}

local function add_content(parts, content)
    if type(content) == "string" then
        parts[#parts + 1] = content ~= "" and text_part(content) or nil
    elseif is_list(content) then
        for _, part in ipairs(content) do
            local known = type(part) == "table" and PARTS[part.type]
            parts[#parts + 1] = known and known(part) or type(part) ~= "table"
                and text_part(tostring(part)) or options.merge(options.merge({}, part),
                { type = type(part.type) == "string" and part.type or "unknown" })
        end
    end
end

-- Tool calls are {id, function = {name, arguments}} or {id, name, arguments}; arguments may be JSON
-- in a string.
local function add_tool_calls(parts, calls)
    for _, call in ipairs(is_list(calls) and calls or {}) do
        if type(call) == "table" then
            local f = type(call["function"]) == "table" and call["function"] or call
            local made = read.tool_call(nil, nil, f.arguments)
            parts[#parts + 1] = { type = "tool_call", id = type(call.id) == "string" and call.id
                or nil, name = tostring(f.name), arguments = made.arguments or made.arguments_json }
        end
    end
end

local function parts_of(message)
    local parts = json.array {}
    if message.role == "tool" then
        parts[1] = { type = "tool_call_response", id = message.tool_call_id,
            response = message.content == nil and "" or message.content }
        return parts
    end
    add_content(parts, message.content)
    add_tool_calls(parts, message.tool_calls)
    return parts
end

---The messages of a request.
---@param request any decoded body
---@return table[]? input nil: none
---@return table[]? system instructions given apart from the messages
function messages.input(request)
    if type(request) ~= "table" then
        return nil
    end
    local input, system = json.array {}, json.array {}
    for i, message in ipairs(is_list(request.messages) and request.messages or {}) do
        if type(message) == "table" then
            input[i] = { role = tostring(message.role), parts = parts_of(message) }
        end
    end
    add_content(system, request.system)
    return #input > 0 and input or nil, #system > 0 and system or nil
end

---The samples of a reply.
---@param reply any decoded
---@return table[]? output
function messages.output(reply)
    local samples = type(reply) == "table" and is_list(reply.samples) and reply.samples or {}
    local output = json.array {}
    for i, sample in ipairs(samples) do
        local parts = json.array {}
        if type(sample.reasoning) == "string" then
            parts[1] = { type = "reasoning", content = sample.reasoning }
        end
        add_content(parts, sample.text)
        add_tool_calls(parts, sample.tool_calls)
        output[i] = { role = "assistant", parts = parts }
    end
    return #output > 0 and output or nil
end

---Text unchanged, other values as JSON; nil for null and for values that cannot be JSON.
---@return string?
function messages.as_text(value)
    if value == nil or value == json.null or type(value) == "string" then
        return value ~= json.null and value or nil
    end
    local ok, text = pcall(json.encode, value)
    return ok and text or nil
end

---The parts of a message as one text; a tool call is its name and JSON.
function messages.text(parts)
    local lines = {}
    for i, part in ipairs(parts) do
        if part.type == "text" or part.type == "reasoning" then
            lines[i] = part.content
        elseif part.type == "tool_call" then
            lines[i] = ("%s %s"):format(part.name, messages.as_text(part.arguments) or "")
        elseif part.type == "tool_call_response" then
            lines[i] = messages.as_text(part.response) or ""
        else
            lines[i] = json.encode(part)
        end
    end
    return table.concat(lines, "\n")
end

---The messages of a request as {role, text}.
---@param request any decoded body
---@param take fun(text: string): any what stands for a text
---@return {role: string, text: any}[]
function messages.prompt(request, take)
    local prompt = json.array {}
    local input, system = messages.input(request)
    if system then
        prompt[1] = { role = "system", text = take(messages.text(system)) }
    end
    for _, message in ipairs(input or {}) do
        prompt[#prompt + 1] = { role = message.role, text = take(messages.text(message.parts)) }
    end
    return prompt
end

return messages
