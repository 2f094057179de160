--- The provider for Anthropic's messages API. See ponder.model.provider for the fields.

local json = require "ponder.json"
local read = require "ponder.model.read"
local options = require "ponder.base.options"
local retry = require "ponder.model.retry"
local schema = require "ponder.model.schema"
local stream = require "ponder.model.stream"
local tally = require "ponder.base.tally"

local get = json.get

---@type ponder.model.Provider
local anthropic = {
    name = "anthropic",
    stream = "sse",
    path = "/v1/messages",
    models_path = "/v1/models?limit=1000",
    looks_like = { "^claude%-" },
}

--- The family and version in the name of a Claude model: claude-opus-4-7-20260416 is "opus", 4.7;
--- claude-3-5-haiku-latest is "haiku", 3.5.
---@return string? family nil if the name does not have this form
---@return number? version allow for rounding when comparing
function anthropic.version_of(name)
    name = name:match "claude.*" or ""
    local family, major, minor = name:match "^claude%-(%a+)%-(%d+)[-.]?(%d?%d?)%f[%D]"
    if not family then
        major, minor, family = name:match "^claude%-(%d+)[-.]?(%d?)%-(%a+)"
    end
    if not family then return nil end
    return family, tonumber(major) + (tonumber(minor) or 0) / 10
end

-- A test of a model's name: whether it is of this version or a later one.
local function from(version)
    return function(name)
        local family, its = anthropic.version_of(name)
        return family ~= nil and its > version - 0.05
    end
end

local SAMPLING = { "temperature", "top_p", "top_k" }

--- What its models refuse (ponder.model.params).
anthropic.rules = {
    { option = SAMPLING, why = "this Claude model does not accept sampling parameters",
      model = function(name)
          local family, version = anthropic.version_of(name)
          return family ~= nil and (version > 4.95 or family == "opus" and version > 4.65)
      end },
    { option = SAMPLING, why = "extended thinking does not accept %s", when = function(its)
          return its.reasoning_effort ~= nil and its.reasoning_effort ~= "none"
      end },
    { option = "top_p", model = from(4.1), why = "temperature and top_p are mutually exclusive",
      when = function(its) return its.temperature ~= nil end },
    { option = "reasoning_effort", model = function(name) return not from(3.7)(name) end,
      why = "this model does not reason" },
    { option = "reasoning_effort", why = "this model always thinks", model = function(name)
          local family, version = anthropic.version_of(name)
          return family == "fable" or family == "mythos" or (version or 0) > 5.45
      end, when = function(its) return its.reasoning_effort == "none" end },
    { option = { "seed", "logprobs", "min_p", "frequency_penalty", "presence_penalty" },
      why = "Anthropic does not accept %s" },
    { option = "reasoning_tokens", model = from(4.6),
      why = "this model decides how long it thinks" },
}

---------------------------------------------------------------------------------------------------
-- Requests

--- The mark of a part that the cache of prompts keeps.
function anthropic.mark(_, is_long)
    return { cache_control = { type = "ephemeral", ttl = is_long and "1h" or nil } }
end

--- Models before 4.6 continue a reply that the request begins.
function anthropic.prefills(target)
    local family, version = anthropic.version_of(target.model)
    return family ~= nil and version < 4.55
end

function anthropic.image(media_type, data)
    return { type = "image", source = { type = "base64", media_type = media_type, data = data } }
end

local function tool_result(message)
    return { type = "tool_result", tool_use_id = message.tool_call_id, content = message.content,
        is_error = message.is_error }
end

local BLOCKS = { text = true, thinking = true, redacted_thinking = true, tool_use = true,
    server_tool_use = true }

-- `blocks` is the unchanged content of an earlier reply: thinking must be sent back unchanged.
local function assistant_content(message)
    if BLOCKS[read.text(message.blocks, 1, "type")] then return message.blocks end
    if not message.tool_calls then return message.content end
    local blocks = {}
    if type(message.content) == "string" and message.content ~= "" then
        blocks[1] = { type = "text", text = message.content }
    end
    for _, call in ipairs(message.tool_calls) do
        blocks[#blocks + 1] = { type = "tool_use", id = call.id, name = call.name,
            input = read.arguments(call) }
    end
    return blocks
end

