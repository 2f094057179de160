--- What a call costs, in USD. A price that nobody knows is nil, never 0.
---
--- Prices are in ponder/model/prices.lua, in USD per million tokens. A table of the same form may
--- be returned by $XDG_CONFIG_HOME/ponder/prices.lua, or be `prices` in config.lua: its entries
--- come before the built-in ones, and `only = true` in it leaves those out.
---
---     return {
---         ["openai:gpt-4o"] = { input = 2.5, output = 10, cache_read = 1.25 },
---         ["openai:ft:gpt-4o-mini*"] = { input = 0.3, output = 1.2 },
---         ["https://openrouter.ai/api/v1/qwen/*"] = { input = 0.1, output = 0.3 },
---         ["http://localhost:8080/v1/*"] = { input = 0, output = 0, context = 32768 },
---     }
---
--- A model is named as in model.open; one that is served elsewhere than at OpenAI's or Anthropic's
--- own address by that address, a slash and its name. A name stands for itself and its dated
--- snapshots (gpt-4o for gpt-4o-2024-08-06, claude-haiku-4-5 for claude-haiku-4-5-20251001 and
--- -latest), one with a star at its end for all that begin so. The exact name counts first, then
--- the longest.

local builtin = require "ponder.model.prices"
local name = require "ponder.model.name"
local options = require "ponder.options"
local tally = require "ponder.tally"

local price = {}

local count = tally.count

---@class ponder.model.Rates USD per million tokens
---@field input number
---@field output number reasoning included
---@field cache_read number? of a prompt that was cached; default: as input
---@field cache_write number? default: as input
---@field context integer? tokens that the model's context holds; nil: unknown
---@field long ponder.model.Rates? of requests whose prompt has more than `long.above` tokens

local HOME = { openai = "https://api.openai.com", anthropic = "https://api.anthropic.com" }
local PER = 1000000

-------------------------------------------------------------------------------
-- Tables of prices

local RATE = { type = "number", min = 0, finite = true }
local RATES = {
    input = { type = "number", min = 0, finite = true, required = true },
    output = { type = "number", min = 0, finite = true, required = true },
    cache_read = RATE, cache_write = RATE, long = { type = "table" },
    context = { type = "integer", min = 1 },
}
local LONG = { above = { type = "integer", min = 0, required = true } }
for part, rule in pairs(RATES) do
    LONG[part] = part ~= "long" and part ~= "context" and rule or nil
end

local function check_table(where, list)
    if type(list) ~= "table" then
        error(where .. ": must be a table of prices (got " .. options.show(list) .. ")", 0)
    end
    local checked = {}
    for key, rates in pairs(list) do
        local what = ("%s: the price of %s"):format(where, options.show(key))
        if key == "only" then
            checked.only = rates
        elseif type(key) ~= "string" or type(rates) ~= "table" then
            error(what .. " must be a table (got " .. options.show(rates) .. ")", 0)
        else
            checked[key] = options.check(what, rates, RATES, 0)
            if checked[key].long then
                options.check(what .. ", long", checked[key].long, LONG, 0)
            end
        end
    end
    return checked
end

---The prices that hold with an environment and its config file.
---@param env fun(name: string): string?
---@param config ponder.model.Config
---@return table<string, ponder.model.Rates> prices raises for a broken file or a wrong entry
function price.load(env, config)
    local path, own = name.prices_path(env), nil
    if path then
        own = name.load_file(path)
    end
    local merged = {}
    for _, list in ipairs { config.prices and check_table("the config file's prices",
        config.prices) or {}, own ~= nil and check_table(path, own) or {}, builtin } do
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

local shared

-- Those of this process's environment, read once.
local function of_process()
    shared = shared or price.load(os.getenv, name.load_config(os.getenv))
    return shared
end

-------------------------------------------------------------------------------
-- One model

---The name by which a model stands in a table of prices.
---@param provider string
---@param model string
---@param base_url? string where it is served; nil: at the provider's own address
---@return string
function price.name(provider, model, base_url)
    local home = HOME[provider]
    if home and base_url and base_url ~= home and base_url:sub(1, #home + 1) ~= home .. "/" then
        return base_url:gsub("%?.*$", ""):gsub("/+$", "") .. "/" .. model
    end
    return provider .. ":" .. model
end

local function is_snapshot(rest)
    return rest:find("^[-@]%d%d%d%d[%d-]*$") ~= nil or rest == "-latest"
end

-- How closely an entry stands for a model: the longer the name, and without a star, the closer.
local function closeness(key, wanted)
    local front = key:match("^(.*)%*$")
    if front then
        return wanted:sub(1, #front) == front and #front or -1
    end
    return wanted:sub(1, #key) == key and is_snapshot(wanted:sub(#key + 1)) and #key + 0.5 or -1
end

---What a model costs.
---@param provider string "openai"
---@param model string "gpt-4o-mini"
---@param base_url? string where it is served; nil: at the provider's own address
---@param prices? table<string, ponder.model.Rates> default: those of this process
---@return ponder.model.Rates? rates nil: nobody has said
function price.of(provider, model, base_url, prices)
    prices = prices or of_process()
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

---What some usage costs.
---@param rates ponder.model.Rates? nil: unknown
---@param usage ponder.model.Usage? `input_tokens` includes cached ones, `output_tokens` reasoning
---@return number? usd nil where the price or the usage is unknown
function price.cost(rates, usage)
    local input = rates and usage and count(usage.input_tokens)
    local output = input and count(usage.output_tokens)
    if not output then
        return nil
    end
    local at = rates
    if rates.long and input > rates.long.above then
        at = rates.long
    end
    local read, written = count(usage.cache_read_tokens) or 0, count(usage.cache_write_tokens) or 0
    local plain = math.max(0, input - read - written)
    return tally.usd((plain * at.input + read * (at.cache_read or at.input)
        + written * (at.cache_write or at.input) + output * at.output) / PER)
end

---The most that a prompt and a reply may cost, on the safe side: as if the prompt were cached.
---@param rates ponder.model.Rates?
---@param input_tokens integer
---@param output_tokens integer
---@return number? usd
function price.most(rates, input_tokens, output_tokens)
    if not rates then
        return nil
    end
    local usage = { input_tokens = input_tokens, output_tokens = output_tokens }
    local plain = price.cost(rates, usage)
    usage.cache_write_tokens = input_tokens
    return plain and math.max(plain, price.cost(rates, usage))
end

---What to say where a price is needed and not known.
---@param wanted string as `price.name` gives it
---@param env? fun(name: string): string?
---@return string
function price.missing(wanted, env)
    return ("max_cost needs the price of %s, which is unknown: give it in %s, as "
        .. '{ [%q] = { input = USD, output = USD } } per million tokens'):format(wanted,
        name.prices_path(env or os.getenv) or "prices.lua", wanted)
end

return price
