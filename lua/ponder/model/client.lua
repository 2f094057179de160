--- A client: what open models share, i.e. providers, transport, the limits of each host, middleware
--- and observers. A process has one; specs create others with a fake clock, transport and
--- environment.

local task = require "ponder.task"
local endpoints = require "ponder.model.endpoints"
local file = require "ponder.base.file"
local limit = require "ponder.model.limit"
local name = require "ponder.model.name"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local price = require "ponder.model.price"
local random = require "ponder.core.random"
local redact = require "ponder.base.redact"
local responses = require "ponder.model.responses"
local retry = require "ponder.model.retry"
local scheduler = require "ponder.run.task.scheduler"
local shared_limit = require "ponder.model.shared_limit"

local client = {}

local IN_FLIGHT = 64
local BATCH_POLL_MS, BATCH_WAIT_MS = 30000, 2000

-- A variable that shows that a provider is configured, and one of its models to suggest.
local CONFIGURED = { { "OPENAI_API_KEY", "openai:gpt-6-luna" },
    { "OPENAI_BASE_URL", "openai:MODEL" }, { "ANTHROPIC_API_KEY", "anthropic:claude-haiku-4-5" },
    { "ANTHROPIC_AUTH_TOKEN", "anthropic:claude-haiku-4-5" }, { "OLLAMA_HOST", "ollama:qwen3:8b" } }

