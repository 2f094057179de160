--- POST /v1/responses, as in OpenAI's API: creates a response, whole or as a stream.

local errors = require "ponder.serve.errors"
local fields = require "ponder.serve.fields"
local json = require "ponder.json"
local options = require "ponder.options"

local responses = {}

local SHAPE_FIELDS = { "tools", "tool_choice", "previous_response_id", "conversation", "background",
    "include", "top_logprobs" }
local KNOWN = { model = "string", input = "any", instructions = "string", stream = "boolean",
    max_output_tokens = "number", text = "table", store = "any", stream_reasoning = "boolean" }

-- Reads the input: a string, or a list of messages and of the reasoning of earlier answers (items
-- of other types are refused).
local function messages_of(list)
    if type(list) == "string" then
        return { { role = "user", content = list } }
    end
    for i = 1, type(list) == "table" and #list or 0 do
        local kind = type(list[i]) == "table" and list[i].type or nil
        if kind ~= nil and kind ~= "message" and kind ~= "reasoning" then
            error(fields.wrong(("input[%d].type"):format(i - 1),
                ("input[%d]: items of type %s are not supported"):format(i - 1, tostring(kind)),
                "unsupported_content"), 0)
        end
    end
    return fields.messages(list, "input")
end

---Reads a request's body; raises a ponder.serve.Error.
---@param body table
---@param server ponder.serve.Server
---@return ponder.serve.Job
function responses.read(body, server)
    local given, params = fields.sort(body, KNOWN)
    local policy = server:find(fields.required(given, "model"))
    fields.refuse(params, SHAPE_FIELDS, policy)
    local messages = messages_of(fields.required(given, "input"))
    if given.instructions then
        table.insert(messages, 1, { role = "system", content = given.instructions })
    end
    local format = given.text and given.text.format
    format = fields.format(type(format) == "table" and format or nil, "text.format")
    return {
        policy = policy, n = 1, stop = {}, include_usage = true,
        stream = given.stream or false,
        reasoning = given.stream_reasoning ~= false,
        fields = { messages = messages, prompt = fields.prompt(messages), model = policy.name,
            max_output_tokens = fields.integer(given, "max_output_tokens", 1),
            response_format = format, params = params },
    }
end

local function usage_of(spent)
    local input, output = spent.usage.input_tokens or 0, spent.usage.output_tokens or 0
    return { input_tokens = input, output_tokens = output, total_tokens = input + output,
        input_tokens_details = { cached_tokens = 0 },
        output_tokens_details = { reasoning_tokens = spent.usage.reasoning_tokens or 0 },
        cost = spent.cost or json.null }
end

local function frame(job, status, output, spent)
    return { id = "resp_" .. job.id, object = "response", created_at = job.created,
        status = status, model = job.policy.name, output = json.array(output or {}), run = job.id,
        error = json.null, incomplete_details = json.null, instructions = json.null,
        metadata = json.object {}, parallel_tool_calls = false, tool_choice = "none",
        tools = json.array {}, usage = spent and usage_of(spent) or json.null }
end

local function reasoning_item(job, text)
    return { id = "rs_" .. job.id, type = "reasoning",
        summary = json.array { { type = "summary_text", text = text } } }
end

local function message_item(job, text, status)
    return { id = "msg_" .. job.id, type = "message", role = "assistant", status = status,
        content = json.array(text and { { type = "output_text", text = text,
            annotations = json.array {} } } or {}) }
end

-- The response with an answer: completed, or incomplete if the answer is cut.
local function ended(job, output, result, spent)
    local body = frame(job, result.truncated and "incomplete" or "completed", output, spent)
    if result.truncated then
        body.incomplete_details = { reason = "max_output_tokens" }
    end
    return body
end

---The body of a reply that is not a stream.
function responses.whole(job, results, spent)
    local output = {}
    if results[1].reasoning ~= "" then
        output[1] = reasoning_item(job, results[1].reasoning)
    end
    output[#output + 1] = message_item(job, results[1].answer, "completed")
    return ended(job, output, results[1], spent)
end

-- One output item at a time is open: the reasoning, if there is any, then the message.
local Stream = {}
Stream.__index = Stream

function Stream:event(name, data)
    data.type, data.sequence_number = name, self.count
    self.count = self.count + 1
    self.send(("event: %s\ndata: %s\n\n"):format(name, json.encode(data)))
end

function Stream:open()
    self:event("response.created", { response = frame(self.job, "in_progress") })
    self:event("response.in_progress", { response = frame(self.job, "in_progress") })
end

local PART = { reasoning = "response.reasoning_summary_part", message = "response.content_part" }

function Stream:begin(kind)
    if self.kind == kind then
        return
    end
    self:close_item()
    self.kind, self.parts = kind, {}
    local is_message = kind == "message"
    local item = is_message and message_item(self.job, nil, "in_progress")
        or { id = "rs_" .. self.job.id, type = "reasoning", summary = json.array {} }
    self:event("response.output_item.added", { output_index = #self.output, item = item })
    self:event(PART[kind] .. ".added", { item_id = item.id, output_index = #self.output,
        content_index = is_message and 0 or nil, summary_index = not is_message and 0 or nil,
        part = is_message and { type = "output_text", text = "", annotations = json.array {} }
            or { type = "summary_text", text = "" } })
end

local TEXT = { reasoning = "response.reasoning_summary_text", message = "response.output_text" }

function Stream:delta(kind, text)
    self:begin(kind)
    self.parts[#self.parts + 1] = text
    self:event(TEXT[kind] .. ".delta", { output_index = #self.output, delta = text,
        item_id = (kind == "message" and "msg_" or "rs_") .. self.job.id,
        content_index = kind == "message" and 0 or nil,
        summary_index = kind ~= "message" and 0 or nil })
end

function Stream:close_item()
    local kind = self.kind
    if not kind then
        return
    end
    local text, is_message = table.concat(self.parts), kind == "message"
    local item = is_message and message_item(self.job, text, "completed")
        or reasoning_item(self.job, text)
    local at = { item_id = item.id, output_index = #self.output,
        content_index = is_message and 0 or nil, summary_index = not is_message and 0 or nil }
    local function with(more)
        options.merge(more, at)
        return more
    end
    self:event(TEXT[kind] .. ".done", with { text = text })
    self:event(PART[kind] .. ".done", with { part = is_message and item.content[1]
        or item.summary[1] })
    self:event("response.output_item.done", { output_index = #self.output, item = item })
    self.output[#self.output + 1], self.kind = item, nil
end

function Stream:think(_, text)
    self:delta("reasoning", text)
end

function Stream:write(_, text)
    self:delta("message", text)
end

function Stream:finish(_, result)
    self.result = result
    if self.kind ~= "message" then
        self:begin "message"
    end
    self:close_item()
end

function Stream:close(spent)
    local body = ended(self.job, self.output, self.result, spent)
    self:event("response." .. body.status, { response = body })
end

function Stream:fail(err)
    self:event("error", { message = err.message, code = err.code or json.null,
        param = err.param or json.null })
    local body = frame(self.job, "failed", self.output)
    body.error = { code = err.code or json.null, message = err.message }
    self:event("response.failed", { response = body })
end

---Makes the writer of a stream's events.
function responses.stream(job, send)
    return setmetatable({ job = job, send = send, count = 0, output = {} }, Stream)
end

responses.error = errors.openai

return responses
