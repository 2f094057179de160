-- What a call costs, and where prices come from.

local fake = require "model_fake"
local help = require "task_help"
local price = require "ponder.model.price"
local shell = require "shell"
local store = require "ponder.core.store"

local NONE = function() return nil end
local BUILT_IN = price.load(NONE, {})

local function input_of(provider, model, base_url, prices)
    local rates = price.of(provider, model, base_url, prices or BUILT_IN)
    return rates and rates.input
end

-- A directory with ponder/prices.lua in it, as an environment.
local function env_with(text)
    local dir = shell.directory { ["ponder/prices.lua"] = text }
    return function(variable) return variable == "XDG_CONFIG_HOME" and dir.path or nil end
end

describe("the price of a model", function()
    it("is that of its name, and of its dated snapshots", function()
        for _, case in ipairs {
            { "openai", "gpt-4o", 2.5 },
            { "openai", "gpt-4o-mini", 0.15 },
            { "openai", "gpt-4o-2024-08-06", 2.5 },
            { "openai", "gpt-4o-mini-2024-07-18", 0.15 },
            { "openai", "o3-2025-04-16", 2 },
            { "anthropic", "claude-haiku-4-5", 1 },
            { "anthropic", "claude-haiku-4-5-20251001", 1 },
            { "anthropic", "claude-opus-4-5-20251101", 5 },
            { "anthropic", "claude-opus-5-5-latest", 4 },
            { "groq", "openai/gpt-oss-120b", 0.15 },
            { "gemini", "gemini-3.8-flash", 0.75 },
            { "vllm", "anything", 0 },
            { "ollama", "qwen3:8b", 0 },
            { "script", "models/arithmetic.lua", 0 },
        } do
            assert.equal(case[3], input_of(case[1], case[2]), case[2])
        end
    end)

    it("is unknown for others, even with the same beginning", function()
        for _, case in ipairs {
            { "openai", "gpt-4o-audio-preview" }, { "openai", "gpt-5.9" }, { "openai", "gpt-4" },
            { "openai", "ft:gpt-4o-mini:me" }, { "anthropic", "claude-opus-4-9" },
            { "anthropic", "claude-sonnet-4-7" }, { "openai", "" }, { "play", "1" },
        } do
            assert.is_nil(price.of(case[1], case[2], nil, BUILT_IN), case[2])
        end
    end)

    it("applies only at the maker's own address", function()
        assert.equal(2.5, input_of("openai", "gpt-4o", "https://api.openai.com/v1"))
        assert.equal(2.5, input_of("openai", "gpt-4o", "https://api.openai.com/v1/"))
        assert.equal(1, input_of("anthropic", "claude-haiku-4-5", "https://api.anthropic.com"))
        for _, base_url in ipairs { "http://localhost:8080/v1",
            "https://api.openai.com.evil.org/v1", "https://openrouter.ai/api/v1",
            "https://me.openai.azure.com/v1?api-version=1" } do
            assert.is_nil(price.of("openai", "gpt-4o", base_url, BUILT_IN), base_url)
        end
        assert.equal(0, input_of("ollama", "qwen3:8b", "http://elsewhere:11434"))
        local GROQ = "https://api.groq.com/openai/v1"
        assert.equal(0.15, input_of("groq", "openai/gpt-oss-120b", GROQ))
        for _, base_url in ipairs { GROQ .. "x", "http://localhost:8080/v1" } do
            assert.is_nil(price.of("groq", "openai/gpt-oss-120b", base_url, BUILT_IN), base_url)
        end
        assert.equal("azure:m", price.name("azure", "m", "https://me.openai.azure.com"))
        assert.equal("https://me.openai.azure.com/v1/gpt-4o",
            price.name("openai", "gpt-4o", "https://me.openai.azure.com/v1?api-version=1"))
    end)

    it("is looked up exactly first, then by the longest name", function()
        local prices = { ["openai:*"] = { input = 1 }, ["openai:gpt-4*"] = { input = 2 },
            ["openai:gpt-4o"] = { input = 3 }, ["openai:o3"] = { input = 6 },
            ["openai:o3*"] = { input = 7 }, ["openai:gpt-4o-mini-2024-07-18"] = { input = 4 },
            ["http://localhost:8080/v1/*"] = { input = 5 } }
        for model, input in pairs { ["o9"] = 1, ["gpt-4o-mini"] = 2, ["gpt-4o"] = 3,
            ["gpt-4o-2024-08-06"] = 3, ["gpt-4-0613"] = 2, ["gpt-4o-mini-2024-07-18"] = 4,
            ["o3-2025-04-16"] = 6, ["o3-pro"] = 7 } do
            assert.equal(input, input_of("openai", model, nil, prices), model)
        end
        assert.equal(5, input_of("openai", "m", "http://localhost:8080/v1", prices))
        assert.is_nil(input_of("openai", "m", "http://localhost:8081/v1", prices))
    end)
end)

