--- Finds the secrets that a text of Lua holds as literals, before anything has run: a key that a
--- script gives to a model which it opens later, a header, a signature in a URL.
---
--- A literal counts as a secret where its name says so (`api_key = "..."`, `local KEY = "..."`),
--- in a table `headers = { ... }` unless the header is known to be harmless, as a value in the
--- query of a URL likewise, as a user in a URL, as a variable's value where that variable is such
--- an option, and where it has the form of a key (`sk-...`, a long run of mixed letters and
--- digits).

local literals = {}

-- Names of options and variables whose value a script does nothing with but send it.
local OPTION_NAMES = { "api_?key", "access_?key", "authori[sz]ation", "passw" }
-- Those of other secrets. Not "key" or "token" alone, which name much else.
local SECRET_NAMES = { "secret", "bearer", "credential", "auth_?token", "access_?token",
    "api_?token", "private_?key" }

-- What begins a key of a well-known service.
local PREFIXES = { "sk%-", "sk_", "pk_", "rk_", "gh[opsu]_", "github_pat_", "glpat%-", "xox[abp]%-",
    "AKIA", "AIza", "hf_", "gsk_", "r8_", "eyJ", "pplx%-", "xai%-", "nvapi%-" }

local SHORTEST_KEY = 16
local MIXED_RUN = 20 -- letters and digits in one run: no word, no name of a model, no date

local HARMLESS_HEADERS = { accept = true, ["accept-encoding"] = true, ["accept-language"] = true,
    ["anthropic-beta"] = true, ["anthropic-version"] = true, ["cache-control"] = true,
    connection = true, ["content-encoding"] = true, ["content-length"] = true,
    ["content-type"] = true, date = true, expect = true, host = true, ["openai-beta"] = true,
    ["transfer-encoding"] = true, ["user-agent"] = true, ["x-title"] = true }

local HARMLESS_FIELDS = { alt = true, ["api-version"] = true, api_version = true, beta = true,
    format = true, model = true, stream = true, v = true, version = true }

---Whether nobody has to hide a header's value, whoever gave it.
---@param name string
---@return boolean
function literals.is_harmless_header(name)
    return HARMLESS_HEADERS[name:lower()] or false
end

---Whether nobody has to hide the value of a field in the query of a URL.
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
        if #part >= MIXED_RUN and part:find "%d" and part:find "%a" then
            return true
        end
    end
    return false
end

-- The parts of a text that have the form of a key.
local function add_keys_by_form(text, add)
    for run in text:gmatch "[%w_-]+" do
        if #run >= SHORTEST_KEY and has_form_of_key(run) then
            add(run)
        end
    end
end

-- Of a query without its URL, what counts as a secret.
local SECRET_FIELDS = { "sig", "key", "token", "secret", "auth", "passw", "credential" }

-- The values in the query of each URL, and what stands before its @.
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

-- What is left of a literal of the kind "Bearer X".
local function without_scheme(value)
    return value:match "^%s*%a+%s+(%S+)%s*$" or value
end

---------------------------------------------------------------------------------------------------
-- Lua's tokens, as far as they matter here

-- The end of a long bracket that begins at `at`, and its content; nil where there is none.
local function long_bracket(text, at)
    local level = text:match("^%[(=*)%[", at)
    if not level then
        return nil
    end
    local first, last = text:find("]" .. level .. "]", at + #level + 2, true)
    return last or #text, text:sub(at + #level + 2, (first or #text + 1) - 1)
end

-- The end of a string in quotes that begins at `at`, and its content as it is written.
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

-- Calls on_string(content, first, last), on_word(word), on_mark(character) for what comes.
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

-- What ends the value of an assignment.
local ENDS = { [","] = true, [";"] = true, ["}"] = true, ["local"] = true, ["return"] = true,
    ["end"] = true, ["function"] = true }

-- After these words a literal is a value; after others it is the argument of a call.
local OPERATORS = { ["and"] = true, ["or"] = true, ["not"] = true }

-- Knows the name to which the next literal belongs (`name =`, `["name"] =`), and whether it stands
-- in `headers = { ... }` or behind `headers["..."] =`. Literals in parentheses are arguments.
local function reader(on_literal, on_variable)
    local name, candidate -- of the value that comes; of an assignment that may come
    local before -- the token
    local is_header = false -- of the assignment that may come
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

    -- What the name, or the table around it, says of a literal.
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

---The secrets in a text of Lua, also one that does not compile.
---@param text string
---@return string[] found values, wherever they stand
---@return {first: integer, last: integer}[] options where literals stand that are nothing but an
---  option or a header, in order
function literals.find(text)
    local found, options, seen = {}, {}, {}
    local variables, values = {}, {} -- those that are given as an option; what is assigned to which
    local function add(value)
        if not seen[value] then
            seen[value] = true
            found[#found + 1] = value
        end
    end
    scan(text, reader(function(content, first, kind, variable)
        add_parts_of_urls(content, add)
        local secret = without_scheme(content)
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
