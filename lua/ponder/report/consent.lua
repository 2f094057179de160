--- Whether the user who runs `ponder resume` or `fork` wants what a log would run, and where keys
--- may go.

local name = require "ponder.model.name"
local redact = require "ponder.redact"

local consent = {}

--- For ponder.args.
consent.RULE = { help = "run a log that somebody else wrote, or that was changed, and sign it" }

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

-- Whether the user has a key that would go with requests to a provider.
local function has_key(address, config)
    for _, variable in ipairs(address.keys) do
        if env(variable) then
            return true
        end
    end
    for _, alias in pairs(config.aliases or {}) do
        if holds_key(alias) then
            return true
        end
    end
    return holds_key(config.defaults) or holds_key((config.providers or {})[address.provider])
end

---Why a log must not be run: it is not this user's, or names a server that would get a key. One
---that the user trusts is signed.
---@param log ponder.log.Rerun
---@param trusted boolean? the user says that it may run
---@return string? message one line
function consent.give(log, trusted)
    local is_signed = log:is_signed()
    if not is_signed and not trusted then
        return ("%s: was not written by you on this machine, or was changed: %s; --trust runs it")
            :format(log.path, log:describe())
    end
    local config = name.load_config(env)
    for _, address in ipairs(ADDRESSES) do
        local before = log.run.options[address.name]
        local settings = (config.providers or {})[address.provider] or {}
        local named = env(address.name) or settings.base_url
            and redact.address(settings.base_url) == before
        local is_whole = before and not before:find(redact.MARK, 1, true)
        if before and not named and (not is_whole or has_key(address, config)) then
            return ("%s: it asked %s, which only the log names; a key goes where you say: "
                .. "%s=%s"):format(log.path, before, address.name, before)
        end
    end
    if not is_signed then
        log:sign()
    end
end

return consent
