--- `--tools FILE` and `--mcp SERVER`: the tools that a model may call.

local cli = require "ponder.cli.shared.main"
local files = require "ponder.run.log.files"
local mcp = require "ponder.mcp"
local model = require "ponder.model"
local model_name = require "ponder.model.name"
local strategy_tools = require "ponder.strategy.tools"
local task = require "ponder.task"

local toolbox = {}

toolbox.OPTIONS = {
    { "tools", value = "FILE", files = true, alias = "tool",
        help = "Lua file that returns a list of tools" },
    { "mcp", value = "SERVER", many = true, help = "MCP server whose tools the model may call: "
        .. "a command, a URL, or a name in config.lua; may be repeated" },
    { "tool_timeout_ms", value = "TIME", type = "duration", unit = "ms", min = 1,
        help = "timeout of each attempt of a tool (default: 15s; chat: 60s)" },
}

---@class ponder.cli.Toolbox
---@field tools ponder.strategy.Tool[]? nil: no flag names any
---@field private own ponder.strategy.Tool[] those of the file
---@field private sessions ponder.mcp.ClientSession[]
local Toolbox = {}
Toolbox.__index = Toolbox

---Closes the sessions, which ends the servers.
function Toolbox:close()
    for _, session in ipairs(self.sessions) do
        session:close()
    end
end
Toolbox.__close = Toolbox.close

---The tools, listed again if a server has announced a change.
---@return ponder.strategy.Tool[]?
function Toolbox:current()
    for _, session in ipairs(self.sessions) do
        if session.tools_changed then
            self:list()
            break
        end
    end
    return self.tools
end

-- Lists the tools of all servers after those of the file.
function Toolbox:list()
    local all = table.move(self.own, 1, #self.own, 1, {})
    for _, session in ipairs(self.sessions) do
        local list, message = session:tools(all)
        if not list then
            return nil, message
        end
        table.move(list, 1, #list, #all + 1, all)
    end
    for _, tool in ipairs(all) do
        tool.timeout_ms = tool.timeout_ms or self.timeout_ms
    end
    self.tools = all
    return all
end

local function read_file(path)
    local tools, message, code = files.run(path, "tools")
    if message then
        return nil, message, code
    elseif type(tools) ~= "table" then
        return nil, path .. ": must return a list of tools"
    end
    local ok, problem = pcall(strategy_tools.check, path, tools, -1)
    if not ok then
        return nil, (tostring(problem):gsub("opts%.", "", 1))
    end
    return tools
end

-- Replaces `$NAME` by the value of that variable.
local function expand(text, where)
    return (text:gsub("%$([%a_][%w_]*)", function(name)
        return os.getenv(name) or error(("%s: $%s is not set"):format(where, name), 0)
    end))
end

-- The options of mcp.open for a value of --mcp, which the config file may have.
local function server_of(text, named)
    if named == nil then
        return text:find "^https?://" and { url = text } or { command = text, shell = true }
    elseif type(named) ~= "table" then
        model_name.refuse(model_name.config_path(os.getenv),
            ("mcp.%s must be a table of options"):format(text), text)
    end
    local opts = {}
    for name, value in pairs(named) do
        opts[name] = value
        if (name == "headers" or name == "env") and type(value) == "table" then
            opts[name] = {}
            for field, inner in pairs(value) do
                opts[name][field] = type(field) == "string" and type(inner) == "string"
                    and expand(inner, ("config.lua: mcp.%s.%s"):format(text, name)) or inner
            end
        end
    end
    return opts
end

local function open_server(text, log)
    local named = (model.config().mcp or {})[text]
    local ok, session, message = pcall(function()
        local opts = server_of(text, named)
        opts.log = log
        return mcp.open(opts)
    end)
    if not ok and task.stop_reason() then
        error(session, 0)
    elseif not ok then
        return nil, (tostring(session):gsub("^.-mcp%.open: (.*)$", function(mistake)
            return mistake .. (named and (" (mcp.%s in config.lua)"):format(text) or "")
        end))
    end
    return session, message
end

---Reads the file and starts the servers that the flags name. Ends the command if one fails.
---@param given table the flags: tools, mcp, tool_timeout_ms, quiet
---@return ponder.cli.Toolbox box to be closed
function toolbox.open(given)
    cli.refuse(given.tool_timeout_ms and not given.tools and not given.mcp
        and "--tool-timeout-ms needs --tools or --mcp")
    local own = given.tools and cli.need_flag("--tools", read_file(given.tools)) or nil
    local self = setmetatable({ own = own or {}, tools = own, sessions = {},
        timeout_ms = given.tool_timeout_ms }, Toolbox)
    local ok, message = true, nil
    for i, text in ipairs(given.mcp or {}) do
        ok, message = open_server(text, given.quiet and function() end or nil)
        self.sessions[i] = ok
        if not ok then
            break
        end
    end
    if ok and (self.sessions[1] or own) then
        ok, message = self:list()
    end
    if not ok then
        self:close()
        cli.need_flag("--mcp", nil, message)
    end
    return self
end

return toolbox
