--- Language models, called like blocking functions.
---
---     local model = require "ponder.model"
---     local m = model.open("openai:gpt-6-luna", { temperature = 0.7 })
---     local reply, message, code = m:chat { messages = { { role = "user", content = "Hello" } } }
---     print(reply and reply.text or message)
---
--- A call suspends only its own task: run several with ponder.task, and up to `concurrency` of
--- them are sent at once, while the others queue in order.
---
--- Failures at run time (network, provider, an invalid reply) are returned as `nil, message, code`;
--- a mistake in the arguments raises. Codes: `TIMEOUT`, `CONNECT`, `TLS`,
--- `RATE_LIMITED`, `AUTH`, `BAD_REQUEST`, `NOT_FOUND`, `SERVER`, `BAD_REPLY`, `TOO_LARGE`, `QUOTA`,
--- `CONTENT_FILTER`, `CONTEXT_LENGTH`, `UNSUPPORTED`, `EXPIRED` (in a batch); within
--- task.with_budget also `BUDGET` and `NO_PRICE`. A task that is cancelled closes its transfer at
--- once and returns nothing.
---
--- See ponder.model.provider for providers, .retry for retries, .limit for rate limits, .params for
--- the options that models refuse, .schema for JSON replies.

local core = require "ponder.core.task"
local options = require "ponder.base.options"
local chat = require "ponder.model.chat"
local client = require "ponder.model.client"
local environment = require "ponder.base.environment"
local measures = require "ponder.model.measures"
local params = require "ponder.model.params"
local provider = require "ponder.model.provider"
local read = require "ponder.model.read"
local scheduler = require "ponder.run.task.scheduler"
local service = require "ponder.model.service"
local transport = require "ponder.model.transport"

local model = {}

