--- The command line: `ponder COMMAND [ARG...]`, or `ponder FILE [ARG...]` for `ponder run`.
---
--- A command is a module ponder.cli.NAME with
---     summary                    one line for `ponder --help`
---     usage                      the text of `ponder NAME --help`
---
--- Exit status: 0; 1 when a script raised or a run failed; 2 for a usage error; 130 after Ctrl-C.

local host = require "ponder.core.host"
local options = require "ponder.options"
local task = require "ponder.task"

local cli = {}

-- The commands are the built-in modules of this folder.
local function command_names()
    local names = {}
    for _, file in ipairs(host.embedded_names()) do
        names[#names + 1] = file:match("^lua/ponder/cli/(%w+)%.lua$")
    end
    table.sort(names)
    return names
end

local function is_command(name)
    return name:match("^%w+$") ~= nil and host.embedded("lua/ponder/cli/" .. name .. ".lua") ~= nil
end

local HELP = [[
ponder %s: search policies and reasoning strategies in Lua, run against language models

  ponder FILE [ARG...]     run a script; the same as ponder run FILE
  ponder -e CODE [ARG...]  run code
%s
  ponder --version

ponder COMMAND --help says more. Exit status: 0; 1 if a script raised; 2 for a usage error;
130 after Ctrl-C.]]

local function help()
    local commands = {}
    for i, name in ipairs(command_names()) do
        commands[i] = ("  ponder %-17s %s"):format(name, require("ponder.cli." .. name).summary)
    end
    return HELP:format(host.version, table.concat(commands, "\n"))
end

---Prints one line on standard error.
---@param message string
---@return integer status 2, for `return cli.usage_error(...)`
function cli.usage_error(message)
    io.stderr:write(message, "\n")
    return 2
end

-- Lines of a traceback about ponder's own files and C functions come after the script's.
local function is_own_frame(line)
    return line:match("^%s*%[C%]") or line:match("^%s*ponder/") or line:match("^%s*prompts/")
        or line:match("^%s*%(%.%.%.")
end

---Puts the script's own frames first in each traceback of a message.
---@param message string
---@return string
function cli.order_traceback(message)
    local out, own = {}, {}
    local function flush()
        table.move(own, 1, #own, #out + 1, out)
        own = {}
    end
    for line in (message .. "\n"):gmatch("(.-)\n") do
        local is_frame = line:sub(1, 1) == "\t"
        if not is_frame then
            flush()
        end
        table.insert(is_frame and is_own_frame(line) and own or out, line)
    end
    flush()
    return table.concat(out, "\n")
end

---An error message with a traceback, unless it has one; for xpcall.
---@param err any
---@return string
function cli.with_traceback(err)
    local message = type(err) == "string" and err
        or (getmetatable(err) or {}).__tostring and tostring(err)
        or ("(error object is %s)"):format(options.show(err))
    if message:find("\nstack traceback:", 1, true) then
        return message
    end
    return debug.traceback(message, 2)
end

---Prints an error with its traceback, or where an interrupted run stood.
---@param message string
---@return integer status 1, or 130 if it came of Ctrl-C
function cli.report_error(message)
    if task.interrupted() then
        local where = message:match("\n(search%.run[^\n]*)")
        io.stderr:write("ponder: interrupted\n", where and where .. "\n" or "")
        return 130
    end
    io.stderr:write("ponder: ", cli.order_traceback(message), "\n")
    return 1
end

local function run_command(name, args)
    local command = require("ponder.cli." .. name)
    if args[1] == "--help" or args[1] == "-h" then
        print(command.usage)
        return 0
    end
    local ok, status
    if command.outside_tasks then
        ok, status = xpcall(command.run, cli.with_traceback, args)
    else
        ok, status = xpcall(task.run, cli.with_traceback, command.run, args)
    end
    return ok and status or cli.report_error(status)
end

---Runs a command line.
---@param argv string[] as in C: argv[0] is the program
---@return integer status
function cli.main(argv)
    local first = argv[1]
    if first == nil then
        return cli.usage_error(help())
    elseif first == "--help" or first == "-h" or first == "help" and not argv[2] then
        print(help())
        return 0
    elseif first == "--version" or first == "-v" then
        print("ponder " .. host.version)
        return 0
    elseif first == "help" then
        return cli.main { [0] = argv[0], argv[2], "--help" }
    end
    local name, shift = first, 1
    if not is_command(name) then
        name, shift = "run", 0
    end
    -- args[0] and below: what stood before, for a script's own `arg`.
    return run_command(name, table.move(argv, 0, #argv, -shift, {}))
end

---The command that was probably meant by a word.
---@param word string
---@return string?
function cli.nearest_command(word)
    return options.nearest(word, command_names())
end

return cli
