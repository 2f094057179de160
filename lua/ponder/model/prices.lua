--- Prices of models in USD per million tokens.
---
--- Collected on 24 November 2026: list prices of the standard service, and of cache writes that
--- last five minutes (Anthropic) or 30 (OpenAI). Each group names its source. Models that are only
--- in the Responses API are not listed, nor models that are gone. A file of your own,
--- $XDG_CONFIG_HOME/ponder/prices.lua, corrects and extends this list (see ponder.model.price).
--- With a cost limit, ponder refuses models that are not listed. `context` is the size of the
--- model's context in tokens, if known: longer prompts are not sent.

-- Above 272,000 tokens of prompt the whole request costs more.
local function openai_long(rates)
    local long = { above = 272000, output = 1.5 * rates.output }
    for _, part in ipairs { "input", "cache_read", "cache_write" } do
        long[part] = rates[part] and 2 * rates[part]
    end
    rates.long = long
    return rates
end

-- Writing a prompt to the cache costs 1.25 times its price.
local function openai(input, cache_read, output)
    return openai_long { input = input, output = output, cache_read = cache_read,
        cache_write = 1.25 * input, batch = 0.5 }
end

local function claude(input, output, cache_read, context)
    return { input = input, output = output, cache_read = cache_read or input / 10,
        cache_write = 1.25 * input, cache_write_1h = 2 * input, batch = 0.5, context = context }
end

-- Above 200,000 tokens of prompt the whole request costs twice as much.
local function grok(input, output, cache_read)
    return { input = input, output = output, cache_read = cache_read, long = { above = 200000,
        input = 2 * input, output = 2 * output, cache_read = 2 * cache_read } }
end

local haiku_5_5 = claude(0.1, 0.5)
haiku_5_5.long = claude(0.5, 2.5)
haiku_5_5.long.above = 100000