describe("the cost of a call", function()
    local rates = { input = 2, output = 8, cache_read = 0.5, cache_write = 2.5,
        long = { above = 1000000, input = 4, output = 12 } }

    local function close(expected, got)
        assert.is_true(math.abs(expected - got) < 1e-12, ("%s, not %s"):format(got, expected))
    end

    it("counts each kind of token once", function()
        close(10, price.cost(rates, { input_tokens = 1000000, output_tokens = 1000000 }))
        close((125 * 2 + 500 * 0.5 + 375 * 2.5 + 8) / 1e6, price.cost(rates, {
            input_tokens = 1000, cache_read_tokens = 500, cache_write_tokens = 375,
            output_tokens = 1, reasoning_tokens = 1 }))
        close(1e-6, price.cost({ input = 1, output = 1 }, { input_tokens = 1,
            cache_read_tokens = 1, output_tokens = 0 }))
    end)

    it("counts what is written for an hour at its own rate, if there is one", function()
        local usage = { input_tokens = 600, cache_write_tokens = 500, cache_write_1h_tokens = 300,
            output_tokens = 0 }
        for cost, of in pairs { [100 * 2 + 200 * 2.5 + 300 * 4] = { 2.5, 4 },
            [100 * 2 + 500 * 2.5] = { 2.5 }, [600 * 2] = {} } do
            local hourly = { input = 2, output = 8, cache_write = of[1], cache_write_1h = of[2] }
            close(cost / 1e6, price.cost(hourly, usage))
        end
        usage.cache_write_1h_tokens = 900 -- no more than are written
        close((100 * 2 + 500 * 4) / 1e6, price.cost({ input = 2, output = 8, cache_write = 2.5,
            cache_write_1h = 4 }, usage))
    end)

    it("has another rate for a long prompt, for all tokens", function()
        close(4 * 2 + 12, price.cost(rates, { input_tokens = 2000000, output_tokens = 1000000 }))
    end)

    it("is at most that of a prompt written to the cache and a full reply", function()
        close((1000 * 2.5 + 500 * 8) / 1e6, price.upper_bound(rates, 1000, 500))
        close((2000000 * 4 + 500 * 12) / 1e6, price.upper_bound(rates, 2000000, 500))
        local cheap_write = { input = 2, output = 8, cache_write = 1 }
        close(1000 * 2 / 1e6, price.upper_bound(cheap_write, 1000, 0))
        for _, wrong in ipairs { { nil, 1, 1 }, { rates, nil, 1 }, { rates, 1, nil } } do
            assert.is_nil(price.upper_bound(wrong[1], wrong[2], wrong[3]))
        end
    end)

    it("is unknown without a price or usage, and 0 if models are free", function()
        assert.equal(0, price.cost(price.of("script", "m.lua", nil, BUILT_IN), nil))
        assert.is_nil(price.cost(nil, { input_tokens = 1, output_tokens = 1 }))
        assert.is_nil(price.cost(rates, nil))
        assert.is_nil(price.cost(rates, { total_tokens = 9 }))
        assert.equal(0, price.cost(price.of("ollama", "m", nil, BUILT_IN),
            { input_tokens = 9, output_tokens = 9 }))
        for _, part in ipairs { "input", "output", "cache_read", "cache_write" } do
            local free = { input = 0, output = 0 }
            free[part] = 1
            assert.is_nil(price.cost(free, nil), part)
        end
        local until_long = { input = 0, output = 0, long = { above = 10, input = 1, output = 0 } }
        assert.is_nil(price.cost(until_long, nil))
        assert.equal(0, price.cost(until_long, { input_tokens = 10, output_tokens = 5 }))
        close(11e-6, price.cost(until_long, { input_tokens = 11, output_tokens = 5 }))
    end)

    it("is in the reply, and sums samples", function()
        local client = fake.client({ fake.reply("a"), fake.reply("b") })
        fake.run(function()
            local m = client.open("openai:gpt-4o-mini")
            local reply = m:chat { messages = { { role = "user", content = "?" } }, n = 2 }
            close(2 * (10 * 0.15 + 5 * 0.6) / 1e6, reply.cost)
            assert.is_nil(client.open("openai:nobody-knows"):chat {
                messages = { { role = "user", content = "?" } } }.cost)
        end)
    end)
end)