---@class ponder.model.OpenOptions: ponder.model.CallOptions
---@field base_url? string URL of the provider's API; use it with `openai` for any compatible server
---(vLLM, llama.cpp, LM Studio, OpenRouter, Ollama's /v1)
---@field api_key? string in place of the environment's
---@field headers? table<string, string|false> further headers; false removes one
---@field concurrency? integer concurrent calls to the host, default 64, at most 16384; all models
---of a host share the limit, set by the last one opened with it
---@field api? "chat"|"responses" which API of OpenAI's form to use, where a server has both;
---  default "chat"
---@field adaptive? boolean adapt the number of concurrent calls: from 20, up to concurrency
---@field requests_per_minute? integer default: no limit
---@field tokens_per_minute? integer of prompts and replies together; default: no limit
---@field batch? boolean send its calls in batches, at half the price: replies may take a day, and
---are not streamed. Calls park; a batch goes out when every task waits, at the provider's limit, or
---`batch_wait_ms` after the last call. Models of OpenAI, Anthropic and Gemini have batches
---@field batch_poll_ms? integer between looks at a batch, rising to ten times that; default 30000
---@field batch_wait_ms? integer default 2000
---@field ca_file? string PEM file of authorities to trust besides the system's
---@field proxy? string URL; default: http_proxy, https_proxy, all_proxy, no_proxy

---@class ponder.model.CallOptions
---@field system? string|table the system prompt
---@field n? integer samples, default 1: in one request if the provider supports that, else in n
---concurrent calls, with seeds `seed`, `seed + 1`...
---@field temperature? number
---@field top_p? number
---@field top_k? integer sample among the k likeliest tokens
---@field min_p? number sample among tokens at least this likely, relative to the likeliest
---@field frequency_penalty? number
---@field presence_penalty? number
---@field max_output_tokens? integer of the reply
---@field stop? string|string[]
---@field seed? integer
---@field response_format? string|table "json", or a JSON schema; the value is `reply.json`
---@field repair? boolean ask once more if the reply does not match the schema; default false
---@field returns? string|table a typed answer, as `reply.value`: a JSON schema, or shorthand:
---`"integer"`, `{ "string" }` (a list of strings), `{ answer = "integer", steps = { "string" } }`
---(all required, nothing else allowed). The provider enforces it where it can. A reply that does
---not fit is asked for once more; then the call fails with `BAD_REPLY`. Cost and usage: of both.
---@field logprobs? boolean|integer true, or the number of alternatives for each token
---@field tools? table[] {name, description, parameters = JSON schema} or in the provider's own form
---@field tool_choice? string|table "auto", "none", "required" or {name = "..."}
---@field reasoning_effort? string "none", "minimal", "low", "medium", "high"... depends on the
---  model
---@field strict_options? boolean an option that the model refuses is an error, `BAD_REQUEST`,
---before anything is sent; default: such options are left out, named in `reply.dropped`, and said
---once
---@field prefix? string what siblings share: the last message of the user begins with it. It is
---marked for the service's cache of prompts, and of concurrent calls with one prefix the first goes
---alone until its first reply, from when on the others find it there
---@field prompt_cache? boolean|"1h" true: mark the system prompt, too; "1h": for an hour; false:
---mark nothing
---@field prefill? string the reply begins with it: the model continues this text. Fails with
---`UNSUPPORTED` where the provider cannot
---@field reasoning? string|table like reasoning_effort; or { max_output_tokens = N }, the tokens of
---its thinking, where the provider has such a limit
---@field on_delta? fun(text: string, kind: "text"|"reasoning", sample: integer, tokens: table[]?):
---  boolean? streams the reply. With logprobs, `tokens` are those of this piece, as in
---  Sample.logprobs (of some, the text is ""). true ends the reply here: it is what has arrived,
---  with `truncated` and the finish_reason "cancelled", and counts with at least what that used
---@field timeout_ms? integer of each attempt, from leaving the queue; default 600000. (For a limit
---over all attempts, use task.timeout.)
---@field connect_timeout_ms? integer default 5000
---@field idle_timeout_ms? integer of streams: longest time without data, default 60000; pings do
---not count as data
---@field max_body_bytes? integer default 64 MiB
---@field cross_host_redirects? boolean follow redirects to another host or port; default false
---@field max_retries? integer default 2
---@field cache? boolean|"shared" false: bypass the cache; "shared": in an evaluation, one reply
---serves all items and epochs (see ponder.model.cache)
---@field sample? integer number of the first sample, default 1: part of the request's identity, so
---that one prompt with two sample numbers makes two requests; added to the seed
---@field metadata? table passed to middleware and observers, never sent
---@field extra? table further fields of the request's body, in the provider's form

---@class ponder.model.StepsOptions: ponder.model.CallOptions
---@field stop string|string[] ends a step
---@field max_steps? integer default 20

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
---@field arguments table? nil if the model did not write a JSON object
---@field arguments_json string as the model wrote it

---@class ponder.model.Usage nil fields: the provider did not report them
---@field input_tokens integer? cached ones included
---@field output_tokens integer? reasoning included
---@field total_tokens integer?
---@field cache_read_tokens integer?
---@field cache_write_tokens integer?
---@field reasoning_tokens integer?

---@class ponder.model.Sample
---@field text string? "" of an empty reply; nil with tool calls or a refusal and no text
---@field finish_reason string? "stop", "length", "tool_calls", "content_filter", "cancelled" (by
---  on_delta) or the provider's
---@field tool_calls ponder.model.ToolCall[]?
---@field reasoning string?
---@field refusal string?
---@field logprobs {token: string, logprob: number, top: table[]?}[]?
---@field blocks table? content as the provider sent it, if it must be returned unchanged

---@class ponder.model.Reply a reply: the fields of the first sample, and those of all samples
---@field text string "" if there is none (tool calls)
---@field texts string[] of all samples
---@field samples ponder.model.Sample[]
---@field message ponder.model.Message append it to `messages` to continue the conversation
---@field json any? the decoded value, with response_format
---@field jsons table<integer, any>? if n > 1: of all samples, nil for those that do not match
---@field value any? of the first sample, with returns
---@field values any[]? if n > 1: of all samples
---@field usage ponder.model.Usage? of all samples, repairs included
---@field model string? the server's name for it
---@field id string?
---@field latency_ms number of the answered attempt, from leaving the queue
---@field time_to_first_ms number? until its first event or byte
---@field attempts integer requests sent
---@field truncated boolean? the stream ended before the reply was complete
---@field cost number? USD, of all samples, repairs included; 0 from a cache; nil: the price is
---unknown, see ponder.model.price
---@field cached true? the reply came from a cache: ponder.model.cache
---@field scripted true? the reply came from a `script:` model
---@field recorded true? the reply came from a `pool:` model
---@field dropped table<string, string>? options that the model refuses, and why
---@field raw any the decoded reply; of a stream, the events with more than text

---@class ponder.model.Model
---@field name string "openai:gpt-6-luna"
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
    concurrency = { type = "integer", min = 1, max = transport.MAX_TOTAL,
        was = "max_in_flight" },
    adaptive = { type = "boolean" },
    batch = { type = "boolean" },
    batch_poll_ms = { type = "integer", min = 1 },
    batch_wait_ms = { type = "integer", min = 0 },
    api = { type = "string", enum = { "chat", "responses" } },
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

local function open(self, name, opts, level)
    if name ~= nil then options.argument("model.open", "name", name, "string", level + 1) end
    opts = options.check("model.open", opts, OPEN, level + 1)
    local target, mine = self:target(name, opts, function(all)
        return options.check("model.open, with the config file", all, OPEN, 0)
    end)
    if not target then error("model.open: " .. mine, level + 1) end
    local defaults = {}
    for option in pairs(chat.OPTIONS) do defaults[option] = mine[option] end
    return setmetatable({ name = target.label, provider = target.name, model = target.model,
        defaults = defaults, client = self, target = target }, Model)
end

--- Opens a model. Sends nothing.
---
--- Names: `openai:gpt-6-luna`, `anthropic/claude-haiku-4-5`, `ollama:qwen3:8b`, an alias of the
--- config file ($XDG_CONFIG_HOME/ponder/config.lua), or only the model's name, if $PONDER_PROVIDER
--- names the provider. Raises if the provider is unknown, or its key is missing.
---@param name? string default: $PONDER_MODEL
---@param opts? ponder.model.OpenOptions
---@return ponder.model.Model
function model.open(name, opts)
    local opened = open(default_client(), name, opts, 2) -- no tail call: errors name the caller
    return opened
end

-- Tells the caller of the script, such as `ponder serve`, what has failed.
local function tell(message)
    local follower = scheduler.context "follower"
    if follower then follower:on_call_failed(message) end
end

--- Like `open`, but returns what is wrong instead of raising it.
---@param name? string
---@param opts? ponder.model.OpenOptions
---@return ponder.model.Model?
---@return string? message
function model.try_open(name, opts)
    local ok, opened = pcall(model.open, name, opts)
    if ok then
        return opened
    elseif core.stop_reason() then
        error(opened, 0)
    end
    local message = tostring(opened):gsub("^.-model%.open: ", "")
    tell(message)
    return nil, message
end

--- The file of a `script:` model. Unlike `open`, it does not run the file.
---@param name? string as for `open`
---@return string? path nil: another kind of name, or an invalid one
---@package
function model.script_file(name)
    local known, path = default_client():resolve(name, {})
    return known == "script" and path or nil
end

--- The settings of the config file; raises one line if that, or the file of prices, is broken.
---@return ponder.model.Config
---@package
function model.config()
    default_client():price_list()
    return shared:settings()
end

--- Whether a variable, the config file or the default model names a provider.
---@param known string
---@return boolean
---@package
function model.is_configured(known)
    local env = default_client().env
    for _, kind in ipairs { "key", "address" } do
        for _, variable in ipairs(environment.names(kind, known)) do
            if env(variable) then return true end
        end
    end
    return (shared:settings().providers or {})[known] ~= nil
        or (model.default_name() or ""):find(known .. "[:/]") == 1
end

--- The default model: --model of the command, else $PONDER_MODEL, else the config file's.
---@return string? name
function model.default_name()
    return default_client():default_model()
end

---------------------------------------------------------------------------------------------------
-- Calls

--- Asks the model.
---@param opts ponder.model.ChatOptions
---@return ponder.model.Reply?
---@return string? message the provider's own, with the model, the status and the attempts
---@return string? code
---@return ponder.model.Reply? partial what had arrived when the call failed
function Model:chat(opts)
    local t = scheduler.check("model.chat")
    local reply, message, code, partial = chat.run(self, t, opts, 3)
    if not reply then tell(message) end
    return reply, message, code, partial
end

--- Sends one prompt and returns the text of the reply; with the option `returns`, its value. With
--- `n` above 1 it returns the list of those of all samples.
---@param prompt string
---@param opts? ponder.model.CallOptions
---@return any text or the value, or the list of them
---@return string? message
---@return string? code
---@return ponder.model.Reply? partial what had arrived, or what did not fit
function Model:complete(prompt, opts)
    local t = scheduler.check("model.complete")
    options.argument("model.complete", "prompt", prompt, "string")
    local all = { messages = { { role = "user", content = prompt } } }
    options.merge(all, options.check("model.complete", opts, chat.OPTIONS))
    local reply, message, code, partial = chat.run(self, t, all, 3)
    if not reply then
        tell(message)
        return nil, message, code, partial
    end
    local defaults = self.defaults
    return read.answer(reply, all.n or defaults.n, all.returns or defaults.returns)
end

local STEPS = options.merge({ max_steps = { type = "integer", min = 1, default = 20 } },
    chat.OPTIONS)
STEPS.stop = { type = { "string", "table" }, required = true }

--- The models that the server offers, sorted by id. Uses the model's `timeout_ms` (default here:
--- 30 s) and `max_retries`.
---@return {id: string, name: string?, created: integer?, shutdown: string?}[]? models `shutdown`:
---  the date "YYYY-MM-DD" from which on it is gone
---@return string? message
---@return string? code
function Model:list()
    scheduler.check("model.list")
    local models, message, code = service.list(self.client, self.target, self.defaults)
    return models, message, code
