--- Servers of the Model Context Protocol, whose tools a model may call.
---
---     local mcp = require "ponder.mcp"
---
---     local files <close> = assert(mcp.open {
---         command = { "npx", "-y", "@modelcontextprotocol/server-filesystem", "." } })
---     local web <close> = assert(mcp.open { url = "https://example.com/mcp",
---         headers = { Authorization = "Bearer " .. os.getenv "EXAMPLE_TOKEN" } })
---
---     strategy.new { model = "openai:gpt-6-luna", tools = files:tools() }:run(question)
---     local result = assert(files:call("read_file", { path = "README.md" }))
---     print(result.text)
---
--- A server is used only because a script, a flag (--mcp) or the user named it, never because of a
--- file that happens to exist. Its answers are data. It gets no keys: its environment is that of
--- ponder.process.
---
--- A server's answers are in the run log. A replay starts no server; a resumed run starts it with
--- the first call that the log does not answer, without its previous state.
---
--- The server ends with `close`, when the task that opened the session is cancelled or fails, and
--- with ponder. Supports versions 2025-06-18, 2025-11-25 and 2026-07-28 of the protocol.

local client = require "ponder.serve.mcp.client"
local command = require "ponder.run.process.command"
local core = require "ponder.core.task"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local pipe = require "ponder.serve.mcp.pipe"
local protocol = require "ponder.serve.mcp.protocol"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local web = require "ponder.serve.mcp.web"

local mcp = {}

local MAX_NAME = 64 -- of a tool: accepted by every provider
local MAX_LABEL = 60

local COMMON = {
    timeout_ms = { type = "integer", min = 1, default = 60000 },
    max_tools = { type = "integer", min = 1, default = 1000 },
    log = { type = "function" },
}
local COMMAND = {}
local URL = { url = { type = "string", required = true }, headers = { type = "table" } }
options.merge(COMMAND, command.OPTIONS)
for name, rule in pairs(COMMON) do
    COMMAND[name], URL[name] = rule, rule
end

local function check_url(opts)
    opts = options.check("mcp.open", opts, URL, 3)
    for name, value in pairs(opts.headers or {}) do
        if type(name) ~= "string" or type(value) ~= "string" or (name .. value):find "%c" then
            error("mcp.open: opts.headers must map names to one-line strings", 3)
        end
    end
    return opts
end

---@class ponder.mcp.OpenOptions `command` or `url`
---@field command? string[]|string the program, found by PATH, and its arguments; or a shell command
---@field shell? boolean `command` is a text for /bin/sh
---@field env? table names of variables to pass on (as a list), and values by name
---@field cwd? string its working directory
---@field url? string of a server over streamable HTTP
---@field headers? table<string, string> of each request
---@field timeout_ms? integer of each request, the first included; default 60000
---@field max_tools? integer that the server may list; default 1000
---@field log? fun(level: string, text: string) gets the server's log messages, and other lines of
---  its standard output at the level "info"; default: prints warnings and errors on standard error

---@class ponder.mcp.ClientSession
---@field server {name: string?, version: string?} as reported
---@field instructions string? the server's instructions for use
---@field tools_changed boolean whether the server has announced other tools since they were listed,
---  as of the last call
---@field private client ponder.mcp.Client? nil: not connected
local Session = {}
Session.__index = Session
Session.__name = "ponder.mcp.ClientSession"

-- Closes a session when its task is cancelled; must not wait.
local Ending = {}
Ending.__index = Ending

function Ending:close()
    local session = self.session
    local made = session.client
    session.client, session.closed = nil, true
    if made then
        made:close(false)
    end
end

-- The connection; a resumed run connects on first use.
local function connect(self)
    local permit <close> = self.gate:acquire() -- luacheck: ignore 211
    if self.closed then
        return nil, self.label .. ": the session is closed", "CLOSED"
    elseif self.client then
        return self.client
    end
    local opts = self.opts
    local connection = opts.url and web or pipe
    local made, message, code = client.connect(function(receive)
        return connection.open(opts, self.label, receive)
    end, { timeout_ms = opts.timeout_ms, log = opts.log, is_web = opts.url ~= nil })
    if made and self.closed then
        made:close(true)
        return nil, self.label .. ": the session is closed", "CLOSED"
    end
    self.client = made
    return made, message, code
end

-- What f(client) returns, in the run's log.
local function recorded(self, name, key, f)
    return log.record(name, key, function()
        local made, message, code = connect(self)
        if not made then
            return nil, message, code
        end
        return f(made)
    end)
end

---Connects to a server.
---@param opts ponder.mcp.OpenOptions
---@return ponder.mcp.ClientSession?
---@return string? message
---@return string? code NOT_FOUND (no such program), SPAWN, LOST (it ended), BAD_REPLY (not MCP),
---  TIMEOUT, UNSUPPORTED (unknown version), SERVER, TOO_LARGE; over HTTP also AUTH, BAD_REQUEST and
---  those of ponder.core.net
function mcp.open(opts)
    local is_url = type(opts) == "table" and opts.url ~= nil
    opts = is_url and check_url(opts) or command.check("mcp.open", opts, COMMAND)
    local label, key -- for people, and for the log
    if is_url then
        label = redact.address(opts.url, redact.MARK)
        key = { url = label }
    else
        label = quote.line(opts.shell and opts.command[3] or table.concat(opts.command, " "),
            MAX_LABEL)
        key = command.key(opts)
    end
    scheduler.check("mcp.open")
    opts.log = opts.log or function(level, text)
        if (protocol.level(level) or 0) >= protocol.level "warning" then
            io.stderr:write(("ponder: %s: %s\n"):format(label, quote.line(text)))
        end
    end
    local self = setmetatable({ opts = opts, label = label, key = key,
        gate = task.semaphore(1), tools_changed = false }, Session)
    local about, message, code = recorded(self, "mcp.open", key, function(made)
        return { server = made.server, instructions = made.instructions }
    end)
    if not about then
        return nil, message, code
    end
    self.server, self.instructions = about.server, about.instructions
    self.ending = setmetatable({ session = self }, Ending)
    scheduler.own(self.ending)
    return self
