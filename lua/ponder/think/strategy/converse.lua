--- Asks a model, and runs the tools that it calls until it answers.

local options = require "ponder.base.options"
local tally = require "ponder.base.tally"
local task = require "ponder.task"
local tools = require "ponder.strategy.tools"

local converse = {}

-- The tools as the model sees them.
local function offered(list)
    local shown = {}
    for i, tool in ipairs(list) do
        shown[i] = options.pick(tool, { "name", "description", "parameters" })
    end
    return list[1] and shown or nil
end

-- A reply's message with unique ids of its tool calls: invents those that the model omitted or
-- repeated.
local function message_of(reply, round)
    local message, used = reply.message, {}
    if type(message) ~= "table" or type(message.role) ~= "string" then
        message = { role = "assistant", content = reply.text or "" }
    end
    message = options.merge({}, message)
    message.tool_calls = {}
    for i, asked in ipairs(reply.tool_calls) do
        local id = asked.id
        if type(id) ~= "string" or id == "" or used[id] then
            id = ("tool%d.%d"):format(round, i)
        end
        used[id] = true
        message.tool_calls[i] = { id = id, name = tostring(asked.name),
            arguments = asked.arguments, arguments_json = asked.arguments_json }
    end
    return message
end

---Asks until a reply calls no tool. After `max_tool_round_trips` the model is asked not to use any,
---and its reply is final.
---@param list fun(): ponder.strategy.Tool[] the tools, before each request
---@param max integer round trips through tools
---@param ask fun(messages: ponder.model.Message[], offered: table[]?, choice: "none"?, round:
---  integer): ponder.model.Reply?, string?, string?, table?
---@param run fun(list: ponder.strategy.Tool[], call: table, name: string): string runs one tool;
---  `name` is unique in the conversation
---@return ponder.model.Reply? reply the last one, with the usage and cost of all
---@return ponder.model.Message[]|string messages of the conversation, without it; or a message
---@return string? code
---@return table? partial
function converse.ask(messages, list, max, ask, run)
    local usage, cost, is_known = {}, 0, true
    for round = 0, math.huge do
        local own = list()
        local reply, message, code, partial = ask(messages, offered(own),
            own[1] and round >= max and "none" or nil, round)
        if not reply then
            return nil, message, code, partial
        end
        tally.add(usage, reply.usage)
        is_known, cost = is_known and reply.cost ~= nil, cost + (reply.cost or 0)
        local asked = reply.tool_calls
        if type(asked) ~= "table" or not asked[1] or not own[1] or round >= max then
            if round > 0 then
                reply.usage, reply.cost = next(usage) and usage, is_known and cost or nil
            end
            return reply, messages
        end
        local called = message_of(reply, round)
        messages = table.move(messages, 1, #messages, 1, {})
        messages[#messages + 1] = called
        local results = task.map(called.tool_calls, function(one, i)
            return run(own, one, ("%d/%d"):format(round, i))
        end)
        for i, one in ipairs(called.tool_calls) do
            messages[#messages + 1] = { role = "tool", tool_call_id = one.id, name = one.name,
                content = results[i] }
        end
    end
end

-- No retries: the model may call a failed tool again.
local LIMITS = { tool_timeout_ms = 60000, tool_max_retries = 0, tool_retry_backoff_ms = 0 }

---@class ponder.strategy.ConverseOptions
---@field tools fun(): ponder.strategy.Tool[]? the tools that the model may call; called before each
---  request; the default of their `timeout_ms` is 60,000
---@field max_tool_round_trips integer? default 20
---@field on_tool fun(name: string, arguments: string) called before each tool call

---Asks a model one question, without a strategy.
---@param call ponder.model.ChatOptions its `messages` become those of the whole conversation,
---  without the last reply
---@return ponder.model.Reply? reply the last one, with the usage and cost of all
---@return string? message
---@return string? code
function converse.run(m, call, opts)
    local reply, message, code, partial = converse.ask(call.messages, function()
        return tools.check("chat", opts.tools() or {}, 1)
    end, opts.max_tool_round_trips or 20, function(messages, list, choice)
        call.messages, call.tools, call.tool_choice = messages, list, choice
        return m:chat(call)
    end, function(list, one)
        opts.on_tool(one.name, one.arguments_json or "")
        return (tools.run(list, one, LIMITS))
    end)
    if not reply then
        return nil, message, code, partial
    end
    return reply
end

return converse
