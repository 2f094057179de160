--- Reads the fields of requests to the three APIs; an error names the field that is wrong.

local errors = require "ponder.serve.http.errors"
local foreign = require "ponder.serve.http.foreign"
local json = require "ponder.json"
local options = require "ponder.base.options"
local schema = require "ponder.model.schema"
local tools = require "ponder.serve.http.tools"

local fields = {}

---Makes the error of a wrong field, for the caller to raise.
function fields.wrong(param, message, code)
    return errors.new(400, code or "invalid_value", message, param)
end

local function fail(...)
    error(fields.wrong(...), 0)
end

---Decodes a body, which must be a JSON object.
function fields.body(text)
    local body, problem, code = foreign.decode(text)
    if code == "TOO_LARGE" then
        error(errors.new(413, "request_too_large", "the values of the body take too much memory"),
            0)
    elseif body == nil then
        fail(nil, "the body is not valid JSON: " .. problem:gsub("^json%.decode: ", ""),
            "invalid_json")
    elseif type(body) ~= "table" or #body > 0 then
        fail(nil, "the body must be a JSON object", "invalid_json")
    end
    return body
end

---Sorts the fields of a body into those that an endpoint knows and the others; null is absent.
---@param body table changed
---@param known table<string, "string"|"boolean"|"table"|"number"|"any"> types by name
function fields.sort(body, known)
    local params = {}
    for _, name in ipairs(options.names(body)) do -- of several wrong ones the first is named
        local value, kind = body[name], known[name]
        if value == json.null then
            body[name] = nil
        elseif not kind then
            body[name], params[name] = nil, value
        elseif kind ~= type(value) and kind ~= "any" then
            fail(name, ("%s must be a %s"):format(name, kind == "table" and "list or object"
                or kind), "invalid_type")
        end
    end
    return body, params
end

---Reads a field that a request must have.
function fields.required(given, name)
    local value = given[name]
    if value == nil then
        fail(name, "missing required field: " .. name, "missing_required_parameter")
    end
    return value
end

---Reads a number.
function fields.number(given, name, rule)
    local value = given[name]
    if value == nil then
        return
    end
    local number, problem = options.check_value(value, rule)
    if problem then
        local is_number = type(value) == "number"
            and (rule.type == "number" or math.tointeger(value) ~= nil)
        fail(name, ("%s %s"):format(name, problem), not is_number and "invalid_type" or nil)
    end
    return number
end

---Reads an integer.
function fields.integer(given, name, min, max)
    return fields.number(given, name, { type = "integer", min = min, max = max })
end

-- Numbers that policies get in `params`.
local NUMBERS = {
    temperature = { type = "number", min = 0, max = 2 },
    top_p = { type = "number", min = 0, max = 1 },
    min_p = { type = "number", min = 0, max = 1 },
    top_k = { type = "integer", min = -1 },
    frequency_penalty = { type = "number", min = -2, max = 2 },
    presence_penalty = { type = "number", min = -2, max = 2 },
    repetition_penalty = { type = "number", min = 0 },
    top_logprobs = { type = "integer", min = 0, max = 20 },
    max_tool_calls = { type = "integer", min = 1 },
}

local MAX_MESSAGES = 10000
local MAX_ITEMS = 1000 -- of another list or object
local MAX_STOPS = 32
local MAX_STOP_BYTES = 256

local function check_length(list, name, max)
    local count = 0
    for _ in pairs(list) do
        count = count + 1
        if count > max then
            fail(name, ("%s must have at most %d items"):format(name, max))
        end
    end
end

-- Checks the fields that only the policy reads.
local function check_params(params)
    for _, name in ipairs(options.names(params)) do
        local value = params[name]
        if NUMBERS[name] then
            fields.number(params, name, NUMBERS[name])
        elseif type(value) == "table" then
            check_length(value, name, MAX_ITEMS)
        end
    end
end

local TEXT_PARTS = { text = true, input_text = true, output_text = true }
-- Clients send earlier answers back as they got them; their reasoning is dropped.
local REASONING_PARTS = { thinking = true, redacted_thinking = true }

---Reads a message's content: a string, or a list of text parts.
---@param where string format of its place: "messages[%d].content"
---@param ... integer arguments of the format
function fields.text(content, where, ...)
    if type(content) == "string" then
        return content
    elseif content == nil or content == json.null then
        return ""
    end
    where = where:format(...)
    if type(content) ~= "table" or next(content) ~= nil and #content == 0 then
        fail(where, where .. " must be a string or a list of parts", "invalid_type")
    end
    check_length(content, where, MAX_ITEMS)
    local texts = {}
    for i = 1, #content do
        local part = content[i]
        local kind = type(part) == "table" and tostring(part.type)
            or part == json.null and "null" or type(part)
        if not REASONING_PARTS[kind] and not (TEXT_PARTS[kind] and type(part.text) == "string") then
            fail(("%s[%d]"):format(where, i - 1), ("%s[%d]: this model reads text parts only (got "
                .. "%s)"):format(where, i - 1, kind), "unsupported_content")
        end
        texts[i] = TEXT_PARTS[kind] and part.text or ""
    end
    return table.concat(texts)