describe("the built-in prices", function()
    -- Of a table of rates: each part divided by that of the prompt, or of the short prompt.
    local function ratios(rates, of)
        local parts = { above = rates.above, batch = rates.batch }
        for _, part in ipairs { "input", "output", "cache_read", "cache_write",
            "cache_write_1h" } do
            parts[part] = rates[part] and rates[part] / (of and of[part] or rates.input)
        end
        return parts
    end

    it("follow the rules of their makers", function()
        local function check(expected, model, rates, of)
            for part, ratio in pairs(expected) do
                local found = ratios(rates, of)[part] or 0
                assert.is_true(math.abs(ratio - found) < 1e-9,
                    ("%s %s: %s"):format(model, part, found))
            end
        end
        local sol, opus = BUILT_IN["openai:gpt-6.2-sol"], BUILT_IN["anthropic:claude-opus-5"]
        check({ output = 5, cache_read = 0.05, cache_write = 1.25, batch = 0.5 }, "sol", sol)
        check({ above = 272000, input = 2, output = 1.5, cache_read = 2, cache_write = 2 }, "sol",
            sol.long, sol)
        check({ output = 5, cache_read = 0.1, cache_write = 1.25, cache_write_1h = 2, batch = 0.5 },
            "opus", opus)
        local haiku, grok = BUILT_IN["anthropic:claude-haiku-5-5"], BUILT_IN["xai:grok-4.7"]
        check({ above = 100000, input = 5, output = 5, cache_read = 5 }, "haiku", haiku.long, haiku)
        check({ above = 200000, input = 2, output = 2, cache_read = 2 }, "grok", grok.long, grok)
    end)

    -- Who changes a price on purpose changes the date in the file's header and the sum here.
    it("are those that were collected", function()
        local lines = {}
        local function add(place, value)
            if type(value) == "table" then
                for name, part in pairs(value) do
                    add(place .. " " .. name, part)
                end
            else
                lines[#lines + 1] = ("%s %s"):format(place, tonumber(value)
                    and ("%.9g"):format(value) or value)
            end
        end
        add("", BUILT_IN)
        table.sort(lines)
        assert.equal("370e2c1892eb67ec", store.sha256(table.concat(lines, "\n")):sub(1, 16))
    end)
end)