-- The system prompt is separate from the messages, and the results of one round of tools form one
-- user message.
local function build_messages(call)
    local messages, system = {}, { call.system }
    for _, message in ipairs(call.messages) do
        local last = messages[#messages]
        if message.role == "system" or message.role == "developer" then
            system[#system + 1] = message.content
        elseif message.role ~= "tool" then
            local content = message.content
            if message.role == "assistant" then content = assistant_content(message) end
            messages[#messages + 1] = { role = message.role, content = content }
        elseif last and last.tool_results then
            table.insert(last.content, tool_result(message))
        else
            messages[#messages + 1] = { role = "user", content = { tool_result(message) },
                tool_results = true }
        end
    end
    for _, message in ipairs(messages) do message.tool_results = nil end
    if call.prefill then
        messages[#messages + 1] = { role = "assistant", content = call.prefill }
    end
    return messages, system
end

-- Parts of a system prompt are texts or lists of blocks (which may have cache_control).
local function build_system(parts)
    if #parts <= 1 then return parts[1] end -- a text, or blocks
    local blocks = {}
    for _, part in ipairs(parts) do
        if type(part) == "string" then part = { { type = "text", text = part } } end
        table.move(part, 1, #part, #blocks + 1, blocks)
    end
    return blocks
end

local BUDGETS = { minimal = 1024, low = 2048, medium = 8192, high = 24576, xhigh = 32768,
    max = 32768 }
local EFFORT = { minimal = "low" }

-- Thinking and its effort: adaptive since 4.6, a token budget before; Opus 4.5 has both.
local function build_thinking(effort, version, max_tokens, tokens)
    if tokens then
        tokens = math.max(tokens, BUDGETS.minimal)
        return { type = "enabled", budget_tokens = tokens }, nil, max_tokens + tokens
    end
    if not effort then return nil end
    if effort == "none" then return version > 4.95 and { type = "disabled" } or nil end
    if version > 4.55 then return { type = "adaptive" }, EFFORT[effort] or effort end
    local budget = BUDGETS[effort] or BUDGETS.medium
    return { type = "enabled", budget_tokens = budget }, nil, max_tokens + budget
end

local CHOICES = { auto = "auto", required = "any", any = "any", none = "none" }

function anthropic.build(call)
    local its = call.options
    local _, version = anthropic.version_of(call.model)
    version = version or 4
    -- max_tokens is required: the default leaves room for a long answer within the model's limit.
    local max_tokens = its.max_output_tokens
        or version > 4.95 and 16384 or version > 3.4 and 8192 or 4096
    local thinking, effort, with_budget =
        build_thinking(its.reasoning_effort, version, max_tokens, its.reasoning_tokens)
    local messages, system = build_messages(call)
    -- A schema is enforced since 4.5 (Opus: 4.1); else the prompt asks for JSON.
    local enforced = call.format and call.format.schema ~= nil and version > 4.05
    if call.format and not enforced then system[#system + 1] = schema.instruction(call.format) end
    local stop, choice = its.stop, its.tool_choice
    if type(choice) ~= "table" then
        choice = choice and (CHOICES[choice] and { type = CHOICES[choice] }
            or { type = "tool", name = choice })
    elseif not choice.type then
        choice = { type = "tool", name = choice.name }
    end
    return {
        model = call.model,
        messages = messages,
        system = build_system(system),
        max_tokens = with_budget or max_tokens,
        temperature = its.temperature,
        top_p = its.top_p,
        top_k = its.top_k,
        stop_sequences = type(stop) == "string" and { stop } or stop,
        thinking = thinking,
        output_config = (effort or enforced) and {
            effort = effort,
            format = enforced and { type = "json_schema",
                schema = schema.closed(call.format.schema) } or nil,
        } or nil,
        tools = its.tools and schema.tools(its.tools, function(one, parameters)
            return { name = one.name, description = one.description, input_schema = parameters }
        end),
        tool_choice = choice,
    }
end

function anthropic.build_stream(body) body.stream = true end

---------------------------------------------------------------------------------------------------
-- Replies

local FINISH = {
    end_turn = "stop", stop_sequence = "stop", max_tokens = "length", tool_use = "tool_calls",
    refusal = "content_filter", model_context_window_exceeded = "length",
}

-- Anthropic's input_tokens excludes tokens read from or written to the cache; ours includes them.
local function usage_of(usage)
    if not usage then return nil end
    local cached = read.count(usage, "cache_read_input_tokens")
    local written = read.count(usage, "cache_creation_input_tokens")
    local input = read.count(usage, "input_tokens")
    return {
        input_tokens = input and input + (cached or 0) + (written or 0),
        output_tokens = read.count(usage, "output_tokens"),
        reasoning_tokens = read.count(usage, "output_tokens_details", "thinking_tokens"),
        cache_read_tokens = cached, cache_write_tokens = written,
        cache_write_1h_tokens = read.count(usage, "cache_creation", "ephemeral_1h_input_tokens"),
        implausible = tally.exceeds(usage) or nil,
    }
end

local function sample_of(blocks, stop_reason)
    local sample = { finish_reason = FINISH[stop_reason] or stop_reason,
        blocks = blocks[1] and blocks }
    for _, block in ipairs(blocks) do
        local kind = read.text(block, "type")
        if kind == "text" then
            stream.append(sample, "text", read.text(block, "text"))
        elseif kind == "thinking" then
            stream.append(sample, "reasoning", read.text(block, "thinking"))
        elseif kind == "tool_use" then
            stream.append(sample, "tool_calls", read.tool_call(read.text(block, "id"),
                read.text(block, "name"), read.at(block, "input")))
        end
    end
    return stream.joined(sample)
end

function anthropic.parse(reply)
    if type(read.at(reply, "content")) ~= "table" then
        return nil, "the reply has no content"
    end
    return { samples = { sample_of(reply.content, read.text(reply, "stop_reason")) },
        usage = usage_of(read.at(reply, "usage")),
        model = read.text(reply, "model"), id = read.text(reply, "id") }
end

---------------------------------------------------------------------------------------------------
-- Streams: message_start, then for each block content_block_start, deltas, content_block_stop,
-- then message_delta with the stop reason and the tokens so far, then message_stop.

-- For each kind of delta, the field of a block that it adds to, and the kind passed to on_delta.
local DELTAS = {
    text_delta = { from = "text", to = "text", kind = "text" },
    thinking_delta = { from = "thinking", to = "thinking", kind = "reasoning" },
    signature_delta = { from = "signature", to = "signature" },
    input_json_delta = { from = "partial_json", to = "input" },
}

-- The counts are totals so far, not increments.
local function update_usage(self, usage)
    for field, value in pairs(usage) do
        if value ~= json.null then self.counts[field] = value end
    end
end

local on = {}

function on.message_start(self, event)
    self.model = read.text(event, "message", "model")
    self.id = read.text(event, "message", "id")
    update_usage(self, read.list(event, "message", "usage"))
end

-- Blocks follow one another; servers that answer with several tools at once may interleave them.
function on.content_block_start(self, event)
    local start, index = read.list(event, "content_block"), read.count(event, "index")
    local block = { start = options.merge({}, start), pieces = {} }
    self.interleaved = self.interleaved or self.open
    self.open, self.last = true, block
    self.blocks[#self.blocks + 1] = block
    if index then self.places[index] = block end
    local text, reasoning = read.text(start, "text"), read.text(start, "thinking")
    if text then self.emit(text, "text", 1) end
    if reasoning then self.emit(reasoning, "reasoning", 1) end
end

function on.content_block_stop(self) self.open = false end

function on.content_block_delta(self, event)
    local delta = read.list(event, "delta")
    local rule = DELTAS[read.text(delta, "type")]
    local index = self.interleaved and read.count(event, "index")
    local block = index and self.places[index] or self.last
    local text = rule and read.text(delta, rule.from)
    if not block or not text then return end
    stream.append(block.pieces, rule.to, text)
    if rule.kind then self.emit(text, rule.kind, 1) end
end

function on.message_delta(self, event)
    self.stop_reason = read.text(event, "delta", "stop_reason") or self.stop_reason
    update_usage(self, read.list(event, "usage"))
end

function on.message_stop(self) self.stopped = true end

local Reader = stream.class(function(self, event, event_name)
    local handle = on[read.text(event, "type") or event_name]
    if handle then handle(self, event) end
    self.into = self.open and not self.interleaved and self.last.pieces
end, function(data, event_name)
    if event_name ~= "content_block_delta" or get(data, "delta", "type") ~= "text_delta" then
        return nil
    end
    local text = get(data, "delta", "text")
    return type(text) == "string" and text ~= "" and text
end)

function anthropic.reader(call, emit)
    return options.merge(Reader.new(call, emit), { blocks = {}, places = {}, counts = {} })
end

function Reader:finish()
    for i, block in ipairs(self.blocks) do
        for field, pieces in pairs(block.pieces) do
            local text = table.concat(pieces)
            block.start[field] = field == "input" and (json.decode(text) or text)
                or (read.text(block.start, field) or "") .. text
        end
        self.blocks[i] = block.start
    end
    return { samples = { sample_of(self.blocks, self.stop_reason) },
        usage = usage_of(next(self.counts) and self.counts), model = self.model, id = self.id },
        self.stopped == true or self.stop_reason ~= nil
end

---@type ponder.model.BatchForm
anthropic.batch = { at = "/v1/messages/batches", after = "after_id", max_lines = 100000,
    max_bytes = 256000000, paths = { ["/v1/messages"] = true } }

function anthropic.batch.line(id, _, body)
    return ('{"custom_id":"%s","params":'):format(id) .. body .. "}"
end

function anthropic.batch.create(lines) return '{"requests":[' .. lines .. "]}" end

function anthropic.batch.status(batch)
    local id, created, count = read.text(batch, "id"), read.text(batch, "created_at"), 0
    for _, one in pairs(read.list(batch, "request_counts")) do
        count = count + (tally.count(one) or 0)
    end
    return { id = id, is_over = read.text(batch, "processing_status") == "ended",
        results = { ("%s/%s/results"):format(anthropic.batch.at, id) }, key = false, count = count,
        created = created and retry.parse_date(created),
        is_cut = (read.count(batch, "request_counts", "canceled") or 0) > 0 }
end

function anthropic.batch.result(line)
    local kind, body = read.text(line, "result", "type"), read.at(line, "result", "message")
    if kind == "succeeded" and body or kind == "errored" then
        return { status = 200, body = body or read.list(line, "result", "error") }
    end
    return { code = "EXPIRED", message = ("the batch says %s of this call"):format(kind) }
end

function anthropic.parse_models(reply)
    local models = {}
    for _, model in ipairs(read.list(reply, "data")) do
        local created, retires = read.text(model, "created_at"), read.text(model, "retires_at")
        models[#models + 1] = { id = read.text(model, "id"),
            name = read.text(model, "display_name"),
            created = created and retry.parse_date(created),
            shutdown = retires and retires:match "^%d+%-%d%d%-%d%d" }
    end
    return models
end

return anthropic
