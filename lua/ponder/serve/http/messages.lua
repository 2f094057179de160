--- POST /v1/messages, as in Anthropic's API.

local errors = require "ponder.serve.http.errors"
local fields = require "ponder.serve.http.fields"
local json = require "ponder.json"
local read = require "ponder.model.read"
local tools = require "ponder.serve.http.tools"

local messages = {}

local SHAPE_FIELDS = { "mcp_servers", "container" }
local KNOWN = { model = "string", messages = "table", system = "any", stream = "boolean",
    max_tokens = "number", stop_sequences = "any", stream_reasoning = "boolean" }

---Reads a request's body; raises a ponder.serve.Error.
function messages.read(body, server)
    local given, job = fields.job(body, KNOWN, SHAPE_FIELDS, server)
    local list = fields.messages(tools.from_anthropic(fields.required(given, "messages")),
        "messages")
    local system = fields.text(given.system, "system")
    fields.converse(job, list, system ~= "" and system or nil)
    job.stop = fields.stop(given, "stop_sequences")
    fields.number(job.fields.params, "temperature", { type = "number", min = 0, max = 1 })
    job.fields.max_output_tokens = fields.integer(given, "max_tokens", 1)
    return job
end

local function usage_of(spent)
    return { input_tokens = spent and spent.usage.input_tokens or 0,
        output_tokens = spent and spent.usage.output_tokens or 0,
        cost = spent and spent.cost or nil }
end

-- Why the answer ends: stop_reason and stop_sequence.
local function ending(result)
    local reason = result.stopped and "stop_sequence" or result.tool_calls and "tool_use"
        or result.truncated and "max_tokens" or "end_turn"
    return reason, result.stopped or json.null
end

local function frame(job, spent)
    return { id = "msg_" .. job.id, type = "message", role = "assistant", model = job.policy.name,
        content = json.array {}, stop_reason = json.null, stop_sequence = json.null,
        usage = usage_of(spent), run = job.id }
end

---The body of a reply that is not a stream.
function messages.whole(job, results, spent)
    local body = frame(job, spent)
    if results[1].reasoning ~= "" then
        body.content[1] = { type = "thinking", thinking = results[1].reasoning, signature = "" }
    end
    if results[1].answer ~= "" or not results[1].tool_calls then
        body.content[#body.content + 1] = { type = "text", text = results[1].answer }
    end
    for _, call in ipairs(results[1].tool_calls or {}) do
        body.content[#body.content + 1] = { type = "tool_use", id = call.id, name = call.name,
            input = read.arguments(call) }
    end
    body.stop_reason, body.stop_sequence = ending(results[1])
    return body
end

-- One content block at a time is open: "thinking", then "text".
local Stream = {}
Stream.__index = Stream

function Stream:event(name, data)
    data.type = name
    self.send(("event: %s\ndata: %s\n\n"):format(name, json.encode(data)))
end

function Stream:block(kind)
    if self.kind == kind then
        return
    elseif self.kind then
        self:event("content_block_stop", { index = self.index })
        self.index = self.index + 1
    end
    self.kind = kind
    if kind then
        self:event("content_block_start", { index = self.index, content_block = kind == "text"
            and { type = "text", text = "" } or { type = "thinking", thinking = "",
                signature = "" } })
    end
end

function Stream:open()
    self:event("message_start", { message = frame(self.job) })
end

function Stream:think(_, text)
    self:block "thinking"
    self:event("content_block_delta", { index = self.index,
        delta = { type = "thinking_delta", thinking = text } })
end

function Stream:write(_, text)
    self:block "text"
    self:event("content_block_delta", { index = self.index,
        delta = { type = "text_delta", text = text } })
end

function Stream:finish(_, result)
    self.result = result
    if not self.kind and not result.tool_calls then
        self:block "text"
    end
    self:block(nil)
    for _, call in ipairs(result.tool_calls or {}) do
        self:event("content_block_start", { index = self.index, content_block = {
            type = "tool_use", id = call.id, name = call.name, input = json.object {} } })
        self:event("content_block_delta", { index = self.index,
            delta = { type = "input_json_delta", partial_json = call.arguments_json } })
        self:event("content_block_stop", { index = self.index })
        self.index = self.index + 1
    end
end

function Stream:close(spent)
    local reason, sequence = ending(self.result)
    self:event("message_delta", { delta = { stop_reason = reason, stop_sequence = sequence },
        usage = usage_of(spent) })
    self:event("message_stop", {})
end

function Stream:fail(err)
    self:event("error", errors.anthropic(err))
end

---Makes the writer of a stream's events.
function messages.stream(job, send)
    return setmetatable({ job = job, send = send, index = 0 }, Stream)
end

messages.error = errors.anthropic

return messages
