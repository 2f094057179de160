--- POST /v1/chat/completions, as in OpenAI's API.

local errors = require "ponder.serve.http.errors"
local fields = require "ponder.serve.http.fields"
local json = require "ponder.json"
local tools = require "ponder.serve.http.tools"

local chat = {}

local SHAPE_FIELDS = { "functions", "function_call", "logprobs", "modalities", "audio",
    "previous_response_id" }
local KNOWN = { model = "string", messages = "table", stream = "boolean", stream_options = "table",
    n = "number", stop = "any", seed = "number", max_tokens = "number",
    max_completion_tokens = "number", response_format = "table", stream_reasoning = "boolean" }
local MAX_CHOICES = 128

---@class ponder.serve.Job a request as read
---@field policy ponder.serve.Policy
---@field fields table of ponder.serve.Request
---@field stream boolean
---@field n integer
---@field stop string[] sequences
---@field seed integer?
---@field reasoning boolean whether the client gets the reasoning
---@field include_usage boolean?

---Reads a request's body; raises a ponder.serve.Error.
function chat.read(body, server)
    local given, job = fields.job(body, KNOWN, SHAPE_FIELDS, server)
    local request = job.fields
    fields.converse(job, fields.messages(fields.required(given, "messages"), "messages"))
    job.seed = fields.integer(given, "seed")
    job.n = fields.integer(given, "n", 1, MAX_CHOICES) or 1
    job.stop = fields.stop(given, "stop")
    job.include_usage = given.stream_options and given.stream_options.include_usage == true
    request.seed = job.seed
    request.max_output_tokens = fields.integer(given, "max_completion_tokens", 1)
        or fields.integer(given, "max_tokens", 1)
    request.response_format = fields.format(given.response_format, "response_format")
    return job
end

local function usage_of(spent)
    local usage = spent.usage
    local input, output = usage.input_tokens or 0, usage.output_tokens or 0
    return { prompt_tokens = input, completion_tokens = output, total_tokens = input + output,
        cost = spent.cost or json.null }
end

local function finish_reason(result)
    return result.tool_calls and "tool_calls"
        or result.truncated and not result.stopped and "length" or "stop"
end

local function frame(job, kind)
    return { id = "chatcmpl-" .. job.id, object = kind, created = job.created,
        model = job.policy.name, run = job.id }
end

---The body of a reply that is not a stream.
function chat.whole(job, results, spent)
    local body = frame(job, "chat.completion")
    body.choices = json.array { false } -- room for the usual one
    for i, result in ipairs(results) do
        body.choices[i] = { index = i - 1, finish_reason = finish_reason(result),
            logprobs = json.null,
            message = { role = "assistant", content = result.tool_calls and result.answer == ""
                and json.null or result.answer,
                tool_calls = result.tool_calls and tools.openai(result.tool_calls),
                reasoning_content = result.reasoning ~= "" and result.reasoning or nil } }
    end
    body.usage = usage_of(spent)
    return body
end

local function chunk(job, index, delta, finish)
    local body = frame(job, "chat.completion.chunk")
    body.choices = json.array { { index = index, delta = delta,
        finish_reason = finish or json.null } }
    return "data: " .. json.encode(body) .. "\n\n"
end

---@class ponder.serve.Stream writes what happens to a request as the events of a stream

---Makes the writer of a stream's events.
function chat.stream(job, send)
    return {
        open = function(_)
            for i = 1, job.n do
                send(chunk(job, i - 1, { role = "assistant", content = "" }))
            end
        end,
        think = function(_, i, text) send(chunk(job, i - 1, { reasoning_content = text })) end,
        write = function(_, i, text) send(chunk(job, i - 1, { content = text })) end,
        finish = function(_, i, result)
            for at, call in ipairs(tools.openai(result.tool_calls or {})) do
                local arguments = call["function"].arguments
                call.index, call["function"].arguments = at - 1, ""
                send(chunk(job, i - 1, { tool_calls = json.array { call } }))
                send(chunk(job, i - 1, { tool_calls = json.array { { index = at - 1,
                    ["function"] = { arguments = arguments } } } }))
            end
            send(chunk(job, i - 1, json.object {}, finish_reason(result)))
        end,
        close = function(_, spent)
            if job.include_usage then
                local body = frame(job, "chat.completion.chunk")
                body.choices, body.usage = json.array {}, usage_of(spent)
                send("data: " .. json.encode(body) .. "\n\n")
            end
            send "data: [DONE]\n\n"
        end,
        fail = function(_, err)
            send("data: " .. json.encode(errors.openai(err)) .. "\n\n")
        end,
    }
end

chat.error = errors.openai

return chat