--- The message for a missing model. There is no default, since calls cost money.
---@param env fun(name: string): string?
function client.no_model(env)
    local found, first = {}, nil
    for _, one in ipairs(CONFIGURED) do
        if (env(one[1]) or "") ~= "" then
            found[#found + 1] = ("%s (%s)"):format(one[2], one[1])
            first = first or one[2]
        end
    end
    return ("no model is named; %s. Name one: export PONDER_MODEL=%s, or --model %s if the command "
        .. "has it"):format(
        first and "configured: " .. table.concat(found, ", ")
        or "nothing is configured (OPENAI_API_KEY, ANTHROPIC_API_KEY, OLLAMA_HOST)",
        first or "ollama:qwen3:8b", first or "ollama:qwen3:8b")
end

local WARN_DAYS = 60

--- Says once that a model is shut down soon, or was.
---@param label string "openai:gpt-5"
---@param date string "2026-12-11"
---@param now_s number seconds since 1970
---@return boolean whether that is so
function client.warn_of_shutdown(label, date, now_s)
    local at = retry.parse_date(date .. "T00:00:00Z")
    local is_near = at ~= nil and at - now_s < WARN_DAYS * 86400
    if is_near then
        notice.once(("%s %s shut down on %s"):format(label, at < now_s and "was" or "will be",
            date))
    end
    return is_near
end

---@class ponder.model.Target the destination of the requests of an open model
---@field provider ponder.model.Provider
---@field label string "openai:gpt-6-luna", for people
---@field model string
---@field base_url string? without userinfo; nil for a provider without a server
---@field url string?
---@field headers table<string, string> contain keys: never shown
---@field is_home boolean? at the service's own address
---@field key_from string? the source of the key, for people: "$OPENAI_API_KEY"; nil: no key
---@field redactor ponder.Redactor
---@field one_by_one boolean? the server refuses or ignores `n`: later calls ask for each sample
---@field host table
---@field gate ponder.model.Gate
---@field price_name string the key of its price
---@field rates ponder.model.Rates? nil: the price is unknown
---@field batch {poll_ms: number, wait_ms: number}? its calls go in batches
---@field full_rates ponder.model.Rates? then: of those that do not

---@class ponder.model.Client
local Client = {}
Client.__index = Client

local DEFAULTS = {
    env = os.getenv,
    sleep = function(seconds) return task.sleep(seconds) end,
    now_ms = function() return scheduler.now() * 1000 end,
    now_s = os.time,
    -- For the jitter of retries, which must not change the numbers that a script draws.
    random = function() return (random.draw() >> 11) * 2.0 ^ -53 end,
}

--- Creates a client.
---@param parts? {transport?: table, env?: function, sleep?: function,
---  now_ms?: function, now_s?: function, random?: function, config?: ponder.model.Config,
---prices?: table<string, ponder.model.Rates>}
function client.new(parts)
    parts = parts or {}
    local env = parts.env or DEFAULTS.env
    local self = {
        env = function(variable)
            return name.key(env(variable)) -- trims spaces
        end,
        config = parts.config, prices = parts.prices, providers = endpoints.providers(),
        observers = {}, families = {}, middleware = {}, hosts = {}, gates = {}, requests = 0,
        lots = {}, batches = {}, resumed = {}, -- ponder.model.batch
    }
    for part in pairs(DEFAULTS) do self[part] = self[part] or parts[part] or DEFAULTS[part] end
    self.transport = parts.transport or require("ponder.model.transport").shared()
    return setmetatable(self, Client)
end

--- The config file, read once.
function Client:settings()
    self.config = self.config or name.load_config(self.env)
    return self.config
end

--- The prices for this client's environment and config file, read once.
---@return table<string, ponder.model.Rates>
function Client:price_list()
    self.prices = self.prices or price.load(self.env, self:settings())
    return self.prices
end

-- Options of several tables, of which the first takes precedence.
local function overlay(...)
    local merged = {}
    for i = select("#", ...), 1, -1 do options.merge(merged, (select(i, ...))) end
    return merged
end

--- The default model's name: --model of the command, else $PONDER_MODEL, else the config file's.
---@return string?
function Client:default_model()
    return scheduler.current() and scheduler.context "default_model" or self.env("PONDER_MODEL")
        or self:settings().default_model
end

--- The provider and the model that a name refers to, and the options of its alias.
---@param text string? nil: the default model
---@param opts table as given
---@return string? provider nil with a message
function Client:resolve(text, opts)
    local settings = self:settings()
    endpoints.add(self.providers, settings)
    text = text or self:default_model()
    if not text then
        return nil, client.no_model(self.env)
    end
    local meant, extra = name.follow_aliases(text, settings.aliases or {})
    if not meant then name.refuse(name.config_path(self.env), extra, text) end
    local fallback = self.env("PONDER_PROVIDER") or settings.default_provider
    local provider, model = name.split(meant, self.providers, fallback)
    if not provider then return nil, model end
    return provider, model, overlay(opts, extra), settings
end

-- All models of a host share the in-flight limit, set by the last model opened with one.
local function limit_host(self, host, url, opts)
    local max = opts.concurrency or host.max or IN_FLIGHT
    if opts.adaptive and (not host.adaptive or host.adaptive.max ~= max) then
        host.adaptive = limit.adaptive(max)
    elseif opts.adaptive == false then
        host.adaptive = nil
    elseif host.adaptive then
        host.adaptive.max = max
    end
    local current = host.adaptive and host.adaptive.current or max
    host.max = max
    if current ~= host.current then
        host.current = current
        self.transport:limit(url, current)
    end
end

local function set_headers(headers, more)
    for header, value in pairs(more or {}) do
        if type(header) ~= "string" then
            return nil, "opts.headers must map names to values"
        end
        if not header:find("^[%w!#$%%&'*+.^_`|~-]+$") or tostring(value):find("[%c]") then
            return nil, ("opts.headers[%q] is not a header"):format(header)
        end
        headers[header:lower()] = value and tostring(value) or nil
    end
    return headers
end

local ENDPOINT = { base_url = "string", headers = "table", secrets = "table" }

-- The endpoint of a provider, or nil and a message. One without a server has none.
local function configure(known, provider, opts, env, from_file)
    local endpoint, message = {}, nil
    if provider.configure then
        endpoint, message = provider.configure(opts, env, from_file)
    end
    if endpoint == nil and message then return nil, message end
    for _, field in ipairs(options.names(ENDPOINT)) do
        local value, kind = type(endpoint) == "table" and endpoint[field], ENDPOINT[field]
        if type(value) ~= kind and (value ~= nil or field == "base_url" and provider.path) then
            return nil, ("the provider %s: configure must return a table with %s, a %s (got %s)")
                :format(known, field, kind, type(value or endpoint)) -- it may be a secret
        end
    end
    return options.merge({ headers = {}, secrets = {} }, endpoint)
end

-- Has the calls of a target go in batches, if its provider has them.
local function set_batch(target, opts, by_flag)
    if not target.provider.batch then
        return notice.once(("%s has no batches: its calls are sent as usual, at the full price")
            :format(target.label))
    end
    target.batch = { poll_ms = opts.batch_poll_ms or by_flag.poll_ms or BATCH_POLL_MS,
        wait_ms = opts.batch_wait_ms or BATCH_WAIT_MS }
    target.full_rates, target.rates = target.rates, price.in_batch(target.rates)
end

-- Where systems keep the authorities that they trust; libcurl looks at the first place only.
local AUTHORITIES = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" }

local function find_authorities(env, base_url)
    if not base_url or not base_url:find "^https:" then return nil end
    local given = env "SSL_CERT_FILE"
    for i = 1, given and 0 or #AUTHORITIES do
        if file.exists(AUTHORITIES[i]) then return i > 1 and AUTHORITIES[i] or nil end
    end
    return given
end

--- The target for a name and options.
---@param text string?
---@param opts table checked options of model.open
---@param check fun(all: table): table raises the first invalid option, which is the file's
---@return ponder.model.Target? target nil with a message
---@return string|table rest the message; or the options, with those of aliases and the file
function Client:target(text, opts, check)
    local known, model, mine, settings = self:resolve(text, opts)
    if not known then return nil, model end
    local provider_settings = (settings.providers or {})[known]
    if provider_settings and type(provider_settings) ~= "table" then
        name.refuse(name.config_path(self.env),
            ("the config file's providers.%s must be a table of options"):format(known), known)
    end
    local provider = self.providers[known]
    local from_file = overlay(provider_settings, settings.defaults)
    local ok, all = pcall(check, overlay(mine, from_file))
    if not ok then
        name.refuse(name.config_path(self.env), all,
            all:match 'unknown option "([^"]+)"' or all:match "opts%.([%w_]+)")
    end
    local endpoint, message = configure(known, provider, mine, self.env, from_file)
    if not endpoint then return nil, message end
    mine = all
    local headers, problem = set_headers(endpoint.headers, mine.headers)
    if not headers then return nil, problem end
    headers["content-type"] = headers["content-type"] or "application/json"
    if mine.api == "responses" then
        if not options.has(responses.PROVIDERS, known) then
            return nil, ("%s has no Responses API; %s have"):format(known,
                table.concat(responses.PROVIDERS, ", "))
        end
        provider = responses.of(provider)
    end
    local target = { provider = provider, label = known .. ":" .. model, name = known,
        model = model, base_url = endpoint.base_url, other_url = endpoint.other_url,
        is_home = endpoint.is_home, headers = headers, key_from = endpoint.key_from,
        ca_file = mine.ca_file or find_authorities(self.env, endpoint.base_url),
        proxy = mine.proxy,
        redactor = redact.new(endpoint.secrets, headers) }
    target.price_name = price.name(known, model, target.base_url)
    target.rates = price.of(known, model, target.base_url, self:price_list())
    if endpoint.base_url then self:connect(target, mine) end
    local by_flag = scheduler.context "batch" or nil
    if mine.batch or by_flag and mine.batch == nil then set_batch(target, mine, by_flag or {}) end
    if target.rates and target.rates.shutdown then
        client.warn_of_shutdown(target.label, target.rates.shutdown, self.now_s())
    end
    if provider.open then
        local opened, why = provider.open(target)
        if not opened then return nil, ("%s: %s"):format(target.label, why) end
    end
    return target, mine
end

--- Sets the URL of a target and the limits that it shares with others of its host.
function Client:connect(target, opts)
    target.url = name.join(target.base_url, target.provider.path)
    target.other_url = target.other_url and name.join(target.other_url, target.provider.path)
    local at = target.url:match "^%a+://[^/?#]+"
    self.hosts[at] = self.hosts[at] or {}
    target.host = self.hosts[at]
    limit_host(self, target.host, target.url, opts)
    local key = at .. " " .. target.model
    self.gates[key] = self.gates[key] or limit.gate()
    if self.limits_at then
        local headers = target.headers
        self.gates[key].shared = shared_limit.new(self.limits_at, key,
            headers.authorization or headers["x-api-key"] or "")
    end
    target.gate = self.gates[key]
    target.gate:configure(opts.requests_per_minute, opts.tokens_per_minute, self.now_ms())
end

---------------------------------------------------------------------------------------------------
-- Observers

--- Calls all observers with the event of a request or reply, redacted: see model.observe. Scripted
--- models have no method, URL or headers.
---@param kind "request"|"reply"|"failure"
---@param attempt integer
---@param request ponder.model.Request
---@param what any the body, or the result
---@param draft ponder.model.Draft|ponder.model.Failure|nil
---@param wait_ms number?
function Client:notify(kind, attempt, request, what, draft, wait_ms)
    if not self.observers[1] then return end
    local target, redactor = request.target, request.target.redactor
    local out = { type = kind, id = request.number, attempt = attempt, model = target.label,
        metadata = request.metadata }
    local url = request.url or target.url
    if kind == "request" and url then
        out.method, out.url = request.method or "POST", redactor:text(url)
        out.headers = redactor:headers(target.headers)
    end
    if kind == "request" then
        out.body = what and redactor:text(what)
    else
        out.status = draft.status or what.status
        out.total_ms, out.queue_ms = what.total_ms, what.queue_ms
    end
    if kind == "reply" then
        out.time_to_first_ms, out.usage, out.texts = draft.time_to_first_ms, draft.usage, {}
        for i, sample in ipairs(draft.samples) do
            out.texts[i] = redactor:text(tostring(sample.text or ""))
        end
    elseif kind == "failure" then
        out.code, out.message = draft.code, redactor:text(draft.message)
        out.retry_in_ms = wait_ms
    end
    for _, observer in ipairs(self.observers) do observer(out) end
end

return client
