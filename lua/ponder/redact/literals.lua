--- Finds secrets that are literals in Lua source text, before it runs: a model's key, a header, a
--- signature in a URL.
---
--- These literals count as secrets: those whose name says so (`api_key = "..."`, `local KEY =
--- "..."`); values in a table `headers = { ... }` and in the query of a URL, unless their names are
--- known to be harmless; the userinfo of a URL; values of variables that are passed as such an
--- option; and strings in the form of a key (`sk-...`, a long run of mixed letters and digits).

local literals = {}

-- Names of options whose values a script only sends, so that they can be masked in its text.
local OPTION_NAMES = { "api_?key", "access_?key", "authori[sz]ation", "passw" }
-- Names of other secrets. Not "key" or "token" alone, which have other meanings.
local SECRET_NAMES = { "secret", "bearer", "credential", "auth_?token", "access_?token",
    "api_?token", "private_?key" }

-- Prefixes of keys of well-known services.
local PREFIXES = { "sk%-", "sk_", "pk_", "rk_", "gh[opsu]_", "github_pat_", "glpat%-", "xox[abp]%-",
    "AKIA", "AIza", "hf_", "gsk_", "r8_", "eyJ", "pplx%-", "xai%-", "nvapi%-" }

local MIN_KEY = 16
local MIN_MIXED_RUN = 20 -- letters and digits; shorter runs may be model names or dates

local HARMLESS_HEADERS = { accept = true, ["accept-encoding"] = true, ["accept-language"] = true,
    ["anthropic-beta"] = true, ["anthropic-version"] = true, ["cache-control"] = true,
    connection = true, ["content-encoding"] = true, ["content-length"] = true,
    ["content-type"] = true, date = true, expect = true, host = true, ["openai-beta"] = true,
    ["transfer-encoding"] = true, ["user-agent"] = true, ["x-title"] = true }

local HARMLESS_FIELDS = { alt = true, ["api-version"] = true, api_version = true, beta = true,
    format = true, model = true, stream = true, v = true, version = true }

---Whether a header's value is never secret.
---@param name string
---@return boolean
function literals.is_harmless_header(name)
    return HARMLESS_HEADERS[name:lower()] or false
end

---Whether the value of a field in a URL's query is never secret.
---@param name string
---@return boolean
function literals.is_harmless_field(name)
    return HARMLESS_FIELDS[name:lower()] or false
end

local function is_any(name, patterns)
    name = name:lower():gsub("-", "_")
    for _, pattern in ipairs(patterns) do
        if name:find(pattern) then
            return true
        end
    end
    return false
end

local function has_form_of_key(run)
    if not run:find "%d" then
        return false
    end
    for _, prefix in ipairs(PREFIXES) do
        if run:find("^" .. prefix) then
            return true
        end
    end
    for part in run:gmatch "%w+" do
        if #part >= MIN_MIXED_RUN and part:find "%d" and part:find "%a" then
            return true
        end
    end
    return false
end

-- The parts of a text that have the form of a key.
local function add_keys_by_form(text, add)
    for run in text:gmatch "[%w_-]+" do
        if #run >= MIN_KEY and has_form_of_key(run) then
            add(run)
        end
    end
end

-- Secret fields of a query without its URL.
local SECRET_FIELDS = { "sig", "key", "token", "secret", "auth", "passw", "credential" }

-- The secret values in queries, and the userinfo of URLs.
local function add_parts_of_urls(text, add)
    for field, value in text:gmatch "[?&]([%w_.-]+)=([^%s&#\"']+)" do
        if is_any(field, SECRET_FIELDS) then
            add(value)
        end
    end
    for rest in text:gmatch "%a[%w+.-]*://([^%s\"'<>%]]+)" do
        local userinfo = rest:match "^([^/?#]*)@"
        if userinfo then
            add(userinfo)
            add(userinfo:match ":(.+)$" or userinfo)
        end
        for field, value in (rest:match "%?([^#]*)" or ""):gmatch "([^&=]+)=([^&]*)" do
            if not literals.is_harmless_field(field) then
                add(value)
            end
        end
    end
end

---------------------------------------------------------------------------------------------------
-- A simple scanner for Lua

