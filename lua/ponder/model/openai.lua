--- OpenAI chat completions, and all compatible servers: vLLM, llama.cpp, LM Studio, OpenRouter,
--- Ollama's /v1. ponder.model.provider documents the fields.

local json = require "ponder.json"
local read = require "ponder.model.read"
local schema = require "ponder.model.schema"
local stream = require "ponder.model.stream"
local tally = require "ponder.base.tally"

local get, null, find = json.get, json.null, string.find

---@type ponder.model.Provider
local openai = {
    name = "openai",
    stream = "sse",
    path = "/chat/completions",
    models_path = "/models",
    looks_like = { "^gpt%-%d", "^o%d", "^chatgpt%-", "^codex%-" },
}

--- Whether a call asks for reasoning: without it, models from gpt-5.1 on accept more options.
function openai.reasons(options) return options.reasoning_effort ~= "none" end

-- "openai/o3-mini" is how OpenRouter names o3-mini.
local function does_reason(name)
    name = name:match "^openai/(.*)" or name
    return not name:find "^gpt%-[%d.]+%-chat" and (name:find "^o%d" or name:find "^gpt%-[5-9]"
        or name:find "^codex%-") ~= nil
end

local function plain(name)
    name = name:match "^openai/(.*)" or name
    return (name:find "^gpt%-[34]" or name:find "^chatgpt%-4" or name:find "^gpt%-[%d.]+%-chat")
        ~= nil
end

local REASONING = "reasoning models do not accept %s"

--- What its models refuse (ponder.model.params).
openai.rules = {
    { option = "max_output_tokens", model = does_reason, action = "rename",
      to = "max_completion_tokens" },
    { option = "n", model = "^o1", action = "split" },
    { option = "stop", model = does_reason, why = REASONING:format "stop sequences" },
    { option = { "temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs" },
      model = does_reason, when = openai.reasons, why = REASONING },
    { option = "reasoning_effort", model = plain, why = "this model does not reason" },
    -- Other servers may know more options.
    { option = { "top_k", "min_p" }, when = function(_, target)
          return target.name == "openai" and target.is_home
      end, why = "OpenAI does not know this option" },
}

function openai.image(media_type, data)
    return { type = "image_url",
        image_url = { url = ("data:%s;base64,%s"):format(media_type, data) } }
end

local NONE = {}

--- The mark of a part that the cache of prompts keeps: from gpt-5.6 on only marked parts are kept.
function openai.mark(target, is_long)
    local version = tonumber(target.model:match "^gpt%-(%d+%.?%d*)")
    if not version or version < 5.55
        or target.name ~= "azure" and not (target.name == "openai" and target.is_home) then
        return nil
    end
    return { prompt_cache_breakpoint = { mode = "explicit", ttl = is_long and "12h" or nil } }
end

local function build_message(message, row)
    local out = {}
    for field, value in pairs(message) do out[field] = value end
    out.blocks, out.is_error = nil, nil -- for other providers
    for _, field in ipairs(row.without or NONE) do out[field] = nil end
    if message.tool_calls then
        out.tool_calls = {}
        for i, call in ipairs(message.tool_calls) do
            out.tool_calls[i] = call["function"] and call or {
                id = call.id, type = "function",
                ["function"] = { name = call.name, arguments = read.arguments_json(call) },
            }
        end
    end
    return out
end

-- Without a schema, OpenAI requires the word JSON in a message.
local function says_json(messages)
    for _, message in ipairs(messages) do
        local content = message.content
        if type(content) == "string" and content:lower():find("json", 1, true) then return true end
    end
    return false
end

