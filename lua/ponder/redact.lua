--- Keeps keys out of everything that people or logs see.
---
--- A redactor knows the secrets of one open model: its key, the userinfo of its URL, and the
--- values of all headers and query fields but those that are known to be harmless. Texts for
--- people (errors, events, --verbose) lose every secret of 4 characters or more. Replies lose only
--- those that may be real keys: of 8 or more, and not a mere word. A local server's stand-in key
--- ("ollama") must not be cut out of what a model says. What is kept in files loses the real keys
--- of all models that this process has opened, and those that its scripts hold as literals.

local literals = require "ponder.redact.literals"

local redact = {}

local MARK = "[redacted]"
redact.MARK = MARK -- what stands in the place of a secret
local SHORTEST_SECRET, SHORTEST_KEY, LONGEST_WORD = 4, 8, 15
local STAND_INS = { ["lm-studio"] = true, ["not-needed"] = true, ["no-key-needed"] = true,
    ["sk-no-key-required"] = true }

local SECRET_WORDS = { "auth", "key", "token", "cookie", "secret", "password" }

--- Whether the name of a variable, a field or a header says that its value is secret.
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

-- Begins with the last character of a scheme: to look for whole ones takes the square of a long
-- word's length.
local USERINFO = "(%w://)[^/%s\"'?#]*@"

--- A text without the userinfo of the URLs in it.
---@param text string
---@param mark? string in its place
---@return string
function redact.without_userinfo(text, mark)
    return (text:gsub(USERINFO, mark and "%1" .. mark .. "@" or "%1"))
end

--- Headers without their values, but for those that are known to be harmless.
---@param headers table<string, any>
---@return table<string, any>
function redact.without_values(headers)
    local shown = {}
    for name, value in pairs(headers) do
        shown[name] = literals.is_harmless_header(tostring(name)) and value or MARK
    end
    return shown
end

--- An address as it may be kept: without userinfo, and with the values of harmless fields alone.
---@param url string may lack its scheme, as in $OLLAMA_HOST
---@param mark? string in the place of userinfo
---@return string
function redact.address(url, mark)
    local plain = redact.without_userinfo(url, mark)
    plain = plain:gsub("^[^/%s@?#]+@", mark and mark .. "@" or "")
    return (plain:gsub("([?&])([^?&=#]+)=([^?&#]*)", function(before, field, value)
        return before .. field .. "=" .. (literals.is_harmless_field(field) and value or MARK)
    end))
end

local known = {} -- the real keys of this process, the longest first
local probe = {} -- of each, what to look for: what begins with a character that texts rarely have

local function note_key(key)
    for _, other in ipairs(known) do
        if other == key then return end
    end
    known[#known + 1] = key
    probe[key] = key:sub(key:find("%L") or 1)
    table.sort(known, function(a, b) return #a > #b end)
end

--- A text for a file: without any real key that a redactor of this process knows.
---@param text string
---@return string
function redact.keep(text)
    for _, key in ipairs(known) do
        if text:find(probe[key], 1, true) then text = replace_plain(text, key) end
    end
    return text
end

--- The keys that redact.keep looks for, the longest first.
---@return string[]
function redact.keys() return table.move(known, 1, #known, 1, {}) end

--- How many they are.
---@return integer
function redact.count_keys() return #known end

-- "Bearer X" hides X: the scheme alone is not a secret, and X may be echoed without it.
local function add_secret(secrets, value)
    if type(value) ~= "string" then return end
    value = value:match("^%s*%a+%s+(%S+)%s*$") or value
    if #value >= SHORTEST_SECRET then secrets[#secrets + 1] = value end
end

-- Whether a secret may be a real key, and not what people write where a server wants none.
local function is_key(secret)
    if #secret < SHORTEST_KEY or STAND_INS[secret] then return false end
    return #secret > LONGEST_WORD or secret:find("%A") ~= nil
end

---@class ponder.Redactor
local Redactor = {}
Redactor.__index = Redactor
Redactor.__name = "ponder.Redactor"
Redactor.__tostring = function() return "ponder.Redactor" end -- never its secrets

--- A text for people: no secret, no userinfo in URLs.
---@param text string
---@return string
function Redactor:text(text)
    for _, secret in ipairs(self.secrets) do text = replace_plain(text, secret) end
    return redact.without_userinfo(text)
end

--- The bytes of a reply: no real key that a server sent back.
---@param bytes string
---@return string
function Redactor:reply(bytes)
    for _, key in ipairs(self.keys) do bytes = replace_plain(bytes, key) end
    return bytes
end

--- Headers for people.
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
    table.sort(all, function(a, b) return #a > #b end) -- a secret may hold a shorter one
    for _, secret in ipairs(all) do
        if is_key(secret) then
            keys[#keys + 1] = secret
            if secret:find("/", 1, true) then -- how some servers write it in JSON
                keys[#keys + 1] = secret:gsub("/", "\\/")
            end
        end
    end
    for _, key in ipairs(keys) do note_key(key) end
    return setmetatable({ secrets = all, keys = keys }, Redactor)
end

--- The text of a script as it may be kept. The secrets that it holds as literals are known from now
--- on, before any of them is used; and options and headers are masked where they stand, also those
--- too short or too common to be looked for elsewhere.
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
