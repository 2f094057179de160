--- Removes keys and other secrets from messages, logs and files.
---
--- A redactor knows the secrets of one open model: its key, the userinfo of its URL, and the values
--- of all headers and query fields except known harmless ones. Messages (errors, events, --verbose)
--- lose every secret of 4 or more characters. Replies lose only those that may be real keys: 8 or
--- more characters, and not a plain word, because a local server's placeholder key ("ollama") must
--- not be removed from what a model says. Files lose the real keys of all models that this process
--- has opened, and those that its scripts contain as literals.

local literals = require "ponder.redact.literals"

local redact = {}

local MARK = "[redacted]"
redact.MARK = MARK -- replaces secrets
local MIN_SECRET, MIN_KEY, MAX_WORD = 4, 8, 15 -- characters
local PLACEHOLDERS = { ["lm-studio"] = true, ["not-needed"] = true, ["no-key-needed"] = true,
    ["sk-no-key-required"] = true }

local SECRET_WORDS = { "auth", "key", "token", "cookie", "secret", "password" }

--- Whether the name of a variable, field or header suggests a secret value.
---@param name string
---@return boolean
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
---@param text string
---@param mark? string replaces it
---@return string
function redact.without_userinfo(text, mark)
    return (text:gsub(USERINFO, mark and "%1" .. mark .. "@" or "%1"))
end

--- Headers without values, except known harmless ones.
---@param headers table<string, any>
---@return table<string, any>
function redact.without_values(headers)
    local shown = {}
    for name, value in pairs(headers) do
        shown[name] = literals.is_harmless_header(tostring(name)) and value or MARK
    end
    return shown
end

--- A URL for logs: without userinfo, and with the values of harmless fields only.
---@param url string may lack its scheme, as in $OLLAMA_HOST
---@param mark? string replaces the userinfo
---@return string
function redact.address(url, mark)
    local plain = redact.without_userinfo(url, mark)
    plain = plain:gsub("^[^/%s@?#]+@", mark and mark .. "@" or "")
    return (plain:gsub("([?&])([^?&=#]+)=([^?&#]*)", function(before, field, value)
        return before .. field .. "=" .. (literals.is_harmless_field(field) and value or MARK)
    end))
end

local known = {} -- the real keys of this process, longest first
local probe = {} -- key -> its part from the first rare character on, for a fast search

local function note_key(key)
    for _, other in ipairs(known) do
        if other == key then return end
    end
    known[#known + 1] = key
    probe[key] = key:sub(key:find("%L") or 1)
    table.sort(known, function(a, b) return #a > #b end)
end

--- A text for a file: without the real keys that this process knows.
---@param text string
---@return string
function redact.keep(text)
    for _, key in ipairs(known) do
        if text:find(probe[key], 1, true) then text = replace_plain(text, key) end
    end
    return text
end

--- The keys that redact.keep removes, longest first.
---@return string[]
function redact.keys() return table.move(known, 1, #known, 1, {}) end

--- The number of these keys.
---@return integer
function redact.count_keys() return #known end

-- Of "Bearer X" only X is secret, and it may be echoed without the scheme.
local function add_secret(secrets, value)
    if type(value) ~= "string" then return end
    value = value:match("^%s*%a+%s+(%S+)%s*$") or value
    if #value >= MIN_SECRET then secrets[#secrets + 1] = value end
end

-- Whether a secret may be a real key, not a placeholder for a server that needs none.
local function is_key(secret)
    if #secret < MIN_KEY or PLACEHOLDERS[secret] then return false end
    return #secret > MAX_WORD or secret:find("%A") ~= nil
end

---@class ponder.Redactor
local Redactor = {}
Redactor.__index = Redactor
Redactor.__name = "ponder.Redactor"
Redactor.__tostring = function() return "ponder.Redactor" end -- never its secrets

--- Redacts a message: secrets, and userinfo in URLs.
---@param text string
---@return string
function Redactor:text(text)
    for _, secret in ipairs(self.secrets) do text = replace_plain(text, secret) end
    return redact.without_userinfo(text)
end

--- Redacts a reply: real keys that a server sent back.
---@param bytes string
---@return string
function Redactor:reply(bytes)
    for _, key in ipairs(self.keys) do bytes = replace_plain(bytes, key) end
    return bytes
end

--- Redacts headers for a message.
---@param headers table<string, string>
---@return table<string, string>
function Redactor:headers(headers)
    local shown = {}
    for name, value in pairs(headers) do
        shown[name] = literals.is_harmless_header(name) and self:text(tostring(value)) or MARK
    end
    return shown
end

--- A redactor for these secrets and the values of these headers that may be secret.
---@param secrets string[]
---@param headers? table<string, string>
---@return ponder.Redactor
function redact.new(secrets, headers)
    local all, keys = {}, {}
    for _, secret in ipairs(secrets) do add_secret(all, secret) end
    for name, value in pairs(headers or {}) do
        if not literals.is_harmless_header(name) then add_secret(all, value) end
    end
    table.sort(all, function(a, b) return #a > #b end) -- a secret may contain a shorter one
    for _, secret in ipairs(all) do
        if is_key(secret) then
            keys[#keys + 1] = secret
            if secret:find("/", 1, true) then -- as some servers escape it in JSON
                keys[#keys + 1] = secret:gsub("/", "\\/")
            end
        end
    end
    for _, key in ipairs(keys) do note_key(key) end
    return setmetatable({ secrets = all, keys = keys }, Redactor)
end

--- Redacts the text of a script for a log. From now on redact.keep removes the script's literal
--- secrets everywhere, even before they are used. Literals of options and headers are masked here
--- even if they are too short or too common to be removed elsewhere.
---@param text string
---@return string
function redact.script(text)
    local found, options = literals.find(text)
    redact.new(found)
    local parts, from = {}, 1
    for _, option in ipairs(options) do
        parts[#parts + 1] = text:sub(from, option.first - 1)
        parts[#parts + 1] = MARK
        from = option.last + 1
    end
    parts[#parts + 1] = text:sub(from)
    return redact.keep(table.concat(parts))
end

return redact
