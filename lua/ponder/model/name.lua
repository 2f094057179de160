--- Resolves what a user writes ("openai:gpt-6-luna", an alias, or nothing) to a provider, a model
--- and an endpoint. Reads the config file.
---
--- The order of precedence: options, aliases of the config file, the environment, providers and
--- defaults of the config file, built-in values.

local base64 = require "ponder.base.base64"
local files = require "ponder.base.file"
local options = require "ponder.base.options"
local pure = require "ponder.base.pure"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"

local name = {}

---------------------------------------------------------------------------------------------------
-- URLs

--- A key without surrounding white space, such as a line break; nil if empty.
---@param key string?
---@return string?
function name.key(key)
    key = key and key:match("^%s*(.-)%s*$")
    return key ~= "" and key or nil
end

-- What is wrong with a URL, or nil. It is shown if it holds no secret.
local function problem_of_url(url)
    local scheme, rest = url:match("^(%a[%w+.-]*)://(.*)$")
    local shown = not url:find("[@?]") and " (got " .. options.show(url) or ""
    if not scheme or not scheme:lower():find("^https?$") then
        return "must begin with http:// or https://" .. (shown == "" and "" or shown
            .. (scheme and ")" or "; did you mean http://" .. url .. "?)"))
    elseif not rest:gsub("^[^/?#]*@", ""):find("^[%w%[._~%%-]") or url:find("[%s%c]") then
        return "has no valid host" .. (shown == "" and "" or shown .. ")")
    end
end

--- Raises what is wrong with a URL of the config file.
---@param env fun(name: string): string?
function name.check_url(url, env)
    local problem = problem_of_url(url)
    if problem then name.refuse(name.config_path(env), "base_url " .. problem, "base_url") end
end

---@class ponder.model.Endpoint
---@field base_url string without userinfo and trailing slashes
---@field headers table<string, string>
---@field secrets string[]
---@field key_from string?
---@field other_url string? in place of base_url, if nothing listens there
---@field is_home boolean? it is the service's own