-- The end of a long bracket that begins at `at`, and its content; nil if there is none.
local function long_bracket(text, at)
    local level = text:match("^%[(=*)%[", at)
    if not level then
        return nil
    end
    local first, last = text:find("]" .. level .. "]", at + #level + 2, true)
    return last or #text, text:sub(at + #level + 2, (first or #text + 1) - 1)
end

-- The end of a quoted string that begins at `at`, and its content with escapes unchanged.
local function quoted(text, at)
    local quote, from = text:sub(at, at), at + 1
    while true do
        local found = text:find("[\\\n" .. quote .. "]", from)
        local byte = found and text:sub(found, found)
        if byte ~= "\\" then
            return found or #text, text:sub(at + 1, (found or #text + 1) - 1)
        end
        from = found + 2
    end
end

-- Calls on.string(content, first, last) for each string, on.word(text) for all other tokens.
local function scan(text, on)
    local at = 1
    while true do
        at = text:find("%S", at)
        if not at then
            return
        end
        local character = text:sub(at, at)
        local last, content
        if character == "-" and text:find("^%-%-", at) then
            last = long_bracket(text, at + 2) or (text:find("\n", at, true) or #text)
        elseif character == '"' or character == "'" then
            last, content = quoted(text, at)
        elseif character == "[" and text:find("^%[=*%[", at) then
            last, content = long_bracket(text, at)
        else
            last = select(2, text:find("^[%w_]*", at + 1))
            if not character:find "[%w_]" then
                last = at
            end
            on.word(text:sub(at, last))
        end
        if content then
            on.string(content, at, last)
        end
        at = last + 1
    end
end

---------------------------------------------------------------------------------------------------

-- Tokens that end the value of an assignment.
local ENDS = { [","] = true, [";"] = true, ["}"] = true, ["local"] = true, ["return"] = true,
    ["end"] = true, ["function"] = true }

-- After these words a literal is a value; after others it is the argument of a call.
local OPERATORS = { ["and"] = true, ["or"] = true, ["not"] = true }

-- Tracks the name that the next literal is assigned to (`name =`, `["name"] =`), and whether it is
-- in `headers = { ... }` or after `headers["..."] =`. Literals in parentheses are arguments.
local function reader(on_literal, on_variable)
    local name, candidate -- name of the current value; name of a possible assignment
    local before -- the previous token
    local is_header = false -- the possible assignment is to headers["..."]
    local depth, headers_depth, parentheses = 0, nil, 0
    local on = {}

    local function open_table()
        depth = depth + 1
        if name and name:lower():find "headers$" then
            headers_depth = headers_depth or depth
        end
        name = nil
    end

    local function close_table()
        if headers_depth == depth then
            headers_depth = nil
        end
        depth = depth - 1
    end

    -- What the name, or the table around it, says about a literal.
    local function kind_of_value()
        if not name or parentheses > 0 or before:find "^[%a_]" and not OPERATORS[before] then
            return nil
        elseif is_any(name, OPTION_NAMES)
            or (headers_depth or is_header) and not literals.is_harmless_header(name) then
            return "option"
        end
        return (name:find "KEY$" or is_any(name, SECRET_NAMES)) and "secret" or nil
    end

    function on.word(word)
        if word == "=" then
            name, candidate, parentheses = candidate, nil, 0
        elseif word == "(" or word == ")" then
            parentheses = parentheses + (word == "(" and 1 or -1)
        elseif word == "{" then
            open_table()
        elseif ENDS[word] then
            name, candidate = nil, nil
            if word == "}" then close_table() end
        elseif word == "[" then
            is_header = before ~= nil and before:lower():find "headers$" ~= nil
        elseif word ~= "]" then
            if kind_of_value() then
                on_variable(word)
            end
            candidate, is_header = word:find "^[%a_]" and word or nil, false
        end
        before = word
    end

    function on.string(content, first)
        if before == "[" then
            candidate = content
        end
        on_literal(content, first, before ~= "[" and kind_of_value() or nil,
            before == "=" and name or nil)
        before = "string"
    end

    return on
end

---The secrets in Lua source text, which need not compile.
---@param text string
---@return string[] found values
---@return {first: integer, last: integer}[] options positions of literals that are options or
---  headers, in order
function literals.find(text)
    local found, options, seen = {}, {}, {}
    local variables, values = {}, {} -- variables passed as an option; pairs {variable, value}
    local function add(value)
        if not seen[value] then
            seen[value] = true
            found[#found + 1] = value
        end
    end
    scan(text, reader(function(content, first, kind, variable)
        add_parts_of_urls(content, add)
        local secret = content:match "^%s*%a+%s+(%S+)%s*$" or content -- the X of "Bearer X"
        if kind then
            add(secret)
        elseif variable then
            values[#values + 1] = { variable, secret }
        end
        if kind == "option" then
            local at = text:find(content, first, true) + #content - #secret
            options[#options + 1] = { first = at, last = at + #secret - 1 }
        end
    end, function(variable)
        variables[variable] = true
    end))
    for _, assigned in ipairs(values) do
        if variables[assigned[1]] then
            add(assigned[2])
        end
    end
    add_keys_by_form(text, add)
    return found, options
end

return literals
