--- Decides whether `ponder resume` or `fork` may run a log. The user must have signed or trusted
--- it; and keys go only to addresses that the present environment, configuration or command line
--- names, not to one that only the log names, whoever has signed it. (A script is code and may send
--- data anywhere; it runs because its log is signed and it has not changed.)

local name = require "ponder.model.name"
local quote = require "ponder.quote"
local redact = require "ponder.redact"
local trust = require "ponder.log.trust"
local variables = require "ponder.environment"

local consent = {}

--- Rules for ponder.args.
consent.RULES = {
    trust = { "trust",
        help = "run a log that someone else wrote or that was modified, and sign it" },
    base_url = { "base_url", value = "URL", many = true,
        help = "allow sending the key to a server that only the log names" },
}

local function env(variable)
    local value = os.getenv(variable)
    return value ~= "" and value or nil
end

-- Whether settings hold a key, or headers, which may contain one.
local function holds_key(settings)
    return type(settings) == "table" and (settings.api_key or settings.headers) ~= nil
end

-- Whether the user has a key for a provider; nil: for any.
local function has_key(config, provider)
    for _, variable in ipairs(variables.names("key", provider)) do
        if env(variable) then
            return true
        end
    end
    for _, alias in pairs(config.aliases or {}) do
        if holds_key(alias) then
            return true
        end
    end
    for known, settings in pairs(config.providers or {}) do
        if (not provider or known == provider) and holds_key(settings) then
            return true
        end
    end
    return holds_key(config.defaults)
end

-- The addresses that are named at present, in the forms that a log may have.
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
    for _, variable in ipairs(variables.names "address") do
        add(env(variable))
    end
    local sections = { config.providers or {}, config.aliases or {}, { config.defaults } }
    for _, section in ipairs(sections) do
        for _, settings in pairs(section) do
            add(type(settings) == "table" and settings.base_url or nil)
        end
    end
    return named
end

-- The first address that only the log names and to which a key would be sent.
local function unnamed(log, config, command, opts)
    local named = named_now(config, opts.base_url)
    for _, variable in ipairs(variables.LIST) do
        local before = variable.kind == "address" and log.run.options[variable.name]
        local is_whole = before and not before:find(redact.MARK, 1, true)
        if before and before ~= "" and not env(variable.name) and not named[before]
            and (not is_whole or has_key(config, variable.provider)) then
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

---Why a log must not be run: this user has not signed it, or it names a server that would get a
---key. Signs a log that the user trusts.
---@param log ponder.log.Rerun
---@param command "resume"|"fork"
---@param opts {trust: boolean?, base_url: string[]?, other_server: boolean?} flags; other_server:
---  one replaces the servers on the log's command line
---@return string? message one line
function consent.give(log, command, opts)
    local is_signed = log:is_signed()
    if not is_signed and not opts.trust then
        return ("%s: you did not write this log on this machine, or it was modified: %s; "
            .. "--trust runs it"):format(log.path, log:describe())
    end
    local url = unnamed(log, name.load_config(env), command, opts)
    if url then
        return ("%s: only this log names the server %s; to send it your key: ponder %s "
            .. "--base-url %s %s"):format(log.path, url, command, quote.shell(url),
            quote.shell(log.path))
    end
    if not is_signed then
        log:sign()
    end
end

return consent
