--- An agent: a model that calls the tools of an MCP server until it can answer.
---
---     ponder run scripts/agent.lua --model openai:gpt-6-luna \
---         "npx -y @modelcontextprotocol/server-filesystem ." "What does the README promise?"
---
--- The same without Lua is `ponder cot --mcp "npx ..." QUESTION`.

local args = require "ponder.args"
local cot = require "ponder.strategy.cot"
local mcp = require "ponder.mcp"

local opts, operands = args.script("agent", { ... }, {
    model = { value = "NAME", help = "such as openai:gpt-6-luna; default: $PONDER_MODEL" },
}, { usage = "agent [--model NAME] SERVER QUESTION", about = "Answers a question with the tools of "
    .. "an MCP server, which SERVER, a command, starts.",
    operands = 3 }) -- a model may also come before the server
local question, server = table.remove(operands), table.remove(operands)
if not server then
    io.stderr:write("agent: expected a model, the command of an MCP server and a question\n")
    os.exit(2)
end

local function fail(message, code)
    io.stderr:write(("agent: %s [%s]\n"):format(message, code))
    os.exit(1)
end

local session <close>, refused, why = mcp.open { command = server, shell = true }
if not session then
    fail(refused, why)
end
local tools, problem, its_code = session:tools()
if not tools then
    fail(problem, its_code)
end

for _, tool in ipairs(tools) do
    tool.timeout_ms = 60000
end
local outcome, message, code = cot.new {
    model = opts.model or operands[1], tools = tools, max_tool_round_trips = 20,
}:run(question, { on_event = function(event)
    if event.name == "tool.start" then
        io.stderr:write("calls ", event.metadata.name, "\n")
    end
end })
if not outcome then
    fail(message, code)
end
print(outcome.answer)
return { answer = outcome.answer, server = session.server }
