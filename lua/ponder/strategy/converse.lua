--- Asks a model one question, without a machine: runs the tools that it calls until it answers.

local calls = require "ponder.strategy.calls"
local options = require "ponder.options"
local task = require "ponder.task"
local tools = require "ponder.strategy.tools"

local converse = {}

-- No retries: the model may call a failed tool again.
local LIMITS = { max_tool_round_trips = 20, tool_timeout_ms = 60000, tool_max_retries = 0,
    tool_retry_backoff_ms = 0 }

---@class ponder.strategy.ConverseOptions
---@field tools fun(): ponder.strategy.Tool[]? the tools that the model may call; called before each
---  request; the default of their `timeout_ms` is 60,000
---@field max_tool_round_trips integer? default 20
---@field on_tool fun(name: string, arguments: string) called before each tool call

-- The last reply, with the usage and cost of the whole conversation.
local function with_totals(reply, usage, cost)
    if cost then
        reply.usage = next(usage) and usage or nil
        reply.cost = cost.known and reply.cost and cost.sum + reply.cost
    end
    return reply
end

---Asks a model, and runs the tools that it calls.
---@param m ponder.model.Model
---@param call ponder.model.ChatOptions its `messages` become those of the whole conversation,
---  without the last reply
---@param opts ponder.strategy.ConverseOptions
---@return ponder.model.Reply? reply the last one, with the usage and cost of all
---@return string? message
---@return string? code
function converse.run(m, call, opts)
    local limits = options.merge(options.merge({}, LIMITS),
        { max_tool_round_trips = opts.max_tool_round_trips })
    local function current_tools()
        return tools.check("chat", opts.tools() or {}, 1)
    end
    local own, cost = calls.new(current_tools(), limits), nil
    local directive = own:open({ call_id = "chat", context = call.messages }, nil, nil, 1)
    while true do
        call.messages, call.tools = directive.messages, directive.tools
        call.tool_choice = directive.tool_choice
        local reply, message, code, partial = m:chat(call)
        if not reply then
            return nil, message, code, partial
        end
        local asked, usage = own:reply(own:find(directive.id), reply)
        if not asked then
            return with_totals(reply, usage, cost)
        end
        cost = cost or { known = true, sum = 0 }
        cost.known, cost.sum = cost.known and reply.cost, cost.sum + (reply.cost or 0)
        for _, one in ipairs(asked) do
            opts.on_tool(one.name, one.arguments_json or "")
        end
        local results = task.map(asked, function(one)
            return (tools.run(own.tools, one, limits))
        end)
        own.tools = current_tools()
        for i, one in ipairs(asked) do
            directive = own:tool_result(one.id, results[i])
        end
    end
end

return converse
