--- `--untrusted` and its flags, and loading scripts that run confined.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local files = require "ponder.run.log.files"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local terminal = require "ponder.core.terminal"

local untrusted -- ponder.serve.untrusted, loaded by `check`

local confined = {}

local DEFAULT_TIMEOUT_S = 600
local PATIENCE_S = 5 -- how long a server or an evaluation waits while a policy computes

---In the order of --help, for args.collect.
confined.OPTIONS = {
    { "untrusted", help = "run code that you do not trust, confined" },
    { "allow_model", value = "NAME,...", type = "list",
        help = "with --untrusted: models it may call, within a budget" },
    { "allow_read", value = "DIR,...", type = "list", files = true,
        help = "with --untrusted: directories it may read" },
    { "allow_net", value = "HOST,...", type = "list",
        help = "with --untrusted: servers it may contact (HOST:PORT)" },
    { "allow_tool", value = "FILE,...", type = "list", files = true,
        help = "with --untrusted: tools it may run unconfined: FILE.lua or NAME=FILE.lua" },
    { "weak_isolation", help = "with --untrusted: run even if the kernel lacks full isolation" },
}

local stdout = io.stdout

local BUDGETS = { "max_calls", "max_total_tokens", "max_cost" }

---Ends the command if these flags are wrong or this kernel cannot confine a script.
---@param given table the flags
---@param budgets? string[] budget flags, one of which --allow-model needs
function confined.check(given, budgets)
    if not given.untrusted then
        for _, option in ipairs(confined.OPTIONS) do
            cli.refuse(given[option[1]] and args.flag(option[1]) .. " is for --untrusted")
        end
        return
    end
    local flags, is_limited = {}, not given.allow_model
    for i, name in ipairs(budgets or BUDGETS) do
        flags[i] = args.flag(name)
        is_limited = is_limited or given[name] ~= nil
    end
    cli.expect(is_limited, "--untrusted: --allow-model needs a budget: "
        .. options.alternatives(flags))
    untrusted = require "ponder.serve.untrusted"
    local missing = untrusted.missing()
    cli.expect(not missing[1] or given.weak_isolation, ("--untrusted: this kernel has no %s (see "
        .. "ponder doctor); --weak-isolation runs it anyway"):format(table.concat(missing,
            " and no ")))
end

-- Makes a function that writes the output of a policy, safe for a terminal.
local function writer(out, fd)
    return function(output)
        out:write(terminal.is_terminal(fd) and quote.terminal(output) or output)
    end
end

local function load_tool(path)
    local value, message, code = files.run(path, "script")
    value = type(value) == "table" and value.run or value
    if message then
        return nil, message, code
    elseif type(value) ~= "function" then
        return nil, ("%s: must return a function, or a table with run (got %s)"):format(path,
            tostring(value))
    end
    return value
end

-- The options of ponder.serve.untrusted, from flags. Ends the command if a tool cannot be loaded.
local function options_of(given)
    local tools = {}
    for _, word in ipairs(given.allow_tool or {}) do
        local name, path = word:match "^([%w_.-]+)=(.+)$"
        path = path or word
        name = name or path:match "([^/]+)$":gsub("%.lua$", "")
        tools[name] = cli.need_flag("--allow-tool", load_tool(path))
    end
    return { models = given.allow_model, directories = given.allow_read, hosts = given.allow_net,
        tools = tools, memory_mb = given.max_memory_mb,
        write = writer(stdout, 1) }
end

---Loads a script for many calls, whose time the command limits. Its output goes to standard error.
---@param form "policies"|"evaluation"|"functions"
---@param argument any data
---@param given table the flags
---@return table? value with functions of this process: see ponder.serve.untrusted.proxies
---@return string? message
function confined.load(path, form, argument, given)
    local text = cli.need(files.read(path, "script"))
    local opts = options_of(given)
    opts.patience, opts.write = PATIENCE_S, writer(io.stderr, 2)
    local box, why, code = untrusted.open({ text = text:gsub("^#[^\n]*", ""), name = "@" .. path,
        form = form, arguments = argument }, opts)
    if not box then
        return nil, quote.terminal(code == "ERROR" and why or ("%s [%s]"):format(why, code))
    end
    return require("ponder.serve.untrusted.proxies")[form](box)
end

---A function that runs a script in its own process, like the chunk of a script.
---@param given table the flags; `refused` is set to the reason if the script is stopped
---@return function
function confined.chunk(text, name, arguments, given)
    local steps = given.max_steps
    given.max_steps = nil -- counted in the child
    given.timeout = given.timeout or DEFAULT_TIMEOUT_S
    local script, opts = { text = text, name = name, form = "script" }, options_of(given)
    opts.max_steps, opts.cpu_seconds = steps, math.ceil(given.timeout) + 1
    return function()
        local box <close>, message, code = untrusted.open(script, opts)
        local value
        if box then
            value, message, code = box:call("main", arguments)
        end
        if value == nil and message then
            given.refused = quote.terminal((code or "ERROR") == "ERROR" and message
                or ("%s [%s]"):format(message, code))
        end
        return value
    end
end

return confined
