--- Language models, as functions that seem to block.
---
---     local model = require "ponder.model"
---     local m = model.open("openai:gpt-4o-mini", { temperature = 0.7 })
---     local reply, message, code = m:chat { messages = { { role = "user", content = "Hello" } } }
---     print(reply and reply.text or message)
---
--- A call suspends the task that makes it and nothing else: run several with ponder.task, and up to
--- `max_in_flight` of them are on the wire at once, while the others wait their turn in order.
---
--- What can go wrong on the way (network, provider, a reply that does not fit) is returned as
--- `nil, message, code`; a mistake in a call raises. Codes: `TIMEOUT`, `CONNECT`, `TLS`,
--- `RATE_LIMITED`, `AUTH`, `BAD_REQUEST`, `NOT_FOUND`, `SERVER`, `BAD_REPLY`, `TOO_LARGE`, `QUOTA`,
--- `CONTENT_FILTER`; within task.with_budget also `BUDGET` and `NO_PRICE`. A task that is cancelled
--- closes its transfer at once and returns nothing.
---
--- ponder.model.provider says what a provider is, .retry which failure is tried again, .limit how
--- fast calls leave, .params what each model refuses, .schema how JSON replies are checked.

local options = require "ponder.options"
local task = require "ponder.task"
local chat = require "ponder.model.chat"
local client = require "ponder.model.client"
local model_list = require "ponder.model.list"
local params = require "ponder.model.params"
local provider = require "ponder.model.provider"
local transport = require "ponder.model.transport"

local model = {}