end

--- Iterates over the steps of one reply, each of which continues the steps before it (`prefill`):
--- `for step in m:steps(prompt, { stop = "\n\n", max_steps = 20 }) do`. Ends when the model has
--- ended its reply, or after `max_steps`.
---@param prompt string
---@param opts ponder.model.StepsOptions
---@return fun(): string?, ponder.model.Reply? next a step and its reply; raises if a call fails
function Model:steps(prompt, opts)
    options.argument("model.steps", "prompt", prompt, "string")
    opts = options.check("model.steps", opts, STEPS)
    local max_steps, count, text, is_over = opts.max_steps, 0, opts.prefill or "", false
    opts.max_steps = nil
    local separator = type(opts.stop) == "string" and opts.stop or opts.stop[1] or ""
    return function()
        if is_over or count >= max_steps then return nil end
        count = count + 1
        local call = options.merge({ messages = { { role = "user", content = prompt } } }, opts)
        call.prefill = text ~= "" and text or nil
        local reply, message, code = self:chat(call)
        if not reply then
            error(("model.steps: %s [%s]"):format(message, code), 2)
        end
        local step = reply.text:sub(#text + 1)
        is_over = reply.finish_reason ~= "stop" or step == ""
            or reply.samples[1].stop_sequence == false
        text = reply.text .. separator
        if step ~= "" then return step, reply end
    end
end

local MEASURE = { sample = chat.OPTIONS.sample, cache = chat.OPTIONS.cache,
    metadata = chat.OPTIONS.metadata, timeout_ms = chat.OPTIONS.timeout_ms,
    max_retries = chat.OPTIONS.max_retries }
local EMBED = options.merge({ dimensions = { type = "integer", min = 1 } }, MEASURE)
local RERANK = options.merge({ top_n = { type = "integer", min = 1 } }, MEASURE)

-- Raises unless a value is a list of texts with at least one.
local function check_texts(where, what, value)
    local is_list = type(value) == "table" and #value > 0
    for i = 1, is_list and #value or 0 do is_list = is_list and type(value[i]) == "string" end
    if not is_list then
        error(("%s: %s must be a list of texts (got %s)"):format(where, what,
            options.show(value)), 3)
    end
end

--- Vectors of texts, by the server's /embeddings. Long lists are split into several requests.
---@param texts string|string[]
---@param opts? {dimensions: integer?, timeout_ms: integer?, max_retries: integer?}
---@return number[]|number[][]? vectors in the order of the texts; of one text: its vector
---@return string? message
---@return string? code `UNSUPPORTED`: the server has no such endpoint, and nothing was sent
function Model:embed(texts, opts)
    scheduler.check("model.embed")
    if type(texts) ~= "string" then check_texts("model.embed", "texts", texts) end
    return measures.embed(self, texts, options.check("model.embed", opts, EMBED))
end

--- Documents by how well they answer a query, by the server's /rerank.
---@param query string
---@param documents string[]
---@param opts? {top_n: integer?, timeout_ms: integer?, max_retries: integer?}
---@return {index: integer, score: number, document: string}[]? ranked best first
---@return string? message
---@return string? code as of `embed`
function Model:rerank(query, documents, opts)
    scheduler.check("model.rerank")
    options.argument("model.rerank", "query", query, "string")
    check_texts("model.rerank", "documents", documents)
    return measures.rerank(self, query, documents, options.check("model.rerank", opts, RERANK))
end

--- Rewards of the steps of a solution, by a reward or process-reward model at vLLM's /pooling: each
--- is of the prompt with the steps up to this one, an empty line between them.
---@param prompt string
---@param steps string[]
---@param opts? {timeout_ms: integer?, max_retries: integer?}
---@return number[]? rewards
---@return string? message
---@return string? code as of `embed`
function Model:reward(prompt, steps, opts)
    scheduler.check("model.reward")
    options.argument("model.reward", "prompt", prompt, "string")
    check_texts("model.reward", "steps", steps)
    return measures.reward(self, prompt, steps, options.check("model.reward", opts, MEASURE))
end

--- How likely a continuation of a prompt is, by the server's /completions with `echo`: the natural
--- logarithm, summed over its tokens. A token across the border counts whole.
---@param prompt string
---@param continuation string|string[] a list is one request
---@param opts? {timeout_ms: integer?, max_retries: integer?}
---@return {logprob: number, tokens: integer, logprobs: number[]}? score; of a list: a list
---@return string? message
---@return string? code as of `embed`; also if the tokens returned do not spell the text
function Model:score(prompt, continuation, opts)
    scheduler.check("model.score")
    options.argument("model.score", "prompt", prompt, "string")
    if type(continuation) ~= "string" then
        check_texts("model.score", "continuation", continuation)
    end
    return measures.score(self, prompt, continuation, options.check("model.score", opts, MEASURE))
end

--- Has the model choose: by the likelihood of each choice as a continuation where the server tells
--- it ("score"), else by OpenAI's endpoint for decisions ("decisions"), else by a typed answer
--- ("schema", whose probabilities are 1 and 0).
---@param prompt string
---@param choices string[] at least two
---@param opts? {timeout_ms: integer?, max_retries: integer?}
---@return string? choice
---@return {index: integer, probabilities: number[], method: string}|string about; or a message
---@return string? code
function Model:choose(prompt, choices, opts)
    scheduler.check("model.choose")
    options.argument("model.choose", "prompt", prompt, "string")
    check_texts("model.choose", "choices", choices)
    if #choices < 2 then error("model.choose: choices must have at least two texts", 2) end
    opts = options.check("model.choose", opts, MEASURE)
    return measures.choose(self, prompt, choices, opts, function(text, schema)
        return self:complete(text, options.merge({ returns = schema, n = 1 }, opts))
    end)
end

options.methods(Model, "m", "a model")

--- The models that a provider offers.
---@param provider_name string
---@param opts? ponder.model.OpenOptions
---@return {id: string, name: string?, created: integer?, shutdown: string?}[]? models `shutdown`:
---  the date "YYYY-MM-DD" from which on it is gone
---@return string? message
---@return string? code
function model.list(provider_name, opts)
    local opened = open(default_client(), provider_name .. ":*", opts, 2)
    return opened:list()
end

---------------------------------------------------------------------------------------------------
-- Extensions

--- Adds a provider, or replaces a built-in one.
---@param known string its name, the part of model names before the colon
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
---@package
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

--- Wraps every request in a function, inside the existing middleware. It is called as
--- `middleware(request, next)` in the task that made the call, and returns the results of
--- `next(request)` (a ponder.model.Draft, or nil, message, code), or other ones. It may suspend the
--- task. `request:identity()` identifies a request, `request:estimate()` returns what it may cost.
---@param middleware fun(request: ponder.model.Request, next: fun(request?: ponder.model.Request)):
---ponder.model.Draft?, string?, string?
---@return fun(): boolean remove
function model.use(middleware)
    local remove = add(default_client().middleware, middleware, "model.use")
    return remove
end

--- Adds a function that is called with every request sent and every reply, redacted:
--- `{type = "request"|"reply"|"failure", id, attempt, model, metadata, ...}`; for the other fields
--- see ponder.model.verbose.
---@param observer fun(event: table)
---@return fun(): boolean remove
function model.observe(observer)
    local remove = add(default_client().observers, observer, "model.observe")
    return remove
end

--- Makes models opened later share the limits of their keys with all machines that use the same
--- Redis: `requests_per_minute`, `tokens_per_minute`, and the waits that servers demand. Used by
--- `ponder work`.
---@param redis ponder.redis.Client? nil: stop sharing
---@package
function model.share_limits(redis) default_client().limits_at = redis end

--- Adds a rule on what a model refuses, before the built-in ones (ponder.model.params).
---@param rule ponder.model.Rule
function model.refuse(rule) params.add(rule, 2) end

--- A separate client with its own transport, clock, environment and limits.
---@param parts table see ponder.model.client
---@return {open: fun(name?: string, opts?: ponder.model.OpenOptions): ponder.model.Model}
---@package
function model.client(parts)
    local own = client.new(parts)
    return {
        state = own,
        share_limits = function(redis) own.limits_at = redis end,
        open = function(name, opts)
            local opened = open(own, name, opts, 2)
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