--- The endpoint of a provider. A user and password in the URL become a header, so that the URL has
--- no secret.
---@param secret string? the key in the headers
---@param headers table<string, string>
---@param key_from string? where the key comes from, for messages
---@param url_from string? likewise the URL; default "base_url"
---@return ponder.model.Endpoint?
---@return string? message
function name.endpoint(base_url, secret, headers, key_from, url_from)
    local problem = problem_of_url(base_url)
    if problem then return nil, (url_from or "base_url") .. " " .. problem end
    local scheme, userinfo, rest = base_url:match("^(%a+)://([^/?#]*)@(.*)$")
    if not scheme then scheme, rest = base_url:match("^(%a+)://(.*)$") end
    local kept, secrets = {}, { secret }
    for header, value in pairs(headers) do
        if value:find("[\r\n%z]") then
            local from = secret and value:find(secret, 1, true) and key_from
            return nil, (from or "the header " .. header) .. " has a line break or NUL within"
        end
        kept[header] = value
    end
    if userinfo then
        local plain = quote.percent_decode(userinfo)
        kept["authorization"] = kept["authorization"] or "Basic " .. base64.encode(plain)
        secrets[#secrets + 1] = userinfo
        secrets[#secrets + 1] = plain:match(":(.+)$")
    end
    for field, value in (rest:match("%?(.*)$") or ""):gmatch("([^&=]+)=([^&#]*)") do
        if not redact.is_harmless_field(field) then -- ?key=..., ?sig=...
            secrets[#secrets + 1], secrets[#secrets + 2] = value, quote.percent_decode(value)
        end
    end
    return { base_url = scheme:lower() .. "://" .. rest:gsub("/+$", ""), headers = kept,
        secrets = secrets, key_from = key_from }
end

--- Appends a path to a base URL, before its query if it has one (as Azure's does).
function name.join(base_url, path)
    local front, query = base_url:match("^([^?]*)%?(.*)$")
    if not front then return base_url .. path end
    return front:gsub("/+$", "") .. path .. (path:find("?", 1, true) and "&" or "?") .. query
end

---------------------------------------------------------------------------------------------------
-- The config file

---@class ponder.model.Config
---@field default_model string?
---@field default_provider string?
---@field aliases table<string, string|table> name to name, or to {model = name, option = value...}
---@field providers table<string, table> options of model.open for each provider
---@field defaults table options of model.open for all
---@field prices table<string, ponder.model.Rates> see ponder.model.price
---@field mcp table<string, ponder.mcp.OpenOptions> servers by the name that --mcp gives

local SECTIONS = { default_model = "string", default_provider = "string", aliases = "table",
    providers = "table", defaults = "table", prices = "table", mcp = "table" }

--- What to do about a broken file of settings: ends the message of every such error.
name.ADVICE = "; correct the file, or move it away"

--- Raises what is wrong with a file of settings, in one line: file, line, what to do.
---@param path string? nil: the settings did not come from a file
---@param word string? what is wrong: the line is the first one that has it
function name.refuse(path, problem, word)
    local place, number = path or "config.lua", 0
    local text = word and path and files.read(path)
    for line in (text or ""):gmatch("[^\n]*\n?") do
        number = number + 1
        if text and line:gsub("%-%-.*", ""):find(word, 1, true) then
            place = ("%s:%d"):format(place, number)
            break
        end
    end
    error(("%s: %s%s"):format(place, problem, name.ADVICE), 0)
end

-- The config file must name scripts by absolute paths: a relative one depends on the directory.
local function check_script(path, config, text)
    text = type(text) == "table" and text.model or text
    local script = type(text) == "string" and (text:match("^script[:/](.*)$")
        or config.default_provider == "script" and text)
    if script and script:sub(1, 1) ~= "/" then
        name.refuse(path, ("the path of %s must be absolute"):format(text))
    end
end

local function check_config(path, config)
    if type(config) ~= "table" then name.refuse(path, "must return a table") end
    for field, value in pairs(config) do
        local wanted = SECTIONS[field]
        if not wanted then
            name.refuse(path, ("unknown field %s%s"):format(options.show(field),
                options.hint(field, options.names(SECTIONS))), tostring(field))
        elseif type(value) ~= wanted then
            name.refuse(path, ("%s must be a %s (got %s)"):format(field, wanted,
                options.show(value)), field)
        end
    end
    check_script(path, config, config.default_model)
    for _, alias in pairs(config.aliases or {}) do check_script(path, config, alias) end
    return config
end

-- Ignores relative paths in the environment, which would depend on the working directory.
local function absolute(value) return (value or ""):match("^/.*") end

local function path_of(env, file)
    local home = absolute(env("HOME"))
    local at = absolute(env("XDG_CONFIG_HOME")) or home and home .. "/.config"
    return at and at .. "/ponder/" .. file
end

--- The path of the config file.
---@param env fun(name: string): string?
---@return string?
function name.config_path(env) return path_of(env, "config.lua") end

--- The path of the file of prices.
---@param env fun(name: string): string?
---@return string?
function name.prices_path(env) return path_of(env, "prices.lua") end

--- Loads a file of settings: Lua without any library, only data. A broken file raises.
---@return any value nil if the file does not exist
function name.load_file(path)
    local text, message = files.read(path)
    if not text and files.exists(path) then error(message .. name.ADVICE, 0) end
    if not text then return nil end
    local ok, value = pcall(pure.data, text, path)
    if not ok then error(value .. name.ADVICE, 0) end
    if value == nil then return false end
    return value
end

-- Replaces `api_key = "$NAME"` by the value of that variable, and has the keys redacted.
local function expand_keys(value, env)
    for field, inner in pairs(value) do
        if field == "api_key" then
            local variable = tostring(inner):match("^%$([%a_][%w_]*)$")
            value[field] = variable and env(variable) or not variable and inner or nil
            redact.new { value[field] }
        elseif type(inner) == "table" then
            expand_keys(inner, env)
        end
    end
    return value
end

--- Reads the config file; a missing one is empty.
---@param env fun(name: string): string?
function name.load_config(env)
    local path = name.config_path(env)
    local config = path and name.load_file(path)
    if config == nil then return {} end
    return expand_keys(check_config(path, config), env)
end

---------------------------------------------------------------------------------------------------
-- Names

local function unknown_provider(text, providers)
    local names, near = options.names(providers), nil
    for _, known in ipairs(names) do
        for _, pattern in ipairs(providers[known].looks_like or {}) do
            if not near and text:find(pattern) then near = known .. ":" .. text end
        end
    end
    local first, rest = text:match("^([^:/]*)([:/].*)$")
    local known = not near and first and options.nearest(first, names)
    near = near or known and known .. rest
    return ("no provider in %s%s; known: %s; $PONDER_PROVIDER names the one for bare model names")
        :format(options.show(text), near and (" (did you mean %q?)"):format(near) or "",
            table.concat(names, ", "))
end

--- Splits "provider:model". The part before the first `:` or `/` must be a provider, because names
--- of models contain these too.
---@param providers table<string, table>
---@param fallback string? the provider of a bare model name
---@return string? provider
---@return string model; or a message
function name.split(text, providers, fallback)
    local first, rest = text:match("^([^:/]*)[:/](.*)$")
    if first and providers[first] then
        if rest == "" then return nil, ("%s needs a model: %q"):format(text, first .. ":MODEL") end
        return first, rest
    end
    if providers[text] then return nil, ("%s needs a model: %q"):format(text, text .. ":MODEL") end
    if text == "" then return nil, "the model's name is empty" end
    if not fallback then return nil, unknown_provider(text, providers) end
    if not providers[fallback] then
        return nil, ("$PONDER_PROVIDER is %s, which is not a provider%s; known: %s"):format(
            options.show(fallback), options.hint(fallback, options.names(providers)),
            table.concat(options.names(providers), ", "))
    end
    return fallback, text
end

local MAX_ALIASES = 8 -- length of a chain

--- Follows the config file's aliases.
---@param aliases table<string, string|table>
---@return string? text nil and a message for a circle
---@return table|string opts the options of the aliases
function name.follow_aliases(text, aliases)
    local opts = {}
    for _ = 1, MAX_ALIASES do
        local target = aliases[text]
        if target == nil then return text, opts end
        if type(target) == "table" then
            for field, value in pairs(target) do
                if field ~= "model" and opts[field] == nil then opts[field] = value end
            end
            target = target.model
        end
        if type(target) ~= "string" then
            return nil, ("the config file's alias %s has no model"):format(options.show(text))
        end
        text = target
    end
    return nil, ("the config file's alias %s is part of a cycle"):format(options.show(text))
end

return name
