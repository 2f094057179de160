--- Defines providers: tables of pure functions that convert between this client's tables and a
--- server's.
---
--- A provider does no I/O, reads no clock and knows nothing of retries, limits or tasks, so specs
--- can call its functions with plain tables. `ponder.model.openai`, `.anthropic` and `.ollama` are
--- built in; `model.register` adds or replaces one.

local json = require "ponder.json"
local options = require "ponder.options"
local tally = require "ponder.tally"

local provider = {}

---@class ponder.model.Provider
---@field configure? fun(opts: table, env: fun(name: string): string?, file: table):
---ponder.model.Endpoint?, string? the endpoint and its headers, or nil and a message: from
---model.open's options, else the environment, else the config file; all fields but `base_url` may
---be missing, and that, too, with `call`
---@field path string of chat calls, below base_url
---@field build fun(request: ponder.model.Request): table the body of a request without a stream
---@field build_stream fun(body: table) makes a body ask for a stream
---@field stream "sse"|"ndjson" the format of streams
---@field parse fun(reply: table, request: ponder.model.Request): ponder.model.Draft?, string?
---@field reader fun(request: ponder.model.Request, emit: fun(text: string,
---kind: string, sample: integer)): ponder.model.Reader
---@field models_path string? of the list of models
---@field parse_models fun(reply: table): table[]
---@field image? fun(media_type: string, data: string): table the part of a message for an image in
---base64; nil: images are not supported
---@field looks_like string[]? Lua patterns of model names, for "did you mean"
---@field call? fun(request: ponder.model.Request): table?, string?, string? replaces all others but
---`configure` and `open`: returns {text or texts, usage...}, or nil, message, code
---@field open? fun(target: ponder.model.Target): boolean?, string? called when a model is opened;
---nil and a message refuse it

---@class ponder.model.Reader folds the events of a stream into a reply
---@field plain fun(self, name: string, data: string): boolean a fast path for events that have only
---text; false: use `event`. A reader may always return false.
---@field event fun(self, name: string, data: string): table?, string? reads any event; returns it
---decoded, or nil and a message
---@field finish fun(self): ponder.model.Draft, boolean the reply so far, and whether it is complete

local SHAPE = {
    configure = { type = "function" },
    path = { type = "string", required = true },
    build = { type = "function", required = true },
    build_stream = { type = "function", required = true },
    stream = { type = "string", enum = { "sse", "ndjson" }, required = true },
    parse = { type = "function", required = true },
    reader = { type = "function", required = true },
    models_path = { type = "string" },
    parse_models = { type = "function" },
    image = { type = "function" },
    looks_like = { type = "table" },
    name = { type = "string" },
}

local CALL_SHAPE = {
    call = { type = "function", required = true },
    open = { type = "function" },
    configure = { type = "function" },
    looks_like = { type = "table" },
    name = { type = "string" },
}

--- Checks the provider passed to `model.register`; missing and misspelled fields raise.
---@param definition table
---@param level integer
---@return ponder.model.Provider
function provider.check(definition, level)
    options.argument("model.register", "provider", definition, "table", level + 1)
    local shape = definition.call and CALL_SHAPE or SHAPE
    options.check("model.register", definition, shape, level + 1)
    return definition
end

local SAMPLE = { text = "string", reasoning = "string", tool_calls = "table" }

local function is_sample(sample)
    if type(sample) ~= "table" then return false end
    for name, kind in pairs(SAMPLE) do
        if sample[name] ~= nil and type(sample[name]) ~= kind then return false end
    end
    for _, call in ipairs(sample.tool_calls or {}) do
        if type(call) ~= "table" then return false end
    end
    return true
end

--- Whether a value, such as one from a log or cache, has the form of a draft.
---@param value any
---@return boolean
function provider.is_draft(value)
    if type(value) ~= "table" or type(value.samples) ~= "table"
        or value.usage ~= nil and type(value.usage) ~= "table" then
        return false
    end
    for _, sample in ipairs(value.samples) do
        if not is_sample(sample) then return false end
    end
    return true
end

---Reads a draft from a text that anybody may have written.
---@param text string
---@return ponder.model.Draft? draft a new one; nil: the text is not a draft
function provider.read_draft(text)
    local draft = json.decode(text)
    if not provider.is_draft(draft) then
        return nil
    end
    draft.usage = tally.clean(draft.usage)
    return draft
end

-- The fields of what a provider's `call` returns: of a reply, or of one that has samples, such as a
-- ponder.model.Reply that is passed on; of each sample, and of each tool call.
local REPLY = { "text", "texts", "tool_calls", "reasoning", "finish_reason", "usage", "model", "id",
    "raw", "samples" }
local WITH_SAMPLES = { "samples", "usage", "model", "id", "attempts", "latency_ms",
    "time_to_first_ms", "truncated", "cost", "raw", "origin", "joined", "scripted", "text", "texts",
    "message", "json", "jsons", "tool_calls", "reasoning", "refusal", "logprobs", "finish_reason",
    "dropped", "cached" }
local IN_SAMPLE = { "text", "tool_calls", "reasoning", "refusal", "finish_reason", "logprobs",
    "blocks" }
local TOOL_CALL = { "id", "name", "arguments", "arguments_json" }

-- The first field of some tables that is not known.
local function unknown_in(tables, known, what)
    for _, one in ipairs(type(tables) == "table" and tables or {}) do
        local names = type(one) == "table" and options.names(one, function(field)
            return not options.has(known, field)
        end) or {}
        if names[1] ~= nil then
            return ("%s has the unknown field %s%s; its fields are %s"):format(what,
                options.show(names[1]), options.hint(names[1], known), table.concat(known, ", "))
        end
    end
end

local function unknown_field(reply)
    local samples = type(reply.samples) == "table" and reply.samples or { reply }
    local problem = unknown_in({ reply }, reply.samples and WITH_SAMPLES or REPLY, "the reply")
        or samples[1] ~= reply and unknown_in(samples, IN_SAMPLE, "a sample of the reply")
    for _, sample in ipairs(samples) do
        problem = problem or type(sample) == "table"
            and unknown_in(sample.tool_calls, TOOL_CALL, "a tool call of the reply")
    end
    return problem or nil
end

--- The draft of a reply that a provider's `call` returned.
---@param reply any
---@return ponder.model.Draft?
---@return string? message
function provider.draft(reply)
    if type(reply) == "string" then reply = { text = reply } end
    if type(reply) ~= "table" then
        return nil, "the provider returned " .. options.show(reply) .. " for a reply"
    end
    local problem = unknown_field(reply)
    if problem then return nil, problem end
    if provider.is_draft(reply) then return reply end
    if reply.samples then return nil, "the provider returned samples that are not replies" end
    local samples = {}
    for i, text in ipairs(reply.texts or { reply.text or "" }) do
        samples[i] = { text = text, finish_reason = reply.finish_reason or "stop" }
    end
    samples[1].tool_calls, samples[1].reasoning = reply.tool_calls, reply.reasoning
    return { samples = samples, usage = reply.usage, model = reply.model, id = reply.id,
        attempts = 1, raw = reply.raw }
end

return provider
