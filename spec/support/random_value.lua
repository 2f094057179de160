-- Replies and stream events as providers send them, with random parts replaced by random values.

local json = require "ponder.json"

-- luacheck: no max line length
local random = {}

local function junk()
    local values = { json.null, true, false, 0, -1, 1.5, 1e300, math.maxinteger, "", "text", {},
        json.array(), { 1, 2, "x" }, { a = { b = json.null } }, { { {} } }, "\xff\xfe" }
    return values[math.random(#values)]
end

local EVENTS = {
    openai = [=[[{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"x","reasoning":"r",
        "tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}],"refusal":"no"},
        "message":{"content":"x","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]},
        "logprobs":{"content":[{"token":"x","logprob":-1,"top_logprobs":[{"token":"x","logprob":-1}]}]},
        "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,
        "prompt_tokens_details":{"cached_tokens":1}}}]]=],
    anthropic = [=[[{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":1}}},
        {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{}}},
        {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}},
        {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}},
        {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}},
        {"content":[{"type":"text","text":"x"},{"type":"tool_use","name":"f","input":{"x":1}}],
        "stop_reason":"end_turn","usage":{"input_tokens":1}}]]=],
    ollama = [=[[{"model":"m","message":{"content":"x","thinking":"t","tool_calls":[{"function":
        {"name":"f","arguments":{"x":1}}}]},"done":false,"logprobs":[{"token":"x","logprob":-1}]},
        {"model":"m","message":{"content":""},"done":true,"done_reason":"stop","eval_count":1}]]=],
}

local function mutate(value, chance)
    if math.random() < chance then return junk() end
    if type(value) ~= "table" then return value end
    for key, inner in pairs(value) do value[key] = mutate(inner, chance) end
    return value
end

--- An event or reply of a provider with about one part in eight replaced.
function random.mutated_event(provider, seed)
    math.randomseed(seed)
    local events = assert(json.decode(EVENTS[provider]))
    local event = mutate(events[math.random(#events)], 0.12)
    return type(event) == "table" and event or { value = event }
end

return random