end

-------------------------------------------------------------------------------
-- Tools

-- A unique name that every provider accepts.
local function free_name(self, name, taken)
    local plain = name:gsub("[^%w_-]", "_"):sub(1, MAX_NAME)
    if taken[plain] or plain == "" then
        plain = (tostring(self.server.name or "mcp") .. "_" .. name):gsub("[^%w_-]", "_")
            :sub(1, MAX_NAME)
    end
    local free, n = plain, 1
    while taken[free] do
        n = n + 1
        free = plain:sub(1, MAX_NAME - #tostring(n) - 1) .. "_" .. n
    end
    taken[free] = true
    return free
end

---The server's present tools, for the `tools` of a strategy. A failed tool is not called again
---automatically: it may have had effects.
---@param beside? ponder.strategy.Tool[] other tools, whose names are taken
---@return ponder.strategy.Tool[]? tools
---@return string? message
---@return string? code TOO_LARGE: more than max_tools; BAD_REPLY: a tool with a broken schema;
---  those of `mcp.open`
function Session:tools(beside)
    local list, message, code = recorded(self, "mcp.tools", self.key, function(made)
        return made:list_tools(self.opts.max_tools)
    end)
    if not list then
        return nil, message, code
    end
    local taken, tools = {}, {}
    for _, tool in ipairs(beside or {}) do
        taken[tool.name] = true
    end
    for i, tool in ipairs(list) do
        local description = tool.description or tool.title
        tools[i] = { name = free_name(self, tool.name, taken), retry = false,
            description = type(description) == "string" and description or nil,
            parameters = tool.inputSchema,
            run = function(arguments)
                local result, problem = self:call(tool.name, arguments)
                return result and result.text, problem
            end }
    end
    self.tools_changed = false
    return tools
end

local CALL = {
    timeout_ms = { type = "integer", min = 1 },
    on_progress = { type = "function" },
}

---@class ponder.mcp.Result
---@field text string for a model; content that is not text is only named
---@field content table[] parts in the protocol's form
---@field structured any content in the form of the tool's output schema, if it has one

local function note(kind, part)
    return ("[%s%s]"):format(kind, type(part.mimeType) == "string" and ", " .. part.mimeType or "")
end

local function named(value)
    return type(value) == "string" and value or "?"
end

local PARTS = {
    text = function(part) return part.text end,
    image = function(part) return note("an image", part) end,
    audio = function(part) return note("a recording", part) end,
    resource = function(part)
        local resource = type(part.resource) == "table" and part.resource or {}
        return type(resource.text) == "string" and resource.text
            or note("the resource " .. named(resource.uri), resource)
    end,
    resource_link = function(part)
        return note(("the resource %s: %s"):format(named(part.uri), named(part.name)), part)
    end,
}

-- The result of a tool as text for a model: names parts that are not text; without parts, the
-- structured content as JSON.
local function text_of(result)
    local texts = {}
    for _, part in ipairs(type(result.content) == "table" and result.content or {}) do
        local read = type(part) == "table" and PARTS[part.type]
        local text = read and read(part)
        texts[#texts + 1] = type(text) == "string" and text or nil
    end
    if #texts == 0 and result.structuredContent ~= nil then
        return json.encode(result.structuredContent)
    end
    return table.concat(texts, "\n")
end

---Calls a tool. A call that is cancelled or times out is cancelled at the server, too.
---@param name string
---@param arguments? table
---@param opts? {timeout_ms: integer?, on_progress: (fun(done: number, total: number?,
---  message: string?))?} on_progress is not called if a log answers
---@return ponder.mcp.Result? result
---@return string? message
---@return string? code TOOL_FAILED: the tool reports an error; TIMEOUT; SERVER: no such tool, or
---  the like; BAD_REPLY: the result does not fit the outputSchema of the tool, which was listed;
---  CLOSED; those of `mcp.open`
---@return ponder.mcp.Result? partial with TOOL_FAILED
function Session:call(name, arguments, opts)
    options.argument("session:call", "name", name, "string")
    if arguments ~= nil then
        options.argument("session:call", "arguments", arguments, "table")
    end
    opts = options.check("session:call", opts, CALL)
    scheduler.check("session:call")
    local key = { server = self.key, tool = name, arguments = json.object(arguments or {}) }
    local answer, message, code = recorded(self, "mcp.call", key, function(made)
        local raw, problem, its_code = made:call_tool(name, key.arguments, {
            timeout_ms = opts.timeout_ms, on_progress = opts.on_progress,
            max_tools = self.opts.max_tools })
        return raw and { result = raw, changed = made.tools_changed }, problem, its_code
    end)
    if not answer then
        return nil, message, code
    end
    self.tools_changed = answer.changed
    local raw = answer.result
    local result = { text = text_of(raw), content = raw.content or json.array {},
        structured = raw.structuredContent }
    if raw.isError then
        return nil, ("%s: %s"):format(name, result.text), "TOOL_FAILED", result
    end
    return result
end

---Ends the session and the server that it started: kills the server after two seconds, or at once
---if the caller cannot wait (its task is cancelled).
function Session:close()
    self.closed = true
    local made = self.client
    self.client = nil
    if made then
        made:close(scheduler.current() ~= nil and not core.cannot_wait())
    end
end

Session.__close = Session.close

function Session:__gc()
    Ending.close { session = self }
end

options.methods(Session, "session", "a session")

return mcp
