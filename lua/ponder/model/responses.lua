--- OpenAI's Responses API (`api = "responses"`): the request and the reply of a provider that
--- otherwise speaks chat completions. Nothing is stored at the service: reasoning comes back
--- encrypted in the reply's items, which `message.blocks` returns unchanged in the next request.

local json = require "ponder.json"
local read = require "ponder.model.read"
local schema = require "ponder.model.schema"
local stream = require "ponder.model.stream"
local tally = require "ponder.base.tally"

---@type ponder.model.Provider
local responses = { path = "/responses", api = "responses" }

--- The providers that have it.
responses.PROVIDERS = { "openai", "azure", "xai", "bedrock", "deepseek", "openrouter", "groq",
    "vllm", "lmstudio" }

--- Options that it does not know, and why they are not sent.
responses.DROPS = {}
for _, option in ipairs { "seed", "stop", "frequency_penalty", "presence_penalty", "top_k",
    "min_p" } do
    responses.DROPS[option] = "the Responses API does not know it"
end

function responses.image(media_type, data)
    return { type = "input_image", image_url = ("data:%s;base64,%s"):format(media_type, data) }
end

---------------------------------------------------------------------------------------------------
-- Requests

-- Parts of a message in the form of chat completions.
local function build_content(content, role)
    if type(content) ~= "table" then return content end
    local parts = {}
    for i, part in ipairs(content) do
        parts[i] = part
        if part.type == "text" then
            parts[i] = { type = role == "assistant" and "output_text" or "input_text",
                text = part.text }
        elseif part.type == "image_url" then
            parts[i] = { type = "input_image", image_url = read.text(part, "image_url", "url") }
        end
    end
    return parts
end

local ITEMS = { message = true, reasoning = true, function_call = true }

-- Adds the items of a message: an earlier reply is returned as it came.
local function add_message(items, message)
    local kind = message.role == "assistant" and read.text(message.blocks, 1, "type")
    if ITEMS[kind] then
        table.move(message.blocks, 1, #message.blocks, #items + 1, items)
        return
    elseif message.role == "tool" then
        items[#items + 1] = { type = "function_call_output", call_id = message.tool_call_id,
            output = build_content(message.content, "user") }
        return
    end
    if message.content ~= nil and message.content ~= "" then
        items[#items + 1] = { role = message.role,
            content = build_content(message.content, message.role) }
    end
    for _, call in ipairs(message.tool_calls or {}) do
        items[#items + 1] = { type = "function_call", call_id = call.id, name = call.name,
            arguments = read.arguments_json(call) }
    end
end

function responses.build(call)
    local options, items = call.options, {}
    for _, message in ipairs(call.messages) do add_message(items, message) end
    local choice, include = options.tool_choice, { "reasoning.encrypted_content" }
    local named = call.format and schema.named(call.format)
    if named then named.type = "json_schema" end
    local body = { model = call.model, input = json.array(items), instructions = call.system,
        max_output_tokens = options.max_output_tokens, temperature = options.temperature,
        top_p = options.top_p, store = false,
        reasoning = options.reasoning_effort and { effort = options.reasoning_effort },
        text = call.format and { format = named or { type = "json_object" } },
        tools = options.tools and schema.tools(options.tools, function(one, parameters)
            return { type = "function", name = one.name, description = one.description,
                strict = one.strict, parameters = parameters }
        end) }
    if options.logprobs then
        include[2] = "message.output_text.logprobs"
        body.top_logprobs = type(options.logprobs) == "number" and options.logprobs or nil
    end
    body.include = include
    if type(choice) == "table" and choice.name then
        choice = { type = "function", name = choice.name }
    end
    body.tool_choice = choice
    return body
end

function responses.build_stream(body) body.stream = true end

---------------------------------------------------------------------------------------------------
-- Replies

local function usage_of(usage)
    if type(usage) ~= "table" then return nil end
    return { input_tokens = read.count(usage, "input_tokens"),
        output_tokens = read.count(usage, "output_tokens"),
        total_tokens = read.count(usage, "total_tokens"),
        cache_read_tokens = read.count(usage, "input_tokens_details", "cached_tokens"),
        cache_write_tokens = read.count(usage, "input_tokens_details", "cache_write_tokens"),
        reasoning_tokens = read.count(usage, "output_tokens_details", "reasoning_tokens"),
        implausible = tally.exceeds(usage) or nil }
end

local INCOMPLETE = { max_output_tokens = "length", content_filter = "content_filter" }

local function sample_of(reply)
    local items, sample = read.list(reply, "output"), {}
    for _, item in ipairs(items) do
        local kind = read.text(item, "type")
        for _, part in ipairs(kind == "message" and read.list(item, "content") or {}) do
            stream.append(sample, "text", read.text(part, "text"))
            stream.append(sample, "refusal", read.text(part, "refusal"))
            for _, token in ipairs(read.logprobs(read.at(part, "logprobs")) or {}) do
                stream.append(sample, "logprobs", token)
            end
        end
        for _, part in ipairs(kind == "reasoning" and read.list(item, "summary") or {}) do
            stream.append(sample, "reasoning", read.text(part, "text"))
        end
        if kind == "function_call" then
            stream.append(sample, "tool_calls", read.tool_call(read.text(item, "call_id"),
                read.text(item, "name"), read.at(item, "arguments")))
        end
    end
    local why = read.text(reply, "incomplete_details", "reason")
    sample.blocks = items[1] and items or nil
    sample.finish_reason = why and (INCOMPLETE[why] or why) or sample.tool_calls and "tool_calls"
        or "stop"
    return stream.joined(sample)
end

function responses.parse(reply)
    if type(read.at(reply, "output")) ~= "table" then return nil, "the reply has no output" end
    return { samples = { sample_of(reply) }, usage = usage_of(read.at(reply, "usage")),
        model = read.text(reply, "model"), id = read.text(reply, "id") }
end

---------------------------------------------------------------------------------------------------
-- Streams: deltas by type; the last event has the whole reply.

local LAST = { ["response.completed"] = true, ["response.incomplete"] = true }
local REASONING = { ["response.reasoning_summary_text.delta"] = true,
    ["response.reasoning_text.delta"] = true }

local Reader = stream.class(function(self, event)
    local kind, delta = read.text(event, "type"), read.text(event, "delta")
    if LAST[kind] then
        self.last = read.at(event, "response")
    elseif kind == "response.output_text.delta" and delta then
        self:add(1, delta, nil, read.logprobs(read.at(event, "logprobs")))
    elseif REASONING[kind] and delta then
        self:add(1, nil, delta)
    end
end)

responses.reader = Reader.new

function Reader:finish()
    local draft = self.last and responses.parse(self.last)
    if draft then return draft, true end
    return stream.finish(self)
end

---A provider that asks through this API.
---@param provider ponder.model.Provider of chat completions
function responses.of(provider)
    local own = {}
    for field, value in pairs(responses) do own[field] = value end
    return setmetatable(own, { __index = provider })
end

return responses
