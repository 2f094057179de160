--- Whether the user who runs `ponder resume` or `fork` wants what a log would run, and where keys
--- may go: to addresses that the environment, the configuration or the command line of now names,
--- not to one that only a log names, whoever has signed it. (A script is code: it may send what it
--- reads anywhere, and runs because it is signed, and as it was.)

local name = require "ponder.model.name"
local quote = require "ponder.quote"
local redact = require "ponder.redact"
local trust = require "ponder.log.trust"

local consent = {}

--- For ponder.args.
consent.RULES = {
    trust = { help = "run a log that somebody else wrote, or that was changed, and sign it" },
    base_url = { value = "URL", many = true,
        help = "a server that only the log names may have its key" },
}

-- Which variable names a server, and those with keys for it.
local ADDRESSES = {
    { name = "OPENAI_BASE_URL", provider = "openai", keys = { "OPENAI_API_KEY" } },
    { name = "ANTHROPIC_BASE_URL", provider = "anthropic",
        keys = { "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN" } },
    { name = "OLLAMA_HOST", provider = "ollama", keys = { "OLLAMA_API_KEY" } },
}

local function env(variable)
    local value = os.getenv(variable)
    return value ~= "" and value or nil
end

-- Whether settings hold a key, or headers, which may be one.
local function holds_key(settings)
    return type(settings) == "table" and (settings.api_key or settings.headers) ~= nil
end

-- Whether the user has a key that would go with requests to a provider; nil: to any.
local function has_key(config, address)
    for _, variable in ipairs(address and address.keys or {}) do
        if env(variable) then
            return true
        end
    end
    for _, alias in pairs(config.aliases or {}) do
        if holds_key(alias) then
            return true
        end
    end
    if address then
        return holds_key(config.defaults) or holds_key((config.providers or {})[address.provider])
    end
    for _, one in ipairs(ADDRESSES) do
        if has_key(config, one) then
            return true
        end
    end
    return false
end

-- As a log has them: the addresses that are named now.
local function named_now(config, given)
    local named = {}
    local function add(url)
        if type(url) == "string" then
            named[redact.address(url)], named[redact.address(url, redact.MARK)] = true, true
        end
    end
    for _, url in ipairs(given or {}) do
        add(url)
    end
    for _, address in ipairs(ADDRESSES) do
        add(env(address.name))
    end
    local sections = { config.providers or {}, config.aliases or {}, { config.defaults } }
    for _, section in ipairs(sections) do
        for _, settings in pairs(section) do
            add(type(settings) == "table" and settings.base_url or nil)
        end
    end
    return named
end

-- The first address that only the log names and that would get a key.
local function unnamed(log, config, command, opts)
    local named = named_now(config, opts.base_url)
    for _, address in ipairs(ADDRESSES) do
        local before = log.run.options[address.name]
        local is_whole = before and not before:find(redact.MARK, 1, true)
        if before and before ~= "" and not env(address.name) and not named[before]
            and (not is_whole or has_key(config, address)) then
            return before
        end
    end
    local asks = has_key(config) and not opts.other_server
    for _, url in ipairs(asks and trust.base_urls(log.run.arguments) or {}) do
        local is_obstacle = command == "resume" and url:find(redact.MARK, 1, true) -- see Rerun
        if not named[url] and not is_obstacle then
            return url
        end
    end
end

---Why a log must not be run: it is not this user's, or names a server that would get a key. One
---that the user trusts is signed.
---@param log ponder.log.Rerun
---@param command "resume"|"fork"
---@param opts {trust: boolean?, base_url: string[]?, other_server: boolean?} what the user says;
---  other_server: another takes the place of those on the log's command line
---@return string? message one line
function consent.give(log, command, opts)
    local is_signed = log:is_signed()
    if not is_signed and not opts.trust then
        return ("%s: was not written by you on this machine, or was changed: %s; --trust runs it")
            :format(log.path, log:describe())
    end
    local url = unnamed(log, name.load_config(env), command, opts)
    if url then
        return ("%s: it asked %s, which only the log names; a key goes where you say: ponder %s "
            .. "--base-url %s %s"):format(log.path, url, command, quote.shell(url),
            quote.shell(log.path))
    end
    if not is_signed then
        log:sign()
    end
end

return consent
