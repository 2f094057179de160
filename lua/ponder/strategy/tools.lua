--- Tools: functions that a model may call before it answers.
---
---     tools = { {
---         name = "add", description = "adds two numbers",
---         parameters = { type = "object", required = { "a", "b" }, properties = {
---             a = { type = "number" }, b = { type = "number" } } },
---         run = function(args) return args.a + args.b end,
---     } }
---
--- `run` gets the decoded arguments, checked against the schema, and returns text or any value that
--- can be encoded as JSON; or nil and a message. It runs in its own task and may wait.
---
--- Errors become results that the model can read, `{"error":{"code","message"}}`: UNKNOWN_TOOL,
--- BAD_ARGUMENTS, TIMEOUT, TOOL_FAILED. A tool that raises, fails or times out is retried up to
--- `tool_max_retries` times, unless it has `retry = false`; invalid arguments are not retried.

local core = require "ponder.core.task"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local schema = require "ponder.model.schema"
local task = require "ponder.task"

local tools = {}

---@class ponder.strategy.Tool
---@field name string letters, digits, `_` and `-`
---@field description string?
---@field parameters table? JSON schema of an object; default: no arguments
---@field run fun(arguments: table): any, string?
---@field retry boolean? false: never retry, because it has side effects
---@field timeout_ms integer? of each attempt; default 15,000

local TOOL = {
    name = { type = "string", required = true },
    description = { type = "string" },
    parameters = { type = "table" },
    run = { type = "function", required = true },
    retry = { type = "boolean" },
    timeout_ms = { type = "integer", min = 1 },
}

local NAME = "^[%w_-]+$"
local MAX_NAME_BYTES = 64 -- the smallest limit of any provider
local MAX_ERROR_BYTES = 1000 -- of a message to the model
local TIMEOUT_MS = 15000

---Checks the tools of a strategy; raises.
---@param where string `"strategy.tot.new"`
---@param list any
---@param level integer
---@return ponder.strategy.Tool[]
---@package
function tools.check(where, list, level)
    local checked, names = {}, {}
    for i, tool in ipairs(list or {}) do
        local own = options.check(("%s: opts.tools[%d]"):format(where, i), tool, TOOL, level + 1)
        if not own.name:find(NAME) or #own.name > MAX_NAME_BYTES then
            error(("%s: opts.tools[%d].name must be letters, digits, '_' or '-', at most %d "
                .. "(got %s)"):format(where, i, MAX_NAME_BYTES, options.show(own.name)), level + 1)
        elseif names[own.name] then
            error(("%s: opts.tools[%d].name is not unique (%s)"):format(where, i, own.name),
                level + 1)
        end
        names[own.name] = true
        own.parameters = own.parameters or schema.NO_ARGUMENTS
        local mistake = schema.mistake(own.parameters)
        if mistake then
            error(("%s: opts.tools[%d].parameters: %s"):format(where, i, mistake), level + 1)
        end
        checked[i] = own
    end
    if list and next(list) ~= nil and #checked == 0 then
        error(where .. ": opts.tools must be a list of tools", level + 1)
    end
    return checked
end

local function failure(code, message)
    return json.encode { error = { code = code,
        message = quote.head(quote.utf8(message), MAX_ERROR_BYTES) } }, false
end

local function find(list, name)
    local names = {}
    for i, tool in ipairs(list) do
        if tool.name == name then
            return tool
        end
        names[i] = tool.name
    end
    return nil, ("there is no tool %s%s; there are: %s"):format(options.show(name),
        options.hint(name, names), table.concat(names, ", "))
end

local function arguments_problem(tool, arguments)
    if type(arguments) ~= "table" then
        return "the arguments are not a JSON object"
    end
    local ok, message = schema.check(arguments, tool.parameters)
    return not ok and message:gsub("^reply", "arguments") or nil
end

-- The result of a tool as text.
local function to_text(value)
    if type(value) == "string" then
        return quote.utf8(value)
    end
    local ok, text = pcall(json.encode, value)
    return ok and text or nil, "the result of the tool cannot be encoded as JSON"
end

core.protect(debug.getinfo(1, "S").source)

local function attempt(tool, arguments)
    local f = tool.run -- a local: an error may have to name it (see ponder.core.task)
    local ok, value, message = pcall(f, arguments)
    if not ok then
        return nil, "the tool raised: " .. tostring(value), "TOOL_FAILED"
    elseif value == nil then
        return nil, tostring(message or "the tool returned nothing"), "TOOL_FAILED"
    end
    local text, problem = to_text(value)
    return text, problem, "TOOL_FAILED"
end

-- Runs a tool, with retries.
local function run(tool, arguments, limits)
    local ms, message, code = tool.timeout_ms or limits.tool_timeout_ms or TIMEOUT_MS, nil, nil
    for try = 0, tool.retry == false and 0 or limits.tool_max_retries do
        if try > 0 then
            task.sleep(limits.tool_retry_backoff_ms / 1000)
        end
        local text
        text, message, code = task.timeout(ms / 1000, attempt, tool, arguments)
        if text then
            return text, true
        elseif code == "TIMEOUT" then
            message = ("no result within %d ms"):format(ms)
        end
    end
    return failure(code, message)
end

---Runs one tool; records the result in the run log.
---@param list ponder.strategy.Tool[]
---@param call {name: string, arguments: table?}
---@param limits table tool_timeout_ms (of tools without their own), tool_max_retries,
---  tool_retry_backoff_ms
---@return string result
---@return boolean ok
---@package
function tools.run(list, call, limits)
    local tool, unknown = find(list, call.name)
    if not tool then
        return failure("UNKNOWN_TOOL", unknown)
    end
    local wrong = arguments_problem(tool, call.arguments)
    if wrong then
        return failure("BAD_ARGUMENTS", wrong)
    end
    return log.tool(call.name, call.arguments, run, tool, call.arguments, limits)
end

return tools