end

---Checks the form of a reply that a client asks for; the policy gets it as the client sent it.
function fields.format(format, name)
    local _, problem, mistake = schema.format(format)
    if problem then
        fail(name, mistake and name .. ": " .. mistake
            or name .. ".type must be text, json_object, or json_schema with a schema")
    end
    return format
end

local ROLES = { system = "system", developer = "system", user = "user", assistant = "assistant",
    tool = "tool" }

---Reads the messages of a conversation; drops the reasoning of earlier answers.
function fields.messages(list, name)
    if type(list) ~= "table" or #list == 0 then
        fail(name, name .. " must be a non-empty list of messages", "invalid_type")
    end
    check_length(list, name, MAX_MESSAGES)
    local messages, where_content = {}, name .. "[%d].content"
    for i = 1, #list do
        local message = list[i]
        local role = type(message) == "table" and ROLES[message.role]
        if role then
            messages[#messages + 1] = { role = role,
                content = fields.text(message.content, where_content, i - 1),
                tool_calls = role == "assistant" and tools.calls(message.tool_calls) or nil,
                tool_call_id = role == "tool" and message.tool_call_id or nil }
        elseif type(message) ~= "table" or message.type ~= "reasoning" then
            local where = ("%s[%d].role"):format(name, i - 1)
            fail(where, where .. " must be system, developer, user or assistant")
        end
    end
    return messages
end

local NOWHERE = {}
local TOOLS = { "tools", "tool_choice" }

local function changes_nothing(value)
    return value == false or value == "none"
        or value == "auto" or type(value) == "table" and (next(value) == nil
            or #value == 1 and value[1] == "text" or value.type == "none" or value.type == "auto")
end

---Refuses fields that change the shape of the reply and that the policy does not accept.
function fields.refuse(params, names, policy)
    if next(params) == nil then
        return
    end
    for _, name in ipairs(names) do
        local value = params[name]
        if value ~= nil and not changes_nothing(value) and not policy.accepts[name] then
            fail(name, ("%s is not supported by the model %s"):format(name, policy.name),
                "unsupported_parameter")
        end
    end
end

---Reads the fields that all endpoints have.
---@param body table changed
---@param known table<string, string> see fields.sort
---@param shape_fields string[] see fields.refuse
function fields.job(body, known, shape_fields, server)
    local given, params = fields.sort(body, known)
    local policy = server:find(fields.required(given, "model"))
    check_params(params)
    fields.refuse(params, shape_fields, policy)
    if not policy.takes_tools then
        fields.refuse(params, TOOLS, policy)
    end
    -- The fields that are nil make room for those that are added.
    return given, { policy = policy, n = 1, stream = given.stream or false,
        reasoning = given.stream_reasoning ~= false, include_usage = true, stop = NOWHERE,
        fields = { model = policy.name, params = params, messages = nil, prompt = nil,
            tools = not policy.accepts.tools and tools.read(params.tools) or nil,
            tool_choice = tools.choice(params.tool_choice),
            max_output_tokens = nil, response_format = nil, seed = nil, sink = nil },
        id = nil, created = nil }
end

---Adds a conversation to a job.
---@param messages {role: string, content: string}[] changed
function fields.converse(job, messages, system)
    if system then
        table.insert(messages, 1, { role = "system", content = system })
    end
    job.fields.messages, job.fields.prompt = messages, ""
    for _, message in ipairs(messages) do -- the prompt is the last of the user's
        job.fields.prompt = message.role == "user" and message.content or job.fields.prompt
    end
end

---Whether a value is a list of up to `max` texts of 1 to `max_bytes` bytes.
function fields.are_texts(list, max, max_bytes)
    local are = type(list) == "table" and #list <= max and (#list > 0 or next(list) == nil)
    for i = 1, are and #list or 0 do
        are = are and type(list[i]) == "string" and list[i] ~= "" and #list[i] <= max_bytes
    end
    return are
end

---Reads the sequences at which an answer stops.
function fields.stop(given, name)
    local list = given[name]
    if list == nil then
        return NOWHERE
    elseif type(list) == "string" then
        list = { list }
    end
    if not fields.are_texts(list, MAX_STOPS, MAX_STOP_BYTES) then
        fail(name, ("%s must be a string of 1 to %d bytes, or a list of at most %d of them")
            :format(name, MAX_STOP_BYTES, MAX_STOPS))
    end
    return list
end

return fields
