--- Prices of models in USD per million tokens.
---
--- Collected on 22 November 2026: list prices of the standard service, and of cache writes that
--- last five minutes (Anthropic) or 30 (OpenAI). Each group names its source. Models that are only
--- in the Responses API are not listed. $XDG_CONFIG_HOME/ponder/prices.lua corrects and extends
--- this list (see ponder.model.price). With a cost limit, ponder refuses models that are not
--- listed. `context` is the size of the model's context in tokens, if known: longer prompts are not
--- sent.

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
        cache_write = 1.25 * input }
end

local function claude(input, output, cache_read, context)
    return { input = input, output = output, cache_read = cache_read or input / 10,
        cache_write = 1.25 * input, context = context }
end

local haiku_5_5 = claude(0.1, 0.5)
haiku_5_5.long = claude(0.5, 2.5)
haiku_5_5.long.above = 100000

return {
    -- Read on OpenAI's pages of the models (developers.openai.com/api/docs/models).
    ["openai:gpt-6.2-sol"] = openai(2, 0.1, 10),
    -- Without the temporary discount (4, 0.4, 20).
    ["openai:gpt-5.6-sol"] = openai(5, 0.5, 30),
    ["openai:gpt-5.6"] = openai(5, 0.5, 30),
    ["openai:gpt-5.6-terra"] = openai(2, 0.2, 12),
    ["openai:gpt-5.6-luna"] = openai(0.2, 0.02, 1.2),

    -- From services that resell these models at OpenAI's prices, and from developers' lists, which
    -- agree.
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
    ["openai:gpt-4.1-nano"] = { input = 0.1, output = 0.4, cache_read = 0.025, context = 1047576 },
    ["openai:gpt-4o"] = { input = 2.5, output = 10, cache_read = 1.25, context = 128000 },
    ["openai:gpt-4o-mini"] = { input = 0.15, output = 0.6, cache_read = 0.075, context = 128000 },
    ["openai:o4-mini"] = { input = 1.1, output = 4.4, cache_read = 0.275, context = 200000 },
    ["openai:o3"] = { input = 2, output = 8, cache_read = 0.5, context = 200000 },
    ["openai:o3-mini"] = { input = 1.1, output = 4.4, cache_read = 0.55, context = 200000 },
    ["openai:o1"] = { input = 15, output = 60, cache_read = 7.5, context = 200000 },

    -- Read on Anthropic's page (platform.claude.com/docs/en/about-claude/pricing).
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
    ["anthropic:claude-opus-4-1"] = claude(15, 75, nil, 200000),
    ["anthropic:claude-opus-4"] = claude(15, 75, nil, 200000),
    ["anthropic:claude-opus-4-0"] = claude(15, 75, nil, 200000),
    ["anthropic:claude-sonnet-5-5"] = claude(2, 10, 0.1),
    ["anthropic:claude-sonnet-5"] = claude(2, 10, nil, 1000000),
    ["anthropic:claude-sonnet-4-6"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-sonnet-4-5"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-sonnet-4"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-sonnet-4-0"] = claude(3, 15, nil, 1000000),
    ["anthropic:claude-3-7-sonnet"] = claude(3, 15, nil, 200000),
    ["anthropic:claude-haiku-5-5"] = haiku_5_5,
    ["anthropic:claude-haiku-4-5"] = claude(1, 5, nil, 200000),
    ["anthropic:claude-3-5-haiku"] = claude(0.8, 4, nil, 200000),

    -- Local models.
    ["ollama:*"] = { input = 0, output = 0 },
    ["script:*"] = { input = 0, output = 0 },
}