local function build_messages(call, row)
    local messages, format = {}, call.format
    if call.system then messages[1] = { role = "system", content = call.system } end
    for _, message in ipairs(call.messages) do
        messages[#messages + 1] = build_message(message, row)
    end
    if format and (row.json_only or not format.schema and not says_json(messages)) then
        table.insert(messages, 1, { role = "system", content = schema.instruction(format) })
    end
    return messages
end

-- Options with the same name and meaning in the API.
local SAME = { temperature = true, top_p = true, top_k = true, min_p = true, stop = true,
    seed = true, frequency_penalty = true, presence_penalty = true, max_completion_tokens = true,
    reasoning_effort = true }

function openai.build(call)
    local row = call.target.provider.row or NONE -- of ponder.model.endpoints
    local options, renames = call.options, row.renames or NONE
    local body = { model = call.model, messages = build_messages(call, row) }
    for option, value in pairs(options) do
        if SAME[option] then body[renames[option] or option] = value end
    end
    if options.reasoning_effort and row.effort then
        body.reasoning_effort = nil
        row.effort(body, options.reasoning_effort)
    end
    body.max_tokens = options.max_output_tokens
    if call.n > 1 then body.n = call.n end
    if call.format then
        local named = not row.json_only and schema.named(call.format) or nil
        body.response_format = named and { type = "json_schema", json_schema = named }
            or { type = "json_object" }
    end
    if options.logprobs then
        body.logprobs = true
        body.top_logprobs = type(options.logprobs) == "number" and options.logprobs or nil
    end
    if call.prefill and row.prefill then row.prefill(body, call.prefill) end
    if options.reasoning_tokens then body.reasoning = { max_tokens = options.reasoning_tokens } end
    body.tools = options.tools and schema.tools(options.tools, schema.as_function)
    local choice = options.tool_choice
    body.tool_choice = type(choice) == "table" and choice.name
        and { type = "function", ["function"] = { name = choice.name } } or choice
    return body
end

--- Makes a body ask for a stream. Without include_usage a stream has no token counts.
function openai.build_stream(body)
    body.stream = true
    body.stream_options = { include_usage = true }
end

local FINISH = { function_call = "tool_calls" }

-- xAI's completion_tokens do not include reasoning, but the total does.
local function usage_of(usage)
    if type(usage) ~= "table" then return nil end
    local input = read.count(usage, "prompt_tokens")
    local output = read.count(usage, "completion_tokens")
    local total = read.count(usage, "total_tokens")
    local prompt_details = read.at(usage, "prompt_tokens_details")
    local reasoning = read.count(usage, "completion_tokens_details", "reasoning_tokens")
    if input and output and total and reasoning and total == input + output + reasoning then
        output = output + reasoning
    end
    return {
        input_tokens = input, output_tokens = output, total_tokens = total,
        reasoning_tokens = reasoning, implausible = tally.exceeds(usage) or nil,
        cache_read_tokens = prompt_details and read.count(prompt_details, "cached_tokens")
            or read.count(usage, "prompt_cache_hit_tokens"), -- DeepSeek
        cache_write_tokens = prompt_details and read.count(prompt_details, "cache_write_tokens"),
    }
end

local function reasoning_of(message)
    return read.text(message, "reasoning_content") or read.text(message, "reasoning")
end

-- Some servers send content as a list of parts.
local function content_of(message)
    local content = read.at(message, "content")
    if type(content) ~= "table" then return read.text(content) end
    local pieces = {}
    for _, part in ipairs(content) do pieces[#pieces + 1] = read.text(part, "text") end
    return pieces[1] and table.concat(pieces)
end

local function finish_of(choice, sample)
    local finish = read.text(choice, "finish_reason")
    sample.finish_reason = FINISH[finish] or finish or sample.finish_reason
    if type(choice) == "table" and choice.stop_reason ~= nil then
        -- vLLM: which sequence stopped it, null if none
        sample.stop_sequence = read.text(choice, "stop_reason") or false
    end
    return sample
end

function openai.parse(reply)
    local samples = {}
    for i, choice in ipairs(read.list(reply, "choices")) do
        local message = read.list(choice, "message")
        samples[i] = finish_of(choice, { text = content_of(message),
            reasoning = reasoning_of(message), refusal = read.text(message, "refusal"),
            tool_calls = message.tool_calls and read.tool_calls(message),
            logprobs = read.logprobs(read.at(choice, "logprobs", "content")) })
    end
    if #samples == 0 then return nil, "the reply has no choices" end
    return { samples = samples, usage = usage_of(reply.usage),
        model = read.text(reply, "model"), id = read.text(reply, "id") }
end

---------------------------------------------------------------------------------------------------
-- Streams

-- The counts are totals so far, and an event may have only some.
local function later_usage(before, usage)
    if not (before and usage) then return usage or before end
    before.total_tokens = nil
    for field, count in pairs(usage) do before[field] = count end
    return before
end

local function take_choice(self, choice)
    local number = (read.count(choice, "index") or 0) + 1
    if number > self.n then return nil end
    local delta, sample = read.list(choice, "delta"), self:sample(number)
    self:add(number, content_of(delta), reasoning_of(delta),
        read.logprobs(read.at(choice, "logprobs", "content")))
    stream.append(sample, "refusal", read.text(delta, "refusal"))
    for _, piece in ipairs(read.list(delta, "tool_calls")) do
        local problem = stream.merge_call(sample, piece)
        if problem then return problem end
    end
    finish_of(choice, sample)
end

local function take(self, event)
    self.model = self.model or read.text(event, "model")
    self.id = self.id or read.text(event, "id")
    self.usage = later_usage(self.usage, usage_of(read.at(event, "usage")))
    for _, choice in ipairs(read.list(event, "choices")) do
        local problem = take_choice(self, choice)
        if problem then return problem end
    end
    self.into = self.simple and self.samples[1]
end

local Reader = stream.class(take, function(data)
    local text = get(data, "choices", 1, "delta", "content")
    if type(text) ~= "string" or text == "" or find(data, "_calls", 1, true)
        or find(data, "reasoning", 1, true) or find(data, "refusal", 1, true)
        or find(data, 'usage":{', 1, true) then
        return nil -- it may have more
    end
    if find(data, 'finish_reason":null', 1, true) then return text end
    local finish = get(data, "choices", 1, "finish_reason")
    return (finish == nil or finish == null) and not find(data, "usage", 1, true) and text
end)

function openai.reader(call, emit)
    local reader = Reader.new(call, emit)
    -- If a delta can have more than one piece of text, each event is decoded completely.
    reader.simple = call.n == 1 and not call.options.logprobs
    return reader
end

---------------------------------------------------------------------------------------------------
-- Batches: a file of lines, then a batch of it

---@type ponder.model.BatchForm
openai.batch = { at = "/batches", after = "after", max_lines = 50000, max_bytes = 200000000,
    paths = { ["/chat/completions"] = true, ["/responses"] = true, ["/embeddings"] = true } }

function openai.batch.line(id, path, body)
    return ('{"custom_id":"%s","method":"POST","url":"/v1%s","body":'):format(id, path) .. body
        .. "}"
end

function openai.batch.upload(ask, text, key)
    local mark = "lines-of-" .. key
    local part = "--" .. mark .. '\r\nContent-Disposition: form-data; name="'
    local decoded, problem = ask { path = "/files", method = "POST",
        headers = { ["content-type"] = "multipart/form-data; boundary=" .. mark },
        body = table.concat { part, 'purpose"\r\n\r\nbatch\r\n', part, 'file"; filename="ponder-',
            key, '.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n', text, "\r\n--", mark,
            "--\r\n" } }
    return read.text(decoded, "id"), problem
end

function openai.batch.create(file, key, path)
    return json.encode { input_file_id = file, endpoint = "/v1" .. path,
        completion_window = "24h", metadata = { ponder = key } }
end

local OVER = { completed = true, failed = true, expired = true, cancelled = true }

function openai.batch.status(batch)
    local status, results = read.text(batch, "status"), {}
    for _, field in ipairs { "output_file_id", "error_file_id" } do
        local file = read.text(batch, field)
        results[#results + 1] = file and "/files/" .. file .. "/content"
    end
    local one = read.list(batch, "errors", "data", 1)
    local line, code = read.count(one, "line"), nil
    if status == "failed" then
        code = read.text(one, "code") == "token_limit_exceeded" and "QUOTA" or "BAD_REQUEST"
    end
    return { id = read.text(batch, "id"), is_over = OVER[status], results = results, code = code,
        is_cut = status ~= "completed", key = read.text(batch, "metadata", "ponder"),
        created = read.count(batch, "created_at"), count = read.count(batch, "request_counts",
            "total"), message = code and ("the batch was refused: %s%s"):format(
            read.text(one, "message") or read.text(one, "code") or "no reason is given",
            line and (" (line %d)"):format(line) or "") }
end

function openai.batch.result(line)
    local reply = read.at(line, "response")
    if type(reply) == "table" then
        return { status = read.count(reply, "status_code") or 200,
            body = read.at(reply, "body") or reply }
    end
    local code = read.text(line, "error", "code")
    return { code = (code == "batch_expired" or code == "batch_cancelled") and "EXPIRED"
        or "SERVER", message = read.text(line, "error", "message") or code or "no reply" }
end

--- The models in a list: {id, name?, created?}.
function openai.parse_models(reply)
    local models = {}
    for _, model in ipairs(read.list(reply, "data")) do
        models[#models + 1] = { id = read.text(model, "id"), name = read.text(model, "name"),
            created = read.count(model, "created"), shutdown = read.text(model, "shutdown_date") }
    end
    return models
end

return openai
