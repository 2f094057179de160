-- Replies of models, whole and streamed, in the forms of all providers: each call ends with a
-- reply, or with nil, message, code. The first byte selects the provider and whether to stream.

local model = require "ponder.model"

local PROVIDERS = { "openai", "anthropic", "ollama" }

local SEEDS = {
    [[0{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},]]
        .. [["finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}]],
    [[0{"choices":[{"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f",]]
        .. [["arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}]}]],
    [[1{"id":"m","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"f",]]
        .. [["input":{"x":1}},{"type":"thinking","thinking":"h"}],"stop_reason":"end_turn",]]
        .. [["usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":1}}]],
    [[2{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"eval_count":2}]],
    [[0{"error":{"message":"no","type":"invalid_request_error","code":"x"}}]],
    [[3{"choices":[{"index":0,"delta":{"role":"assistant","content":"h"}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f",]]
        .. [["arguments":"{"}}]}}]}
{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}
[DONE] ]],
    [[4{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}
{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}
{"type":"message_stop"}]],
    [[5{"message":{"content":"h","thinking":"x"},"done":false}
{"message":{"content":"i"},"done":true,"done_reason":"stop","prompt_eval_count":1}]],
}

local reply -- of the transport

local transport = {}

function transport:limit() return true end -- luacheck: ignore 212

function transport:send(_, on_event) -- luacheck: ignore 212
    local result = { status = 200, headers = {}, total_ms = 1, body = reply }
    if on_event then
        result.streamed, result.done = true, true
        for line in reply:gmatch "[^\n]+" do
            local name = line:match '"type":"([%w_]+)"' or "message"
            if on_event(name, line) then
                break
            end
        end
    end
    return result
end

local function check(got, message, code)
    if got == nil then
        assert(type(message) == "string" and type(code) == "string", "no message or code")
        return
    end
    assert(type(got.text) == "string" and type(got.texts) == "table", "no text")
    for _, call in ipairs(got.tool_calls or {}) do
        assert(type(call) == "table", "a tool call that is not a table")
    end
end

local function try(input)
    local kind = (input:byte() or 48) % 6
    reply = input:sub(2)
    local client = model.client { transport = transport, config = {},
        env = function() return nil end, sleep = function() end }
    local m = client.open(PROVIDERS[kind % 3 + 1] .. ":m", { api_key = "sk-0123456789abcdef",
        max_retries = 0 })
    check(m:chat { messages = { { role = "user", content = "x" } },
        on_delta = kind > 2 and function() end or nil })
end

return { seeds = SEEDS, try = try }
