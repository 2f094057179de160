--- ReAct, after Yao et al. 2023, "ReAct: Synergizing Reasoning and Acting in Language Models".
---
---     ponder ask --strategy scripts/strategies/react.lua --tools tools.lua "..."
---
--- The model thinks and acts in turn: it writes a thought and one action, a tool with its arguments
--- as JSON, and gets the observation, until its action is to finish. The tools are those of
--- --tools; the default is `calculate`. (Models with native tool calls do not need this strategy:
--- they get --tools in every strategy.)

local json = require "ponder.json"
local log = require "ponder.log"
local sandbox = require "ponder.sandbox"
local strategy = require "ponder.strategy"

local INSTRUCTIONS = [[
Solve the problem by turns of thought and action. In each turn write a thought and then one action,
and stop there; you will get an observation. An action is a tool and its arguments as a JSON object:

Thought: what to find out next
Action: %s {"...": "..."}

When you know the answer, act so:

Action: finish {"answer": "..."}]]

local prompts = {}

function prompts.act(context)
    local tools = {}
    for i, tool in ipairs(context.tools) do
        tools[i] = ("- %s: %s %s"):format(tool.name, tool.description, tool.parameters)
    end
    local messages = {
        { role = "system", content = (context.instructions
            or INSTRUCTIONS:format(context.tools[1].name)) .. "\n\nThe tools:\n"
            .. table.concat(tools, "\n") },
        { role = "user", content = context:quote("problem", context.question) },
    }
    for _, turn in ipairs(context.turns) do
        messages[#messages + 1] = { role = "assistant", content = turn.text }
        messages[#messages + 1] = { role = "user", content = "Observation:\n"
            .. context:quote("observation", turn.observation) }
    end
    return messages
end

local CALCULATE = {
    name = "calculate", description = "the value of an expression in Lua, such as 2^10 // 3",
    parameters = { type = "object", required = { "expression" },
        properties = { expression = { type = "string" } } },
    run = function(arguments)
        local value, message = log.record("calculate", arguments, sandbox.run,
            "return " .. tostring(arguments.expression),
            { timeout_ms = 200, memory_mb = 16 })
        return tostring(value == nil and message or value)
    end,
}

-- The last action of a reply: the tool's name and its arguments; or nil and what is wrong.
local function read_action(text)
    local name, rest = text:match "^.*Action:%s*([%w_-]+)%s*(.*)$"
    local arguments = json.decode(rest and rest:match "^%b{}" or "")
    if not name then
        return nil, "no action; write: Action: NAME {\"argument\": \"value\"}"
    elseif type(arguments) ~= "table" then
        return nil, "the arguments of " .. name .. " must be a JSON object"
    end
    return name, arguments
end

-- The tools, as the prompt shows them.
local function describe(tools)
    local list = {}
    for i, tool in ipairs(tools) do
        list[i] = { name = tool.name, description = tool.description or "",
            parameters = json.encode(tool.parameters or {}) }
    end
    return list
end

local function perform(thinker, tools, name, arguments)
    if not name then
        return arguments
    elseif tools[1] == CALCULATE then
        return name == "calculate" and CALCULATE.run(arguments) or "there is no tool " .. name
    end
    return thinker:tool(name, arguments)
end

return strategy.new {
    name = "react",
    summary = "think and act in turn, with tools",
    roles = { "act" },
    prompts = prompts,
    counted = { "turn", "turns" },
    options = { max_turns = { type = "integer", min = 1, max = 1000, default = 8,
        help = "limit for actions" } },

    run = function(thinker, question)
        local tools = thinker.options.tools[1] and thinker.options.tools or { CALCULATE }
        local turns, last, described = {}, 1, describe(tools)
        for _ = 1, thinker.options.max_turns do
            local text = thinker:prompt("act", { question = question, turns = turns,
                tools = described }, { node = last, tools = false })
            local name, arguments = read_action(text)
            last = thinker:node { text = text, parents = { last } }
            if name == "finish" then
                thinker:best(last, tostring(arguments.answer))
                return tostring(arguments.answer)
            end
            turns[#turns + 1] = { text = text,
                observation = perform(thinker, tools, name, arguments) }
        end
        return nil, "no answer within max_turns", "MAX_TURNS"
    end,
}
