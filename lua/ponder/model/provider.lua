--- Defines providers: tables of pure functions that convert between this client's tables and a
--- server's.
---
--- A provider does no I/O, reads no clock and knows nothing of retries, limits or tasks, so specs
--- can call its functions with plain tables. `ponder.model.openai`, `.anthropic` and `.ollama` are
--- built in; `model.register` adds or replaces one.

local calls = require "ponder.run.log.call"
local json = require "ponder.json"
local options = require "ponder.base.options"

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
---kind: string, sample: integer, tokens: table[]?)): ponder.model.Reader
---@field models_path string? of the list of models
---@field parse_models fun(reply: table): table[]
---@field image? fun(media_type: string, data: string): table the part of a message for an image in
---base64; nil: images are not supported
---@field looks_like string[]? Lua patterns of model names, for "did you mean"
---@field call? fun(request: ponder.model.Request): table?, string?, string? replaces all others but
---`configure` and `open`: returns {text or texts, usage...}, or nil, message, code
---@field marks? "scripted"|"recorded" the field that a reply of `call` has
---@field finish? fun(request: ponder.model.Request, draft: ponder.model.Draft) after a `call` that
---has emitted `request.pieces`
---@field open? fun(target: ponder.model.Target): boolean?, string? called when a model is opened;
---nil and a message refuse it

---@class ponder.model.Reader folds the events of a stream into a reply
---@field plain fun(self, name: string, data: string): boolean a fast path for events that have only
---text; false: use `event`. A reader may always return false.
---@field event fun(self, name: string, data: string): table?, string? reads any event; returns it
---decoded, or nil and a message
---@field finish fun(self): ponder.model.Draft, boolean the reply so far, and whether it is complete

local SHAPE = { configure = { type = "function" }, looks_like = { type = "table" },
    name = { type = "string" } }
local SERVER_SHAPE = options.merge({
    path = { type = "string", required = true },
    build = { type = "function", required = true },
    build_stream = { type = "function", required = true },
    stream = { type = "string", enum = { "sse", "ndjson" }, required = true },
    parse = { type = "function", required = true },
    reader = { type = "function", required = true },
    models_path = { type = "string" },
    parse_models = { type = "function" },
    image = { type = "function" },
}, SHAPE)
local CALL_SHAPE = options.merge({ call = { type = "function", required = true },
    open = { type = "function" } }, SHAPE)

--- Checks the provider passed to `model.register`; missing and misspelled fields raise.
---@param definition table
---@param level integer
---@return ponder.model.Provider
---@package
function provider.check(definition, level)
    options.argument("model.register", "provider", definition, "table", level + 1)
    options.check("model.register", definition, definition.call and CALL_SHAPE or SERVER_SHAPE,
        level + 1)
    return definition
end

-- The fields of what a provider's `call` returns, of each sample, and of each tool call. A reply
-- with samples, such as a ponder.model.Reply that is passed on, may have others.
local REPLY = { "text", "texts", "tool_calls", "reasoning", "finish_reason", "usage", "model", "id",
    "raw", "samples", "logprobs" }
local IN_SAMPLE = { "text", "tool_calls", "reasoning", "refusal", "finish_reason", "logprobs",
    "blocks" }
local TOOL_CALL = { "id", "name", "arguments", "arguments_json" }

local IS_KNOWN = {}
for _, known in ipairs { REPLY, IN_SAMPLE, TOOL_CALL } do
    IS_KNOWN[known] = {}
    for _, name in ipairs(known) do IS_KNOWN[known][name] = true end
end

-- That a table has a field that is not known: the first one by name.
local function unknown_field(one, known, what)
    local is_known, first = IS_KNOWN[known], nil
    for name in pairs(type(one) == "table" and one or {}) do
        if not is_known[name] and (not first or tostring(name) < tostring(first)) then
            first = name
        end
    end
    return first ~= nil and ("%s has the unknown field %s%s; its fields are %s"):format(what,
        options.show(first), options.hint(first, known), table.concat(known, ", ")) or nil
end

-- Tool calls with the fields that a script may omit; or nil and what is wrong.
local function complete_tool_calls(tool_calls)
    local list = {}
    for i, one in ipairs(tool_calls) do
        local problem = unknown_field(one, TOOL_CALL, "a tool call of the reply")
        if problem then return nil, problem end
        list[i] = { id = one.id or "call_" .. i, name = one.name, arguments = one.arguments,
            arguments_json = one.arguments_json
                or one.arguments and json.encode(one.arguments) or "" }
    end
    return list
end

--- The draft of a reply that a provider's `call` returned.
---@param reply any
---@return ponder.model.Draft?
---@return string? message
---@package
function provider.draft(reply)
    if type(reply) == "string" then reply = { text = reply } end
    if type(reply) ~= "table" then
        return nil, "the provider returned " .. options.show(reply) .. " for a reply"
    end
    local problem = not reply.samples and unknown_field(reply, REPLY, "the reply")
    if problem then return nil, problem end
    local draft = reply.samples and options.merge({}, reply)
    if not draft then
        draft = { samples = {}, usage = reply.usage, model = reply.model, id = reply.id,
            attempts = 1, raw = reply.raw }
        local texts = reply.texts or { reply.text or "" }
        for i = 1, #texts do
            if type(texts[i]) ~= "string" then
                return nil, "text must be a string (got " .. options.show(texts[i]) .. ")"
            end
            draft.samples[i] = { text = texts[i], finish_reason = reply.finish_reason or "stop" }
        end
        local first = draft.samples[1] or {}
        first.tool_calls, first.reasoning = reply.tool_calls, reply.reasoning
        first.logprobs = reply.logprobs
    end
    if not calls.checked(draft) then
        return nil, "the provider returned samples that are not replies"
    end
    for _, sample in ipairs(draft.samples) do
        problem = unknown_field(sample, IN_SAMPLE, "a sample of the reply")
        if not problem and sample.tool_calls then
            sample.tool_calls, problem = complete_tool_calls(sample.tool_calls)
        end
        if problem then return nil, problem end
    end
    return draft
end

return provider
