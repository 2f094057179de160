--- Masks secrets in what ponder writes: logs, caches, messages, --verbose.
---
--- Secrets are what is known to be one: the keys of models that this process has opened, of the
--- environment, of config.lua and of `serve --key-file`, the userinfo of URLs, and the values of
--- headers and query fields that are not known to be harmless. Nothing is guessed from a script's
--- text, and what a script receives is never changed.
---
--- A redactor knows the secrets of one open model. Messages (errors, events, --verbose) lose every
--- secret of 4 or more characters. Files lose only those that may be real keys, of all models: 8 or
--- more characters, and not a plain word, because a local server's placeholder key ("ollama") must
--- not be removed from what a model says.

local json = require "ponder.json"

local redact = {}

local MARK = "[redacted]"
redact.MARK = MARK -- replaces secrets
local MIN_SECRET, MIN_KEY, MAX_WORD = 4, 8, 15 -- characters
local PLACEHOLDERS = { ["lm-studio"] = true, ["not-needed"] = true, ["no-key-needed"] = true,
    ["sk-no-key-required"] = true }

local HARMLESS_HEADERS = { accept = true, ["accept-encoding"] = true, ["accept-language"] = true,
    ["anthropic-beta"] = true, ["anthropic-version"] = true, ["cache-control"] = true,
    connection = true, ["content-encoding"] = true, ["content-length"] = true,
    ["content-type"] = true, date = true, expect = true, host = true, ["openai-beta"] = true,
    ["transfer-encoding"] = true, ["user-agent"] = true, ["x-title"] = true }

local HARMLESS_FIELDS = { alt = true, ["api-version"] = true, api_version = true, beta = true,
    format = true, model = true, stream = true, v = true, version = true }

--- Whether the value of a field in a URL's query is never secret.
function redact.is_harmless_field(name) return HARMLESS_FIELDS[name:lower()] or false end

local function is_harmless_header(name) return HARMLESS_HEADERS[name:lower()] or false end

local SECRET_WORDS = { "auth", "key", "token", "cookie", "secret", "password" }

--- Whether the name of a variable, field or header suggests a secret value.
function redact.is_secret_name(name)
    name = name:lower()
    for _, word in ipairs(SECRET_WORDS) do
        if name:find(word, 1, true) then return true end
    end
    return false
end

local function replace_plain(text, secret)
    local first, last = text:find(secret, 1, true)
    if not first then return text end
    local pieces, from = {}, 1
    while first do
        pieces[#pieces + 1] = text:sub(from, first - 1)
        from = last + 1
        first, last = text:find(secret, from, true)
    end
    pieces[#pieces + 1] = text:sub(from)
    return table.concat(pieces, MARK)
end

-- Matches only the last character of the scheme: matching all of it would take quadratic time.
local USERINFO = "(%w://)[^/%s\"'?#]*@"

--- Removes the userinfo from the URLs in a text.
---@param mark? string replaces it
function redact.without_userinfo(text, mark)
    return (text:gsub(USERINFO, mark and "%1" .. mark .. "@" or "%1"))
end

--- Headers without values, except known harmless ones.
---@param headers table<string, any>
function redact.without_values(headers)
    local shown = {}
    for name, value in pairs(headers) do
        shown[name] = is_harmless_header(tostring(name)) and value or MARK
    end
    return shown
end

--- A URL for logs: without userinfo, and with the values of harmless fields only.
---@param url string may lack its scheme, as in $OLLAMA_HOST
---@param mark? string replaces the userinfo
function redact.address(url, mark)
    local plain = redact.without_userinfo(url, mark)
    plain = plain:gsub("^[^/%s@?#]+@", mark and mark .. "@" or "")
    return (plain:gsub("([?&])([^?&=#]+)=([^?&#]*)", function(before, field, value)
        return before .. field .. "=" .. (redact.is_harmless_field(field) and value or MARK)
    end))
end

redact.keys = 0 -- number of keys that redact.keep removes
local known = {} -- the real keys of this process, longest first
local probe = {} -- key -> its part from the first rare character on, for a fast search

local function note_key(key)
    for _, other in ipairs(known) do
        if other == key then return end
    end
    known[#known + 1] = key
    probe[key] = key:sub(key:find("%L") or 1)
    table.sort(known, function(a, b) return #a > #b end)
    redact.keys = #known
end

--- A text for a file: without the real keys that this process knows.
function redact.keep(text)
    for _, key in ipairs(known) do
        if text:find(probe[key], 1, true) then text = replace_plain(text, key) end
    end
    return text
end

-- Of "Bearer X" only X is secret, and it may be echoed without the scheme.
local function add_secret(secrets, value)
    if type(value) ~= "string" then return end
    value = value:match("^%s*%a+%s+(%S+)%s*$") or value
    if #value >= MIN_SECRET then secrets[#secrets + 1] = value end
end

---@class ponder.Redactor
local Redactor = {}
Redactor.__index = Redactor
Redactor.__name = "ponder.Redactor"
Redactor.__tostring = function() return "ponder.Redactor" end -- never its secrets

--- Redacts a message: secrets, and userinfo in URLs.
function Redactor:text(text)
    for _, secret in ipairs(self.secrets) do text = replace_plain(text, secret) end
    return redact.without_userinfo(text)
end

--- Redacts headers for a message.
---@param headers table<string, string>
---@return table<string, string>
function Redactor:headers(headers)
    local shown = {}
    for name, value in pairs(headers) do
        shown[name] = is_harmless_header(name) and self:text(tostring(value)) or MARK
    end
    return shown
end

--- A redactor for these secrets and the values of these headers that may be secret. From now on
--- redact.keep removes those that may be real keys.
---@param headers? table<string, string>
function redact.new(secrets, headers)
    local all = {}
    for _, secret in ipairs(secrets) do add_secret(all, secret) end
    for name, value in pairs(headers or {}) do
        if not is_harmless_header(name) then add_secret(all, value) end
    end
    table.sort(all, function(a, b) return #a > #b end) -- a secret may contain a shorter one
    for _, secret in ipairs(all) do
        local is_word = #secret <= MAX_WORD and not secret:find "%A" -- for a server without keys
        if #secret >= MIN_KEY and not PLACEHOLDERS[secret] and not is_word then
            local in_json = json.encode(secret):sub(2, -2)
            note_key(secret)
            note_key(in_json)
            note_key((in_json:gsub("/", "\\/"))) -- as some servers escape it
        end
    end
    return setmetatable({ secrets = all }, Redactor)
end

return redact
