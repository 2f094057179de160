--- Ollama's own API, /api/chat. (Its /v1 is served by `openai` with a base_url.)
--- See ponder.model.provider for what each field is for.

local json = require "ponder.json"
local read = require "ponder.model.read"
local schema = require "ponder.model.schema"
local stream = require "ponder.model.stream"
local tally = require "ponder.base.tally"

local get, find = json.get, string.find

---@type ponder.model.Provider
local ollama = {
    name = "ollama",
    stream = "ndjson",
    path = "/api/chat",
    models_path = "/api/tags",
    looks_like = { "^[%w.]+:%d+%.?%d*b$" },
}

local DEFAULT_PORT = { http = "80", https = "443" }

--- The URL for OLLAMA_HOST, as Ollama's own client interprets it.
---
---     gpu-box              http://gpu-box:11434
---     0.0.0.0:8000         http://127.0.0.1:8000        0.0.0.0 is an address to listen on
---     https://x.example    https://x.example:443
---     ::1, [::1]:8000      http://[::1]:11434, http://[::1]:8000
---
function ollama.url_of_host(host)
    host = host:match("^[%s\"']*(.-)[%s\"']*$")
    local scheme, rest = host:match("^(%a[%w+.-]*)://(.*)$")
    rest = rest or host
    local authority, path = rest:match("^([^/]*)(.*)$")
    local userinfo, address = authority:match("^(.*@)(.*)$")
    address = address or authority
    local bare, port = address:match("^%[(.-)%]:?(%d*)$")
    if not bare and select(2, address:gsub(":", "")) > 1 then bare = address end
    if not bare then bare, port = address:match("^(.-):?(%d*)$") end
    if not address:find(":", 1, true) then bare, port = address, "" end
    if bare == "" or bare == "0.0.0.0" then bare = "127.0.0.1" end
    if bare == "::" then bare = "::1" end
    if bare:find(":", 1, true) then bare = "[" .. bare .. "]" end
    if not port or port == "" then port = DEFAULT_PORT[scheme] or "11434" end
    return (scheme or "http") .. "://" .. (userinfo or "") .. bare .. ":" .. port
        .. path:gsub("/+$", "")
end

--- What it refuses (ponder.model.params).
ollama.rules = { { option = "tool_choice", why = "Ollama does not accept tool_choice" } }

---------------------------------------------------------------------------------------------------
-- Requests

function ollama.image(_, data) return { type = "image", data = data } end

-- Splits a message's content into its text and its images in base64.
local function split_parts(content)
    if type(content) ~= "table" then return content, nil end
    local texts, images = {}, {}
    for _, part in ipairs(content) do
        texts[#texts + 1] = read.text(part, "text")
        images[#images + 1] = read.text(part, "data")
    end
    return table.concat(texts), #images > 0 and images or nil
end

local function build_message(message)
    local content, images = split_parts(message.content)
    local out = { role = message.role, content = content or "",
        images = message.images or images, tool_name = message.name }
    if message.tool_calls then
        out.tool_calls = {}
        for i, call in ipairs(message.tool_calls) do
            out.tool_calls[i] = { ["function"] = { name = call.name,
                arguments = read.arguments(call) } }
        end
    end
    return out
end

-- gpt-oss has levels; other models have only on and off.
local function build_think(effort, model)
    if effort == nil then return nil end
    if effort == "none" then return false end
    if not find(model, "gpt-oss", 1, true) then return true end
    return (effort == "low" or effort == "medium") and effort or "high"
end

function ollama.build(call)
    local options, messages = call.options, {}
    if call.system then messages[1] = build_message { role = "system", content = call.system } end
    for _, message in ipairs(call.messages) do messages[#messages + 1] = build_message(message) end
    local settings = { temperature = options.temperature, top_p = options.top_p,
        top_k = options.top_k, min_p = options.min_p, frequency_penalty = options.frequency_penalty,
        presence_penalty = options.presence_penalty,
        num_predict = options.max_output_tokens, seed = options.seed,
        stop = type(options.stop) == "string" and { options.stop } or options.stop }
    local logprobs = options.logprobs
    return {
        model = call.model,
        messages = messages,
        stream = false, -- the default is true
        options = next(settings) and settings or nil,
        think = build_think(options.reasoning_effort, call.model),
        format = call.format and (call.format.schema or "json"),
        logprobs = logprobs and true or nil,
        top_logprobs = type(logprobs) == "number" and logprobs or nil,
        tools = options.tools and schema.tools(options.tools, schema.as_function),
    }
end

function ollama.build_stream(body) body.stream = true end

---------------------------------------------------------------------------------------------------
-- Replies: one object, or one per line; the last line has done = true and the counts.

local function usage_of(reply)
    local input, output = read.count(reply, "prompt_eval_count"), read.count(reply, "eval_count")
    local implausible = tally.exceeds { reply.prompt_eval_count, reply.eval_count } or nil
    return (input or output or implausible)
        and { input_tokens = input, output_tokens = output, implausible = implausible } or nil
end

local function take(self, event)
    local message = read.list(event, "message")
    local sample = self:sample(1)
    self.model = self.model or read.text(event, "model")
    self:add(1, read.text(message, "content"), read.text(message, "thinking"),
        read.logprobs(read.at(event, "logprobs")))
    for _, call in ipairs(read.tool_calls(message) or {}) do
        stream.append(sample, "tool_calls", call)
    end
    if read.at(event, "done") == true then
        self.usage = usage_of(event)
        sample.finish_reason = sample.tool_calls and "tool_calls"
            or read.text(event, "done_reason") or "stop"
    end
    self.into = self.model and sample
end

local Reader = stream.class(take, function(data)
    local text = get(data, "message", "content")
    if type(text) ~= "string" or text == "" or find(data, "thinking", 1, true)
        or find(data, "_calls", 1, true) or find(data, "logprobs", 1, true) then
        return nil -- it may have more
    end
    return get(data, "done") == false and text
end)

ollama.reader = Reader.new

local function ignore() end

function ollama.parse(reply)
    if type(read.at(reply, "message")) ~= "table" then return nil, "the reply has no message" end
    local reader = Reader.new(nil, ignore)
    take(reader, reply)
    return (reader:finish())
end

function ollama.parse_models(reply)
    local models = {}
    for _, model in ipairs(read.list(reply, "models")) do
        models[#models + 1] = { id = read.text(model, "name") or read.text(model, "model"),
            name = read.text(model, "details", "parameter_size") }
    end
    return models
end

return ollama
