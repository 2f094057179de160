--- The cost of calls in USD. An unknown price is nil, never 0.
---
--- The built-in prices are in ponder/model/prices.lua, in USD per million tokens. A table in the
--- same form, returned by $XDG_CONFIG_HOME/ponder/prices.lua or as `prices` in config.lua,
--- overrides them; `only = true` in it disables the built-in ones.
---
---     return {
---         ["openai:gpt-6.2-sol"] = { input = 2.5, output = 10, cache_read = 1.25 },
---         ["openai:ft:gpt-6-luna*"] = { input = 0.3, output = 1.2 },
---         ["https://openrouter.ai/api/v1/qwen/*"] = { input = 0.1, output = 0.3 },
---         ["http://localhost:8080/v1/*"] = { input = 0, output = 0, context = 32768 },
---     }
---
--- A key is a model's name as in model.open; for a server other than OpenAI's or Anthropic's own,
--- it is its URL, a slash and the name. A name also matches its dated snapshots (gpt-5 matches
--- gpt-5-2025-08-07, claude-haiku-4-5 matches claude-haiku-4-5-20251001 and -latest); a name with
--- a star at its end matches all that begin with it. The exact name wins, then the longest match.

local builtin = require "ponder.model.prices"
local endpoints = require "ponder.model.endpoints"
local name = require "ponder.model.name"
local options = require "ponder.base.options"
local tally = require "ponder.base.tally"

local price = {}

local count = tally.count

---@class ponder.model.Rates USD per million tokens
---@field input number
---@field output number including reasoning
---@field cache_read number? cached input; default: as input
---@field cache_write number? default: as input
---@field cache_write_1h number? of entries that last an hour; default: as cache_write
---@field batch number? part of the price that a batch costs; default: 0.5
---@field shutdown string? the date from which on the model is gone: "2027-01-14"
---@field context integer? size of the model's context in tokens; nil: unknown
---@field long ponder.model.Rates? for requests whose prompt has more than `long.above` tokens

local PER = 1000000

-------------------------------------------------------------------------------
-- Tables of prices

local RATE = { type = "number", min = 0, finite = true }
local RATES = {
    input = { type = "number", min = 0, finite = true, required = true },
    output = { type = "number", min = 0, finite = true, required = true },
    cache_read = RATE, cache_write = RATE, long = { type = "table" },
    cache_write_1h = RATE, batch = RATE, shutdown = { type = "string" },
    context = { type = "integer", min = 1 },
}
local LONG = { above = { type = "integer", min = 0, required = true } }
for part, rule in pairs(RATES) do
    LONG[part] = rule.type == "number" and rule or nil
end

local function check_rates(key, rates)
    local what = "the price of " .. options.show(key)
    if type(key) ~= "string" or type(rates) ~= "table" then
        error(what .. " must be a table (got " .. options.show(rates) .. ")", 0)
    end
    local checked = options.check(what, rates, RATES, 0)
    if checked.long then
        options.check(what .. ", long", checked.long, LONG, 0)
    end
    return checked
end

local function check_table(path, list, names_line)
    if type(list) ~= "table" then
        name.refuse(path, "must be a table of prices (got " .. options.show(list) .. ")")
    end
    local checked = { only = list.only }
    for key, rates in pairs(list) do
        if key ~= "only" then
            local ok, found = pcall(check_rates, key, rates)
            checked[key] = ok and found or name.refuse(path, found, names_line and tostring(key))
        end
    end
    return checked
end

---Loads the prices. A broken file or an invalid entry raises.
---@param env fun(name: string): string?
---@return table<string, ponder.model.Rates> prices
---@package
function price.load(env, config)
    local path, own = name.prices_path(env), nil
    if path then
        own = name.load_file(path)
    end
    local merged = {}
    for _, list in ipairs { config.prices and check_table(name.config_path(env), config.prices,
        true) or {}, own ~= nil and check_table(path, own) or {}, builtin } do
        for key, rates in pairs(list) do
            if merged[key] == nil then
                merged[key] = rates
            end
        end
        if list.only then
            break
        end
    end
    merged.only = nil
    return merged
end

-------------------------------------------------------------------------------
-- One model

