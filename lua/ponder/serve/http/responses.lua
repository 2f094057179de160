--- POST /v1/responses, as in OpenAI's API: creates a response, whole or as a stream.

local errors = require "ponder.serve.http.errors"
local fields = require "ponder.serve.http.fields"
local json = require "ponder.json"
local options = require "ponder.base.options"
local tools = require "ponder.serve.http.tools"

local responses = {}

local SHAPE_FIELDS = { "conversation", "background", "top_logprobs" }
local KNOWN = { model = "string", input = "any", instructions = "string", stream = "boolean",
    max_output_tokens = "number", text = "table", store = "boolean",
    previous_response_id = "string", stream_reasoning = "boolean" }
local NOT_KEPT = "is not kept (only the latest answers are, for the key that asked for them); "
    .. "send the conversation itself"

-- Reads the input: a string, or a list of messages and of what earlier answers had: their
-- reasoning, and references to their items. Items of other types are refused.
local function messages_of(list, find_item)
    if type(list) == "string" then
        return { { role = "user", content = list } }
    elseif type(list) ~= "table" then
        return fields.messages(list, "input")
    end
    local items = {}
    for i = 1, #list do
        local item = list[i]
        local kind = type(item) == "table" and item.type or nil
        if kind == "item_reference" then
            local id = item.id
            item = find_item(id) or error(errors.new(404, "item_not_found",
                ("input[%d]: the item %s %s"):format(i - 1, tostring(id), NOT_KEPT),
                ("input[%d].id"):format(i - 1)), 0)
        elseif kind == "function_call" or kind == "function_call_output" then
            item = tools.from_item(item)
        elseif kind ~= nil and kind ~= "message" and kind ~= "reasoning" then
            error(fields.wrong(("input[%d].type"):format(i - 1),
                ("input[%d]: items of type %s are not supported"):format(i - 1, tostring(kind)),
                "unsupported_content"), 0)
        end
        items[i] = item
    end
    return fields.messages(items, "input")
end

local function append(list, more)
    return table.move(more, 1, #more, #list + 1, list)
end

---Reads a request's body; raises a ponder.serve.Error.
function responses.read(body, server, key)
    local given, job = fields.job(body, KNOWN, SHAPE_FIELDS, server)
    local previous, messages = given.previous_response_id, {}
    if previous then
        local before = server.kept:answer(key, previous) or error(fields.wrong(
            "previous_response_id", ("the response %s %s"):format(previous, NOT_KEPT),
            "previous_response_not_found"), 0)
        append(messages, before.messages)
    end
    append(messages, messages_of(fields.required(given, "input"), function(id)
        return server.kept:item(key, id)
    end))
    job.previous, job.store = previous, given.store ~= false
    job.conversation = job.store and append({}, messages) or nil
    fields.converse(job, messages, given.instructions)
    local format = given.text and given.text.format
    job.fields.response_format = fields.format(type(format) == "table" and format or nil,
        "text.format")
    job.fields.max_output_tokens = fields.integer(given, "max_output_tokens", 1)
    return job
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
        previous_response_id = job.previous or json.null, store = job.store,
        metadata = json.object {}, parallel_tool_calls = false, tool_choice = "none",
        tools = json.array {}, usage = spent and usage_of(spent) or json.null }
end

-- Output items; one without a text has only begun.
local function reasoning_item(id, text)
    return { id = "rs_" .. id, type = "reasoning",
        summary = json.array(text and { { type = "summary_text", text = text } } or {}) }
end

local function message_item(id, text)
    return { id = "msg_" .. id, type = "message", role = "assistant",
        status = text and "completed" or "in_progress",
        content = json.array(text and { { type = "output_text", text = text,
            annotations = json.array {} } } or {}) }
end

local function call_item(id, i, call)
    return { id = ("fc_%s_%d"):format(id, i), type = "function_call", status = "completed",
        call_id = call.id, name = call.name, arguments = call.arguments_json }
end

