-- Tools of clients: they reach the policy, which answers with calls of them, in the three APIs.

local ensemble = require "ponder.ensemble"
local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local served = require "served"

local with_server, stream = served.run, served.stream

local seen -- the request that the policy got last

local function weather(request)
    seen = request
    local last = request.messages[#request.messages]
    if last.role == "tool" then
        return "It is " .. last.content
    end
    request:think "which city? "
    return { tool_calls = { { id = "c1", name = "weather", arguments = { city = "Oslo" } },
        { name = "now" } } }
end

model.register("tools-spec", { call = function(request)
    local city = ({ "Oslo", "Rome", "Oslo" })[request.sample]
    return { tool_calls = { { id = "c" .. request.sample, name = request.options.tools[1].name,
        arguments = { city = city } } } }
end })

local function vote(request)
    local result = assert(ensemble.self_consistency { model = "tools-spec:m", n = 3,
        prompt = request.messages, tools = request.tools, tool_choice = request.tool_choice })
    return { answer = result.text, tool_calls = result.tool_calls }
end

local POLICIES = { policies = { weather = weather, vote = vote, bad = function()
    return { tool_calls = { { arguments = {} } } }
end } }

local SCHEMA = { type = "object", properties = { city = { type = "string" } } }
local USER = { role = "user", content = "Oslo?" }

describe("POST /v1/chat/completions with tools", function()
    local TOOLS = { { type = "function", ["function"] = { name = "weather",
        description = "looks outside", parameters = SCHEMA } } }

    local function body(more)
        local all = { model = "weather", messages = { USER }, tools = TOOLS }
        return merge(all, more)
    end

    it("gives them to the policy, and its calls to the client", function()
        with_server(POLICIES, function(client)
            local _, reply = client("POST", served.CHAT, body { tool_choice = "auto" })
            local choice = reply.choices[1]
            assert.same({ { name = "weather", description = "looks outside",
                parameters = SCHEMA } }, seen.tools)
            assert.equal("auto", seen.tool_choice)
            assert.same({ "tool_calls", json.null }, { choice.finish_reason,
                choice.message.content })
            assert.same({ id = "c1", type = "function", ["function"] = { name = "weather",
                arguments = '{"city":"Oslo"}' } }, choice.message.tool_calls[1])
            assert.matches("^call_%x+$", choice.message.tool_calls[2].id)
            _, reply = client("POST", served.CHAT, body { messages = { USER, choice.message,
                { role = "tool", tool_call_id = "c1", content = "cold" } } })
            assert.same({ "stop", "It is cold" }, { reply.choices[1].finish_reason,
                reply.choices[1].message.content })
            assert.same({ "weather", { city = "Oslo" }, "c1" }, {
                seen.messages[2].tool_calls[1].name, seen.messages[2].tool_calls[1].arguments,
                seen.messages[3].tool_call_id })
        end)
    end)

    it("votes on calls", function()
        with_server(POLICIES, function(client)
            local _, reply = client("POST", served.CHAT, body { model = "vote" })
            local calls = reply.choices[1].message.tool_calls
            assert.same({ 1, "c1", '{"city":"Oslo"}' }, { #calls, calls[1].id,
                calls[1]["function"].arguments })
        end)
    end)

    it("streams the calls: ids first, then their arguments", function()
        with_server(POLICIES, function(client)
            local calls, finish = {}, nil
            for _, event in ipairs((stream(client, served.CHAT, body { stream = true }))) do
                local choice = event.choices and event.choices[1]
                for _, piece in ipairs(choice and choice.delta.tool_calls or {}) do
                    local call = calls[piece.index + 1] or { arguments = "" }
                    calls[piece.index + 1] = call
                    call.id = call.id or piece.id
                    call.name = call.name or piece["function"].name
                    call.arguments = call.arguments .. piece["function"].arguments
                end
                finish = choice and choice.finish_reason ~= json.null and choice.finish_reason
                    or finish
            end
            assert.same({ id = "c1", name = "weather", arguments = '{"city":"Oslo"}' }, calls[1])
            assert.same({ "now", "{}", "tool_calls" }, { calls[2].name, calls[2].arguments,
                finish })
        end)
    end)

    it("refuses what is not a call", function()
        with_server(POLICIES, function(client)
            local result, reply = client("POST", served.CHAT, body { model = "bad" })
            assert.equal(500, result.status)
            assert.equal("bad_answer", reply.error.code)
        end)
    end)
end)

describe("POST /v1/messages with tools", function()
    local BODY = { model = "weather", max_tokens = 99, messages = { USER },
        tools = { { name = "weather", input_schema = SCHEMA } } }

    it("has blocks of calls and of their results", function()
        with_server(POLICIES, function(client)
            local _, reply = client("POST", "/v1/messages", BODY)
            assert.same({ { name = "weather", parameters = SCHEMA } }, seen.tools)
            assert.equal("tool_use", reply.stop_reason)
            local use = reply.content[2]
            assert.same({ type = "tool_use", id = "c1", name = "weather",
                input = { city = "Oslo" } }, use)
            _, reply = client("POST", "/v1/messages", { model = "weather", max_tokens = 99,
                messages = { USER, { role = "assistant", content = reply.content },
                    { role = "user", content = { { type = "tool_result", tool_use_id = "c1",
                        content = { { type = "text", text = "cold" } } } } } } })
            assert.same({ "It is cold", "end_turn" }, { reply.content[1].text, reply.stop_reason })
            assert.equal("c1", seen.messages[2].tool_calls[1].id)
        end)
    end)

    it("streams them", function()
        with_server(POLICIES, function(client)
            local blocks, parts, reason = {}, {}, nil
            client("POST", "/v1/messages", { model = "weather", max_tokens = 99, stream = true,
                messages = { USER } }, nil, function(name, data)
                local event = json.decode(data)
                if name == "content_block_start" then
                    blocks[#blocks + 1] = event.content_block.name
                elseif name == "content_block_delta" then
                    parts[#parts + 1] = event.delta.partial_json
                elseif name == "message_delta" then
                    reason = event.delta.stop_reason
                end
            end)
            assert.same({ { "weather", "now" }, { '{"city":"Oslo"}', "{}" }, "tool_use" },
                { blocks, parts, reason })
        end)
    end)
end)

describe("POST /v1/responses with tools", function()
    local TOOLS = { { type = "function", name = "weather", parameters = SCHEMA } }

    it("has items of calls and of their outputs, also after the response before", function()
        with_server(POLICIES, function(client)
            local _, reply = client("POST", "/v1/responses", { model = "weather", input = "Oslo?",
                tools = TOOLS })
            local call = reply.output[2]
            assert.same({ "function_call", "c1", "weather", '{"city":"Oslo"}' },
                { call.type, call.call_id, call.name, call.arguments })
            local output = { type = "function_call_output", call_id = "c1", output = "cold" }
            _, reply = client("POST", "/v1/responses", { model = "weather",
                previous_response_id = reply.id, input = { output } })
            assert.equal("It is cold", reply.output[1].content[1].text)
            assert.equal("weather", seen.messages[2].tool_calls[1].name)
            _, reply = client("POST", "/v1/responses", { model = "weather",
                input = { USER, call, output } })
            assert.equal("It is cold", reply.output[1].content[1].text)
        end)
    end)

    it("streams them", function()
        with_server(POLICIES, function(client)
            local kinds, arguments = {}, {}
            client("POST", "/v1/responses", { model = "weather", input = "Oslo?", stream = true,
                tools = TOOLS }, nil, function(name, data)
                local event = json.decode(data)
                if name == "response.output_item.done" then
                    kinds[#kinds + 1] = event.item.type
                elseif name == "response.function_call_arguments.delta" then
                    arguments[#arguments + 1] = event.delta
                end
            end)
            assert.same({ { "reasoning", "function_call", "function_call" },
                { '{"city":"Oslo"}', "{}" } }, { kinds, arguments })
        end)
    end)
end)

describe("POST /v1/embeddings", function()
    local MODEL = { name = "vllm:e", embed = function(_, texts, opts)
        local vectors = {}
        for i, text in ipairs(texts) do vectors[i] = { #text, opts.dimensions or 0.5 } end
        return vectors
    end }

    it("is passed through to a model", function()
        with_server({ policies = POLICIES.policies, embeddings = MODEL }, function(client)
            local _, reply = client("POST", "/v1/embeddings", { model = "any", input = { "a",
                "bcd" }, dimensions = 2 })
            assert.same({ "list", "any", { 1, 2 }, { 3, 2 } }, { reply.object, reply.model,
                reply.data[1].embedding, reply.data[2].embedding })
            _, reply = client("POST", "/v1/embeddings", { model = "any", input = "abc",
                encoding_format = "base64" })
            local bytes = require("ponder.base.base64").decode(reply.data[1].embedding)
            local first, second = string.unpack("<ff", bytes)
            assert.same({ 3.0, 0.5 }, { first, second })
            for _, input in ipairs { json.array {}, { "" }, 5 } do
                local result = client("POST", "/v1/embeddings", { model = "x", input = input })
                assert.equal(400, result.status)
            end
        end)
    end)

    it("is nowhere without one", function()
        with_server(POLICIES, function(client)
            assert.equal(404, client("POST", "/v1/embeddings", { model = "x", input = "y" }).status)
        end)
    end)
end)
