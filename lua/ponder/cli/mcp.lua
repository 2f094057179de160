--- `ponder mcp POLICY...`: serves policies as MCP tools over standard input and output.

local cli = require "ponder.cli.shared.main"
local foreign = require "ponder.serve.http.foreign"
local host = require "ponder.core.host"
local json = require "ponder.json"
local logging = require "ponder.cli.shared.logging"
local policies = require "ponder.cli.shared.policies"
local prompts = require "ponder.serve.mcp.prompts"
local protocol = require "ponder.serve.mcp.protocol"
local reader = require "ponder.core.reader"
local resources = require "ponder.show.resources"
local server = require "ponder.serve.mcp.server"
local strategy = require "ponder.strategy"
local task = require "ponder.task"
local waiters = require "ponder.run.task.waiters"

local mcp = cli.command({ parse = policies.parse, files = true, logs_requests = true,
    expects = { 1, math.huge, "a policy: ponder mcp FILE.lua" } }, {
    { "model", value = "NAME",
        help = "model of strategies and of chat (default: $PONDER_MODEL)" },
    { "reload", help = "reload changed policy files for new calls" },
    { "log", value = "FILE", files = true,
        help = "log each call as a run in FILE, and offer these runs as resources" },
    logging.RULES.sync,
    policies.server_flags(nil, { "timeout_ms", "max_cost_per_request", "max_calls_per_request" }),
})

mcp.summary = "offer policies as tools to agents (Model Context Protocol)"
mcp.words = table.move(strategy.names, 1, #strategy.names, 2, { "chat" })

mcp.about = [[
ponder mcp [OPTION...] POLICY...

Runs a server of the Model Context Protocol over standard input and output. Each policy is a tool;
ponder serve --help describes POLICY. A policy's `parameters` is the JSON schema of its arguments
(request.arguments), `returns` that of its result, `annotations` are hints (readOnlyHint...):

  return { run = function(request) return { sum = request.arguments.a + request.arguments.b } end,
      description = "adds", parameters = { type = "object", required = { "a", "b" },
          properties = { a = { type = "number" }, b = { type = "number" } } } }

The prompts of ponder prompts list are offered as MCP prompts, with the question as an argument.

Speaks versions 2025-06-18 and 2025-11-25 with initialize, and 2026-07-28 without. Exits at the end
of input. An agent's configuration: {"command": "ponder", "args": ["mcp", "policy.lua"]}]]

-------------------------------------------------------------------------------
-- Standard input and output: one JSON object a line

local GRACE_S = 2 -- for running requests once the input ends

-- Calls `on_bytes(bytes)` as input arrives, until it ends.
local function each_piece(fd, on_bytes)
    local input = reader.open(fd)
    local arrival, posted = waiters.new "input", false
    local source = task.add_source { port = input:number(), pending = function() return true end,
        take = function()
            posted = true
            arrival:wake()
        end }
    repeat
        if not posted then
            arrival:wait()
        end
        posted = false
        local bytes, ended = input:take()
        on_bytes(bytes)
    until ended
    task.remove_source(source)
    input:close()
end

-- Returns a function that splits pieces of input into lines. (Matching a pattern would take
-- quadratic time on a long line.)
local function lines(on_line, on_too_long)
    local parts, size = {}, 0
    return function(bytes)
        local at, stop = 1, bytes:find("\n", 1, true)
        while stop do
            parts[#parts + 1] = bytes:sub(at, stop - 1)
            local whole = size <= protocol.MAX_MESSAGE and table.concat(parts) or ""
            parts, size, at = {}, 0, stop + 1
            stop = bytes:find("\n", at, true)
            if whole:find "%S" then
                on_line(whole)
            end
        end
        local rest = bytes:sub(at)
        size = size + #rest
        parts[#parts + 1] = size <= protocol.MAX_MESSAGE and rest or nil
        if size > protocol.MAX_MESSAGE and #parts > 0 then
            parts = {}
            on_too_long()
        end
    end
end

-- Serves one client over standard input until it ends; running requests may then finish.
local function serve(made, out)
    local function send(message)
        out:write(json.encode(message), "\n")
        out:flush()
    end
    local function refuse(message)
        send(protocol.failure(nil, protocol.PARSE_ERROR, "Parse error: " .. message))
    end
    local session = made:session(send)
    each_piece(0, lines(function(line)
        local message, problem = foreign.decode(line)
        if message == nil then
            return refuse(tostring(problem))
        end
        session:receive(message)
    end, function() refuse "the line is too long" end))
    task.timeout(GRACE_S, session.finish, session)
    session:close()
end

function mcp.run(given, operands, arguments)
    local status = policies.begin("mcp", mcp.rules, given, operands, arguments)
    if status then
        return status
    end
    local out = cli.need(host.take_output()) -- policies and their programs write elsewhere
    local opts = policies.server_options(mcp.rules, given)
    opts.policies, opts.version = policies.load(operands, given), host.version
    opts.prompts, opts.resources = prompts.catalog, given.log and resources.of(given.log) or nil
    local _, made = cli.expect(pcall(server.new, opts))
    serve(made, out)
    return 0
end

return mcp