describe("the price of a batch", function()
    it("is the part of each rate that its table says, a half, or what is given", function()
        local rates = { input = 8, output = 16, cache_read = 4, cache_write = 2,
            cache_write_1h = 32, long = { above = 9, input = 80, output = 160 } }
        for _, case in ipairs { { 0.5 }, { 0.25, 0.25 }, { 0.125, 0.25, 0.125 } } do
            local part, given = case[1], case[3]
            rates.batch = case[2]
            assert.same({ input = 8 * part, output = 16 * part, cache_read = 4 * part,
                cache_write = 2 * part, cache_write_1h = 32 * part, batch = case[2],
                long = { above = 9, input = 80 * part, output = 160 * part } },
                price.in_batch(rates, given))
        end
        assert.is_nil(price.in_batch(nil))
    end)
end)

describe("a file of prices", function()
    it("overrides the built-in prices, but not the config file's", function()
        local env = env_with [[return {
            ["openai:gpt-4o"] = { input = 1, output = 1 },
            ["openai:mine"] = { input = 7, output = 7 },
        }]]
        local prices = price.load(env, { prices = { ["openai:mine"] = { input = 8, output = 8 } } })
        assert.equal(1, input_of("openai", "gpt-4o", nil, prices))
        assert.equal(8, input_of("openai", "mine", nil, prices))
        assert.equal(0.15, input_of("openai", "gpt-4o-mini", nil, prices))
        prices = price.load(env, { prices = { only = true, ["openai:mine"] = { input = 8,
            output = 8 } } })
        assert.same({ "openai:mine" }, { next(prices), next(prices, "openai:mine") })
    end)

    it("can replace the built-in prices", function()
        local env = env_with 'return { only = true, ["openai:a"] = { input = 1, output = 1 } }'
        local prices = price.load(env, {})
        assert.equal(1, input_of("openai", "a", nil, prices))
        assert.is_nil(input_of("openai", "gpt-4o", nil, prices))
    end)

    it("is refused with the position of an error", function()
        for text, expected in pairs {
            ["return 5"] = "prices.lua: must be a table of prices (got 5)",
            ["return"] = "prices.lua: must be a table of prices (got false)",
            ["return {"] = "prices.lua:1:",
            ["return { ['a:b'] = 3 }"] = 'the price of "a:b" must be a table (got 3)',
            ["return { ['a:b'] = { input = 1 } }"] = 'the price of "a:b": ',
            ["return { ['a:b'] = { input = -1, output = 1 } }"] = "input must be",
            ["return { ['a:b'] = { input = 1, output = 0/0 } }"] = "output must be",
            ["return { ['a:b'] = { input = 1, output = 1/0 } }"] = "output must be",
            ["return { ['a:b'] = { input = 1/0, output = 1 } }"] = "input must be",
            ["return { ['a:b'] = { input = 1, output = 1, batch = 1/0 } }"] = "batch must be",
            ["return { ['a:b'] = { input = 1, output = 1, cached = 1 } }"] = "cached",
            ["return { ['a:b'] = { input = 1, output = 1, long = { input = 1, output = 1 } } }"] =
                "above",
            ["return { io.open('/etc/passwd') }"] = "prices.lua:1:",
        } do
            local ok, message = pcall(price.load, env_with(text), {})
            assert.is_false(ok, text)
            assert.truthy(message:find(expected, 1, true), message)
            assert.is_nil(message:find "\n", message)
        end
    end)

    it("that is wrong in config.lua is found there", function()
        local text = "return {\n prices = {\n ['a:b'] = { input = 1 } } }\n"
        local dir <close> = shell.directory { ["ponder/config.lua"] = text }
        help.raises('config.lua:3: the price of "a:b": ', price.load, function(variable)
            return variable == "XDG_CONFIG_HOME" and dir.path or nil
        end, load(text)())
    end)

    it("is read when a model is opened", function()
        local env = env_with "return 5"
        local client = fake.client({}, { env = function(variable)
            return variable == "OPENAI_API_KEY" and "sk-1234567890" or env(variable)
        end })
        help.raises("prices.lua: must be a table of prices", client.open, "openai:gpt-4o")
    end)
end)