---The key of a model in a table of prices.
---@param base_url? string of its server; nil: the provider's own
---@package
function price.name(provider, model, base_url)
    local row = endpoints.LIST[provider]
    local home = provider ~= "ollama" and row and type(row.base_url) == "string" and row.base_url
    if home and base_url and base_url ~= home and base_url:sub(1, #home + 1) ~= home .. "/" then
        return base_url:gsub("%?.*$", ""):gsub("/+$", "") .. "/" .. model
    end
    return provider .. ":" .. model
end

-- How closely a key matches a model, -1 if not: longer names, and names without a star, are closer.
local function closeness(key, wanted)
    local front = key:match("^(.*)%*$")
    if front then
        return wanted:sub(1, #front) == front and #front or -1
    end
    local rest = wanted:sub(1, #key) == key and wanted:sub(#key + 1) or ""
    local is_snapshot = rest == "-latest" or rest:find("^[-@]%d%d%d%d[%d-]*$")
    return is_snapshot and #key + 0.5 or -1
end

---The price of a model.
---@param provider string "openai"
---@param model string "gpt-6-luna"
---@param base_url? string of its server; nil: the provider's own
---@param prices table<string, ponder.model.Rates>
---@return ponder.model.Rates? rates nil: unknown
function price.of(provider, model, base_url, prices)
    local wanted = price.name(provider, model, base_url)
    local best, closest = prices[wanted], -1
    if not best then
        for key, rates in pairs(prices) do
            local close = closeness(key, wanted)
            if close > closest then
                best, closest = rates, close
            end
        end
    end
    return best
end

-- The rates for a prompt of `input` tokens.
local function rates_for(rates, input)
    return rates.long and input > rates.long.above and rates.long or rates
end

-- Whether calls cost nothing, however many tokens they use.
local function is_free(rates)
    for _, part in ipairs { "input", "output", "cache_read", "cache_write" } do
        if (rates[part] or 0) ~= 0 then
            return false
        end
    end
    return not rates.long or is_free(rates.long)
end

---The cost of a call.
---@param rates ponder.model.Rates? nil: unknown
---@param usage ponder.model.Usage? `input_tokens` includes cached ones, `output_tokens` reasoning
---@return number? usd nil if the price is unknown, or the usage of a model that is not free
function price.cost(rates, usage)
    if rates and is_free(rates) then
        return 0.0
    end
    local input = rates and usage and count(usage.input_tokens)
    local output = input and count(usage.output_tokens)
    if not output then
        return nil
    end
    local at = rates_for(rates, input)
    local read, written = count(usage.cache_read_tokens) or 0, count(usage.cache_write_tokens) or 0
    local plain, write = math.max(0, input - read - written), at.cache_write or at.input
    local hours = math.min(count(usage.cache_write_1h_tokens) or 0, written)
    return tally.usd((plain * at.input + read * (at.cache_read or at.input)
        + (written - hours) * write + hours * (at.cache_write_1h or write)
        + output * at.output) / PER)
end

---The upper bound of the cost of a prompt and a reply: as if the prompt were written to the cache.
---@param rates ponder.model.Rates?
---@param for_an_hour boolean? it may be
---@return number? usd
---@package
function price.upper_bound(rates, input_tokens, output_tokens, for_an_hour)
    if not rates or not count(input_tokens) or not count(output_tokens) then
        return nil
    end
    local at = rates_for(rates, input_tokens)
    local input = math.max(at.input, at.cache_write or 0, for_an_hour and at.cache_write_1h or 0)
    return tally.usd((input_tokens * input + output_tokens * at.output) / PER)
end

---The rates of calls in a batch.
---@param rates ponder.model.Rates?
---@param part? number default: what the rates say
---@return ponder.model.Rates?
---@package
function price.in_batch(rates, part)
    local its = rates and options.merge({}, rates)
    part = part or rates and rates.batch or 0.5
    for _, kind in ipairs(its and { "input", "output", "cache_read", "cache_write",
        "cache_write_1h" } or {}) do
        its[kind] = its[kind] and part * its[kind]
    end
    if its and its.long then
        its.long = price.in_batch(its.long, part)
    end
    return its
end

---The message for a required price that is unknown.
---@param wanted string from `price.name`
---@param env? fun(name: string): string?
---@package
function price.missing(wanted, env)
    return ("max_cost needs the price of %s, which is unknown: give it in %s, as "
        .. '{ [%q] = { input = USD, output = USD } } per million tokens'):format(wanted,
        name.prices_path(env or os.getenv) or "prices.lua", wanted)
end

return price