---@class ponder.model.OpenOptions: ponder.model.CallOptions
---@field base_url? string URL of the provider's API; `openai` with one serves every compatible
---server (vLLM, llama.cpp, LM Studio, OpenRouter, Ollama's /v1)
---@field api_key? string in place of the environment's
---@field headers? table<string, string|false> further headers; false takes one away
---@field max_in_flight? integer calls at once to the host, default 64, at most 16384; the limit
---belongs to the host: the last model opened with one sets it for all models there
---@field adaptive? boolean find the right number of calls at once: from 20, up to max_in_flight
---@field requests_per_minute? integer
---@field tokens_per_minute? integer prompt and reply together
---@field ca_file? string PEM file of authorities to trust besides the system's
---@field proxy? string URL; default: http_proxy, https_proxy, all_proxy, no_proxy

---@class ponder.model.CallOptions
---@field system? string|table the system prompt
---@field n? integer samples, default 1: in one request where the provider takes it, else by n calls
---at the same time, with seeds that count up from `seed`
---@field temperature? number
---@field top_p? number
---@field max_tokens? integer of the reply
---@field stop? string|string[]
---@field seed? integer
---@field response_format? string|table "json", or a JSON schema; the value is `reply.json`
---@field repair? boolean when the reply does not fit the schema, ask once more; default false
---@field logprobs? boolean|integer true, or how many alternatives of each token
---@field tools? table[] {name, description, parameters = JSON schema} or in the provider's own form
---@field tool_choice? string|table "auto", "none", "required" or {name = "..."}
---@field reasoning_effort? string "none", "minimal", "low", "medium", "high"... as models have
---@field on_delta? fun(text: string, kind: "text"|"reasoning", sample: integer) streams the reply
---@field timeout_ms? integer of each attempt, from leaving the queue; default 600000. (For a limit
---over all attempts, use task.timeout.)
---@field connect_timeout_ms? integer default 5000
---@field idle_timeout_ms? integer of streams: longest time without data, default 60000; pings are
---no data
---@field max_body_bytes? integer default 64 MiB
---@field cross_host_redirects? boolean follow redirects to another host or port; default false
---@field max_retries? integer default 2
---@field cache? boolean false: never answered from a cache
---@field sample? integer number of the first sample, default 1: part of the request's identity, so
---that the same prompt asked for twice is two requests; a seed counts up with it
---@field metadata? table passed to middleware and observers, never sent
---@field extra? table further fields of the request's body, in the provider's form

---@class ponder.model.ChatOptions: ponder.model.CallOptions
---@field messages ponder.model.Message[]

---@class ponder.model.Message
---@field role "system"|"user"|"assistant"|"tool"
---@field content string|table text, or parts in the provider's form
---@field tool_calls? ponder.model.ToolCall[] of an assistant
---@field tool_call_id? string of a tool's result
---@field name? string
---@field blocks? table of an assistant, see Reply.message

---@class ponder.model.ToolCall
---@field id string?
---@field name string
---@field arguments table? nil when the model wrote no JSON object
---@field arguments_json string as the model wrote it

---@class ponder.model.Usage nil fields: the provider did not say
---@field input_tokens integer? cached ones included
---@field output_tokens integer? reasoning included
---@field total_tokens integer?
---@field cache_read_tokens integer?
---@field cache_write_tokens integer?
---@field reasoning_tokens integer?

---@class ponder.model.Sample
---@field text string?
---@field finish_reason string? "stop", "length", "tool_calls", "content_filter" or the provider's
---@field tool_calls ponder.model.ToolCall[]?
---@field reasoning string?
---@field refusal string?
---@field logprobs {token: string, logprob: number, top: table[]?}[]?
---@field blocks table? content as the provider sent it, where it must go back unchanged

---@class ponder.model.Reply the first sample's fields, and of the whole:
---@field text string "" when there is none (tool calls)
---@field texts string[] of all samples
---@field samples ponder.model.Sample[]
---@field message ponder.model.Message to append to `messages` when the conversation goes on
---@field json any? the decoded value, with response_format
---@field jsons table<integer, any>? of all samples, nil where one does not fit, when n > 1
---@field usage ponder.model.Usage? of all samples, repairs included
---@field model string? as the server names it
---@field id string?
---@field latency_ms number of the attempt that was answered, from leaving the queue
---@field time_to_first_ms number? until its first event or byte
---@field attempts integer requests that were made
---@field truncated boolean? a stream ended before the reply did
---@field cost number? USD, of all samples, repairs included; nil: the price is unknown, see
---ponder.model.price. 0 when it came from a cache
---@field cached true? it came from a cache: ponder.model.cache
---@field scripted true? a `script:` model's
---@field dropped table<string, string>? options that the model refuses, and why
---@field raw any the decoded reply; of a stream, the events that were more than text

---@class ponder.model.Model
---@field name string "openai:gpt-4o-mini"
---@field provider string
---@field model string
---@field defaults ponder.model.CallOptions
local Model = {}
Model.__index = Model
Model.__name = "ponder.model.Model"
Model.__tostring = function(self) return "model " .. self.name end

local OPEN = {
    base_url = { type = "string" },
    api_key = { type = "string" },
    headers = { type = "table" },
    max_in_flight = { type = "integer", min = 1, max = transport.MAX_TOTAL },
    adaptive = { type = "boolean" },
    requests_per_minute = { type = "integer", min = 1 },
    tokens_per_minute = { type = "integer", min = 1 },
    ca_file = { type = "string" },
    proxy = { type = "string" },
}
options.merge(OPEN, chat.OPTIONS)

local shared

local function default_client()
    shared = shared or client.new()
    return shared
end

local function open(self, text, opts, level)
    if text ~= nil and type(text) ~= "string" then
        error("model.open: name must be a string (got " .. options.show(text) .. ")", level + 1)
    end
    opts = options.check("model.open", opts, OPEN, level + 1)
    local target, mine = self:target(text, opts, function(all)
        options.check("model.open, with the config file", all, OPEN, level + 3)
    end)
    if not target then error("model.open: " .. mine, level + 1) end
    local defaults = {}
    for option in pairs(chat.OPTIONS) do defaults[option] = mine[option] end
    return setmetatable({ name = target.label, provider = target.name, model = target.model,
        defaults = defaults, client = self, target = target }, Model)
end

--- Opens a model. Nothing is sent yet.
---
--- Names: `openai:gpt-4o-mini`, `anthropic/claude-haiku-4-5`, `ollama:qwen3:8b`, an alias of the
--- config file ($XDG_CONFIG_HOME/ponder/config.lua), or a bare model name where $PONDER_PROVIDER
--- says whose it is. Raises when the provider is unknown, or its key is missing.
---@param text? string default: $PONDER_MODEL
---@param opts? ponder.model.OpenOptions
---@return ponder.model.Model
function model.open(text, opts)
    local opened = open(default_client(), text, opts, 2) -- no tail call: errors name the caller
    return opened
end

--- The file of a `script:` model. It is not run, as it is when such a model is opened.
---@param text? string as for `open`
---@return string? path nil: the name is of another kind, or of none
function model.script_file(text)
    local known, path = default_client():resolve(text, {})
    return known == "script" and path or nil
end

--- Whether a value is a model that `open` gave.
---@param value any
---@return boolean
function model.is_open(value) return getmetatable(value) == Model end

--- What the config file says.
---@return ponder.model.Config
function model.config() return default_client():settings() end

--- The model that is meant when none is named: $PONDER_MODEL, else the config file's.
---@return string? name
function model.default_name()
    local shared_client = default_client()
    return shared_client.env("PONDER_MODEL") or shared_client:settings().default_model
end

---------------------------------------------------------------------------------------------------
-- Calls

local function check_call(self, what)
    if getmetatable(self) ~= Model then error(what .. ": call it as m:chat, with a colon", 3) end
    if not task.current() then
        error(what .. ": call it within a task (`ponder run` makes one; else task.run)", 3)
    end
end

--- Asks the model.
---@param opts ponder.model.ChatOptions
---@return ponder.model.Reply?
---@return string? message the provider's own, with the model, the status and the attempts
---@return string? code
---@return ponder.model.Reply? partial what had come when it failed
function Model:chat(opts)
    check_call(self, "model.chat")
    local reply, message, code, partial = chat.run(self, opts, 3)
    return reply, message, code, partial
end

--- Asks the model one thing.
---@param prompt string
---@param opts? ponder.model.CallOptions
---@return string? text
---@return string? message
---@return string? code
function Model:complete(prompt, opts)
    check_call(self, "model.complete")
    if type(prompt) ~= "string" then
        error("model.complete: prompt must be a string (got " .. options.show(prompt) .. ")", 2)
    end
    local all = { messages = { { role = "user", content = prompt } } }
    options.merge(all, options.check("model.complete", opts, chat.OPTIONS))
    local reply, message, code = chat.run(self, all, 3)
    if not reply then return nil, message, code end
    return reply.text
end

--- The models that the server offers, sorted by id. The model's `timeout_ms` (here 30 s by default)
--- and `max_retries` hold.
---@return {id: string, name: string?, created: integer?}[]?
---@return string? message
---@return string? code
function Model:list()
    check_call(self, "model.list")
    local models, message, code = model_list.run(self.client, self.target, self.defaults)
    return models, message, code
end

--- What one provider offers, without naming a model.
---@param provider_name string
---@param opts? ponder.model.OpenOptions
---@return {id: string, name: string?, created: integer?}[]?
---@return string? message
---@return string? code
function model.list(provider_name, opts)
    local opened = open(default_client(), provider_name .. ":*", opts, 2)
    return opened:list()
end

---------------------------------------------------------------------------------------------------
-- What a program may add

--- Adds a provider, or puts another in the place of a built-in one.
---@param known string its name, as it stands before the colon
---@param definition ponder.model.Provider
function model.register(known, definition)
    if type(known) ~= "string" or not known:find("^[%w_.-]+$") then
        error("model.register: name must be letters, digits, '_', '.' or '-' (got "
            .. options.show(known) .. ")", 2)
    end
    default_client().providers[known] = provider.check(definition, 2)
end

--- The known providers' names, sorted.
---@return string[]
function model.providers()
    return options.names(default_client().providers)
end

local function add(list, item, what)
    if type(item) ~= "function" then
        error(what .. ": expected a function (got " .. options.show(item) .. ")", 3)
    end
    table.insert(list, item)
    return function()
        for i, other in ipairs(list) do
            if other == item then return table.remove(list, i) ~= nil end
        end
        return false
    end
end

--- Puts a function around every request, inside the ones that are there: a run log, a cache, a
--- budget. It is called as `middleware(request, next)` in the task that made the call, and returns
--- what `next(request)` returned (a ponder.model.Draft, or nil, message, code), or something of its
--- own. What it does after `next` is done before the script sees the reply; it may suspend the
--- task. `request:identity()` says what makes a request different from others,
--- `request:estimate()` what it may cost.
---@param middleware fun(request: ponder.model.Request, next: fun(request?: ponder.model.Request)):
---ponder.model.Draft?, string?, string?
---@return fun(): boolean remove
function model.use(middleware)
    local remove = add(default_client().middleware, middleware, "model.use")
    return remove
end

--- Hears of every request sent and every reply, redacted: `{type = "request"|"reply"|"failure",
--- id, attempt, model, metadata, ...}`; ponder.model.verbose shows the fields.
---@param observer fun(event: table)
---@return fun(): boolean remove
function model.observe(observer)
    local remove = add(default_client().observers, observer, "model.observe")
    return remove
end

--- Has the models that are opened from here on share the limits of their keys with all machines
--- that use the same Redis: `requests_per_minute`, `tokens_per_minute`, and the waits that servers
--- want. `ponder work` does so.
---@param redis ponder.redis.Client? nil: no longer
function model.share_limits(redis) default_client().limits_at = redis end

--- Adds a rule on what a model refuses, in front of the built-in ones (ponder.model.params).
---@param rule ponder.model.Rule
function model.refuse(rule) params.add(rule, 2) end

--- A client apart from the process's own, with its own transport, clock, environment and limits.
---@param parts table see ponder.model.client
---@return {open: fun(text?: string, opts?: ponder.model.OpenOptions): ponder.model.Model}
function model.client(parts)
    local own = client.new(parts)
    return {
        state = own,
        share_limits = function(redis) own.limits_at = redis end,
        open = function(text, opts)
            local opened = open(own, text, opts, 2)
            return opened
        end,
        use = function(middleware)
            local remove = add(own.middleware, middleware, "model.use")
            return remove
        end,
        observe = function(observer)
            local remove = add(own.observers, observer, "model.observe")
            return remove
        end,
        register = function(known, definition)
            own.providers[known] = provider.check(definition, 2)
        end,
    }
end

return model