-- The response with an answer: completed, or incomplete if the answer is cut.
local function ended(job, output, result, spent)
    local body = frame(job, result.truncated and "incomplete" or "completed", output, spent)
    if result.truncated then
        body.incomplete_details = { reason = "max_output_tokens" }
    end
    return body
end

---The conversation with its answer, for later requests.
---@return {role: string, content: string}[]? messages nil: it is not to be kept
function responses.conversation(job, body)
    local texts, calls = {}, {}
    for _, item in ipairs(body.output) do
        texts[#texts + 1] = item.type == "message" and item.content[1].text or nil
        calls[#calls + 1] = item.type == "function_call" and tools.from_item(item).tool_calls[1]
            or nil
    end
    return job.store and append(job.conversation, { { role = "assistant",
        content = table.concat(texts), tool_calls = tools.calls(calls) } }) or nil
end

---The body of a reply that is not a stream.
function responses.whole(job, results, spent)
    local output = {}
    if results[1].reasoning ~= "" then
        output[1] = reasoning_item(job.id, results[1].reasoning)
    end
    if results[1].answer ~= "" or not results[1].tool_calls then
        output[#output + 1] = message_item(job.id, results[1].answer)
    end
    for i, call in ipairs(results[1].tool_calls or {}) do
        output[#output + 1] = call_item(job.id, i, call)
    end
    return ended(job, output, results[1], spent)
end

-- One output item at a time is open: the reasoning, if there is any, then the message; more of both
-- for a policy that thinks again after it began to write.
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

-- The open item, done if it has its text.
function Stream:item(text)
    local id = #self.output == 0 and self.job.id or ("%s_%d"):format(self.job.id, #self.output)
    return (self.kind == "message" and message_item or reasoning_item)(id, text)
end

-- Sends an event about the open item.
function Stream:item_event(name, data)
    data.item_id, data.output_index = self.item_id, #self.output
    data[self.kind == "message" and "content_index" or "summary_index"] = 0
    self:event(name, data)
end

local PART = { reasoning = "response.reasoning_summary_part", message = "response.content_part" }

function Stream:begin(kind)
    if self.kind == kind then
        return
    end
    self:close_item()
    self.kind, self.parts = kind, {}
    local item = self:item()
    self.item_id = item.id
    self:event("response.output_item.added", { output_index = #self.output, item = item })
    self:item_event(PART[kind] .. ".added", { part = kind == "message" and { type = "output_text",
        text = "", annotations = json.array {} } or { type = "summary_text", text = "" } })
end

local TEXT = { reasoning = "response.reasoning_summary_text", message = "response.output_text" }

function Stream:delta(kind, text)
    self:begin(kind)
    self.parts[#self.parts + 1] = text
    self:item_event(TEXT[kind] .. ".delta", { delta = text })
end

function Stream:close_item()
    local kind = self.kind
    if not kind then
        return
    end
    local text = table.concat(self.parts)
    local item = self:item(text)
    self:item_event(TEXT[kind] .. ".done", { text = text })
    self:item_event(PART[kind] .. ".done", { part = (item.content or item.summary)[1] })
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
    if self.kind ~= "message" and not result.tool_calls then
        self:begin "message"
    end
    self:close_item()
    for i, call in ipairs(result.tool_calls or {}) do
        local item, index = call_item(self.job.id, i, call), #self.output
        self:event("response.output_item.added", { output_index = index,
            item = options.merge(options.merge({}, item), { arguments = "",
                status = "in_progress" }) })
        self:event("response.function_call_arguments.delta", { item_id = item.id,
            output_index = index, delta = item.arguments })
        self:event("response.function_call_arguments.done", { item_id = item.id,
            output_index = index, arguments = item.arguments })
        self:event("response.output_item.done", { output_index = index, item = item })
        self.output[index + 1] = item
    end
end

function Stream:close(spent)
    local body = ended(self.job, self.output, self.result, spent)
    self:event("response." .. body.status, { response = body })
    return body
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
