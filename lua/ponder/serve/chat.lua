--- POST /v1/chat/completions, as in OpenAI's API.

local errors = require "ponder.serve.errors"
local fields = require "ponder.serve.fields"
local json = require "ponder.json"

local chat = {}

local SHAPE_FIELDS = { "tools", "tool_choice", "functions", "function_call", "logprobs",
    "modalities", "audio", "previous_response_id" }
local KNOWN = fields.set { "model", "messages", "stream", "stream_options", "n", "stop", "seed",
    "max_tokens", "max_completion_tokens", "response_format", "stream_reasoning" }
local MAX_CHOICES = 128

---@class ponder.serve.Job a request as read
---@field policy ponder.serve.Policy
---@field fields table of ponder.serve.Request
---@field stream boolean
---@field n integer
---@field stop string[]
---@field seed integer?
---@field reasoning boolean whether the client gets the reasoning
---@field include_usage boolean

---Reads a request's body; raises a ponder.serve.Error.
---@param body table
---@param find fun(name: string): ponder.serve.Policy raises an error if there is none
---@return ponder.serve.Job
function chat.read(body, find)
    local policy = find(fields.get(body, "model", "string", true))
    fields.refuse(body, SHAPE_FIELDS, policy)
    local messages = fields.messages(fields.get(body, "messages", "table", true), "messages")
    local stream_options = fields.get(body, "stream_options", "table") or {}
    local seed = fields.get(body, "seed", "integer")
    return {
        policy = policy,
        stream = fields.get(body, "stream", "boolean") or false,
        n = fields.count(body, "n", MAX_CHOICES) or 1,
        stop = fields.stop(body, "stop"),
        seed = seed,
        reasoning = fields.get(body, "stream_reasoning", "boolean") ~= false,
        include_usage = stream_options.include_usage == true,
        fields = {
            messages = messages, prompt = fields.prompt(messages), model = policy.name, seed = seed,
            max_output_tokens = fields.count(body, "max_completion_tokens")
                or fields.count(body, "max_tokens"),
            response_format = fields.get(body, "response_format", "table"),
            params = fields.rest(body, KNOWN),
        },
    }
end

local function usage_of(spent)
    local usage = spent.usage
    local input, output = usage.input_tokens or 0, usage.output_tokens or 0
    return { prompt_tokens = input, completion_tokens = output, total_tokens = input + output,
        cost = spent.cost or json.null }
end

local function frame(job, kind)
    return { id = "chatcmpl-" .. job.id, object = kind, created = job.created,
        model = job.policy.name, run = job.id }
end

---The body of a reply that is not a stream.
---@param job ponder.serve.Job with id and created
---@param results {answer: string, reasoning: string}[]
---@param spent ponder.task.Spent
---@return table
function chat.whole(job, results, spent)
    local body = frame(job, "chat.completion")
    body.choices = json.array {}
    for i, result in ipairs(results) do
        body.choices[i] = { index = i - 1, finish_reason = "stop", logprobs = json.null,
            message = { role = "assistant", content = result.answer,
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
---@param job ponder.serve.Job
---@param send fun(text: string)
---@return ponder.serve.Stream
function chat.stream(job, send)
    return {
        open = function(_)
            for i = 1, job.n do
                send(chunk(job, i - 1, { role = "assistant", content = "" }))
            end
        end,
        think = function(_, i, text) send(chunk(job, i - 1, { reasoning_content = text })) end,
        write = function(_, i, text) send(chunk(job, i - 1, { content = text })) end,
        finish = function(_, i) send(chunk(job, i - 1, json.object {}, "stop")) end,
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