local prices = {
    -- Read on OpenAI's pages of the models (developers.openai.com/api/docs/models).
    ["openai:gpt-6.2-sol"] = openai(2, 0.1, 10),
    ["openai:gpt-6.1-terra"] = openai(1, 0.05, 5),
    -- Without the temporary discount (4, 0.4, 20).
    ["openai:gpt-5.6-sol"] = openai(5, 0.5, 30),
    ["openai:gpt-5.6"] = openai(5, 0.5, 30),
    ["openai:gpt-5.6-terra"] = openai(2, 0.2, 12),
    ["openai:gpt-5.6-luna"] = openai(0.2, 0.02, 1.2),

    -- From services that resell these models at OpenAI's prices, and from developers' lists, which
    -- agree.
    ["openai:gpt-6.2-astra"] = openai(8, 0.4, 40),
    ["openai:gpt-6-astra"] = openai(10, 1, 50),
    ["openai:gpt-6.1-sol"] = openai(2, 0.1, 10),
    ["openai:gpt-6-sol"] = openai(2, 0.2, 10),
    ["openai:gpt-6-luna"] = openai(0.1, 0.01, 0.5),
    ["openai:gpt-5.5"] = openai_long { input = 5, output = 30, cache_read = 0.5 },
    ["openai:gpt-5.4"] = openai_long { input = 2.5, output = 15, cache_read = 0.25 },
    ["openai:gpt-5.4-mini"] = { input = 0.75, output = 4.5, cache_read = 0.075 },
    ["openai:gpt-5.4-nano"] = { input = 0.2, output = 1.25, cache_read = 0.02 },
    ["openai:gpt-5.2"] = { input = 1.75, output = 14, cache_read = 0.175, context = 400000 },
    ["openai:gpt-5.1"] = { input = 1.25, output = 10, cache_read = 0.125, context = 400000 },
    ["openai:gpt-5"] = { input = 1.25, output = 10, cache_read = 0.125, context = 400000 },
    ["openai:gpt-5-mini"] = { input = 0.25, output = 2, cache_read = 0.025, context = 400000 },
    ["openai:gpt-5-nano"] = { input = 0.05, output = 0.4, cache_read = 0.005, context = 400000 },
    ["openai:gpt-4.1"] = { input = 2, output = 8, cache_read = 0.5, context = 1047576 },
    ["openai:gpt-4.1-mini"] = { input = 0.4, output = 1.6, cache_read = 0.1, context = 1047576 },
    ["openai:gpt-4o"] = { input = 2.5, output = 10, cache_read = 1.25, context = 128000 },
    ["openai:gpt-4o-mini"] = { input = 0.15, output = 0.6, cache_read = 0.075, context = 128000 },
    ["openai:o3"] = { input = 2, output = 8, cache_read = 0.5, context = 200000 },

    -- Read on Anthropic's page (platform.claude.com/docs/en/about-claude/pricing).
    ["anthropic:claude-fable-5-2"] = claude(8, 40, 0.2, 1000000),
    ["anthropic:claude-fable-5-1"] = claude(10, 50, 0.25, 1000000),
    ["anthropic:claude-mythos-5-1"] = claude(10, 50, 0.25, 1000000),
    ["anthropic:claude-fable-5"] = claude(10, 50, nil, 1000000),
    ["anthropic:claude-mythos-5"] = claude(10, 50, nil, 1000000),
    ["anthropic:claude-opus-5-5"] = claude(4, 20, 0.2),
    ["anthropic:claude-opus-5"] = claude(5, 25, nil, 1000000),
    ["anthropic:claude-opus-4-8"] = claude(5, 25, nil, 1000000),
    ["anthropic:claude-opus-4-7"] = claude(5, 25, nil, 1000000),
    ["anthropic:claude-opus-4-6"] = claude(5, 25, nil, 1000000),
    ["anthropic:claude-opus-4-5"] = claude(5, 25, nil, 200000),
    ["anthropic:claude-sonnet-5-5"] = claude(2, 10, 0.1),
    ["anthropic:claude-sonnet-5"] = claude(2, 10, nil, 1000000),
    ["anthropic:claude-sonnet-4-6"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-sonnet-4-5"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-haiku-5-5"] = haiku_5_5,
    ["anthropic:claude-haiku-4-5"] = claude(1, 5, nil, 200000),

    -- Embeddings (models.dev).
    ["openai:text-embedding-3-small"] = { input = 0.02, output = 0 },
    ["openai:text-embedding-3-large"] = { input = 0.13, output = 0 },
    ["gemini:gemini-embedding-001"] = { input = 0.15, output = 0 },

    -- From the services' pages and models.dev; DeepSeek at peak hours.
    ["gemini:gemini-3.8-flash"] = { input = 0.75, output = 3.75, cache_read = 0.075, batch = 0.5 },
    ["gemini:gemini-3.7-flash"] = { input = 0.75, output = 3.75, cache_read = 0.075, batch = 0.5 },
    ["gemini:gemini-3.5-flash-lite"] = { input = 0.3, output = 2.5, cache_read = 0.03,
        batch = 0.5 },
    ["gemini:gemini-3.1-pro-preview"] = { input = 2, output = 12, cache_read = 0.2, batch = 0.5,
        long = { above = 200000, input = 4, output = 18, cache_read = 0.2 } },
    ["deepseek:deepseek-flash"] = { input = 0.3, output = 1.2, cache_read = 0.006 },
    ["deepseek:deepseek-v4-pro"] = { input = 1.32, output = 3.96, cache_read = 0.044 },
    ["xai:grok-4.7"] = grok(2, 6, 0.5),
    ["xai:grok-4.3"] = grok(1.25, 2.5, 0.2),
    ["mistral:mistral-medium-latest"] = { input = 1.5, output = 7.5, cache_read = 0.15 },
    ["mistral:mistral-large-latest"] = { input = 0.5, output = 1.5 },
    ["mistral:mistral-small-latest"] = { input = 0.15, output = 0.6 },
    ["groq:openai/gpt-oss-120b"] = { input = 0.15, output = 0.6, cache_read = 0.075 },
    ["groq:openai/gpt-oss-20b"] = { input = 0.075, output = 0.3, cache_read = 0.0375 },

    -- Local models, and recorded replies.
    ["ollama:*"] = { input = 0, output = 0 },
    ["vllm:*"] = { input = 0, output = 0 },
    ["llamacpp:*"] = { input = 0, output = 0 },
    ["lmstudio:*"] = { input = 0, output = 0 },
    ["script:*"] = { input = 0, output = 0 },
    ["pool:*"] = { input = 0, output = 0 },
}

-- When models are shut down (the lists of models of OpenAI and Anthropic).
for date, names in pairs {
    ["2026-11-30"] = { "anthropic:claude-sonnet-4-5" },
    ["2026-12-11"] = { "openai:gpt-5", "openai:gpt-5-mini", "openai:gpt-5-nano", "openai:o3" },
    ["2027-01-14"] = { "openai:gpt-4o", "openai:gpt-4o-mini", "openai:gpt-4.1",
        "openai:gpt-4.1-mini" },
    ["2027-04-01"] = { "openai:gpt-5.1", "openai:gpt-5.4-nano" },
} do
    for _, name in ipairs(names) do prices[name].shutdown = date end
end

return prices
