--- The command line: `ponder COMMAND [ARG...]`, or `ponder FILE [ARG...]` for `ponder run`.
---
--- A command is a module ponder.cli.NAME with
---     summary                    one line for `ponder --help`
---     usage                      the text of `ponder NAME --help`
---     run(args)                  -> exit status
---     rules, order               its options (ponder.args), as --help lists them; or
---     rules, sections            under titles: {title=, names=}
---     words, files               what its operands may be: a list of words, any file
---     outside_tasks              it runs tasks of its own
---     own_help                   what --help says depends on what stands before it
---
--- `rules` and what follows may be absent. The completions of shells and the manual page are made
--- from them, as --help is.
---
--- Exit status: 0; 1 when a script raised or a run failed; 2 for a usage error; 124 when --timeout
--- was up; 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.

local args = require "ponder.args"
local core = require "ponder.core.task"
local failures = require "ponder.task.failures"
local host = require "ponder.core.host"
local options = require "ponder.options"
local quote = require "ponder.quote"
local runs = require "ponder.run"
local task = require "ponder.task"

local cli = {}

core.protect(debug.getinfo(1, "S").source)

-- Locals, so that errors are reported even if a script has replaced Lua's library functions.
local debug_traceback = debug.traceback
local find, gmatch, match, sub = string.find, string.gmatch, string.match, string.sub
local concat, insert, move = table.concat, table.insert, table.move
local stderr = io.stderr

-- The commands are the built-in modules of this directory.
local function command_names()
    local names = {}
    for _, file in ipairs(host.embedded_names()) do
        names[#names + 1] = file:match("^lua/ponder/cli/(%w+)%.lua$")
    end
    table.sort(names)
    return names
end

-- A usage text up to its list of options, and the title above that.
local function cut_off(usage, list)
    local first = list ~= "" and usage:find(list, 1, true)
    return first and usage:sub(1, first - 1):gsub("\n[%w ]+:%s*$", ""):gsub("%s+$", "") or usage
end

---All commands, by name.
---@return table[] commands {name=, summary=, usage=, about=, rules=, sections=, words=, files=};
---  `about` is the usage without the options
function cli.commands()
    local list = {}
    for i, name in ipairs(command_names()) do
        local command = require("ponder.cli." .. name)
        local rules = command.rules or {}
        local sections = command.sections or { { title = "Options", names = command.order or {} } }
        local about = command.usage
        for _, section in ipairs(sections) do
            about = cut_off(about, args.help(rules, section.names))
        end
        list[i] = { name = name, summary = command.summary, usage = command.usage, about = about,
            rules = rules, sections = sections, words = command.words or {},
            files = command.files or false }
    end
    return list
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

ponder COMMAND --help says more; begin with ponder help tutorial. Exit status: 0; 1 if a script
raised; 2 for a usage error; 124 when --timeout is up; 130 after Ctrl-C.]]

---The text of `ponder --help`.
---@return string
function cli.help()
    local commands = {}
    for i, name in ipairs(command_names()) do
        commands[i] = ("  ponder %-17s %s"):format(name, require("ponder.cli." .. name).summary)
    end
    return HELP:format(host.version, table.concat(commands, "\n"))
end

-- How a command is called, after the first paragraph of its usage: the ways to write it.
local function with_examples(name, usage, rules)
    local known = require("ponder.cli.shared.examples")[name] or {}
    local added = {}
    for i, line in ipairs(known) do
        added[i] = "  ponder " .. line
    end
    table.insert(added, 1, added[1] and "Examples:" or nil)
    local first = {}
    for i, option in ipairs(known.first or {}) do
        local rule = rules[option]
        first[i] = args.flag(option) .. (rule.value and " " .. rule.value or "")
    end
    if first[1] then
        added[#added + 1] = "\nUsed most: " .. concat(first, ", ")
    end
    local calls, rest = match(usage, "^(.-)\n\n(.*)$")
    return concat({ calls or usage, concat(added, "\n"), rest }, "\n\n")
end

---What --help says of a command.
---@param name string
---@return string? usage nil: there is no such command
function cli.usage(name)
    if not is_command(name) then
        return nil
    end
    local command = require("ponder.cli." .. name)
    return with_examples(name, command.usage, command.rules or {})
end

---Prints one line on standard error.
---@param message string
---@return integer status 2, for `return cli.usage_error(...)`
function cli.usage_error(message)
    stderr:write(message, "\n")
    return 2
end

-- Lines of a traceback about ponder's own files and C functions come after the script's.
local function is_own_frame(line)
    return match(line, "^%s*%[C%]") or match(line, "^%s*ponder/") or match(line, "^%s*prompts/")
        or match(line, "^%s*%(%.%.%.")
end

---Makes one traceback of those in a message, each of which a protected call has added: the script's
---own frames first, then ponder's.
---@param message string
---@return string
function cli.order_traceback(message)
    local said, frames, own, in_traceback, any = {}, {}, {}, false, false
    for line in gmatch(message .. "\n", "(.-)\n") do
        if in_traceback and sub(line, 1, 1) == "\t" then
            insert(is_own_frame(line) and own or frames, line)
        else
            in_traceback = line == "stack traceback:"
            any = any or in_traceback
            insert(said, not in_traceback and line or nil)
        end
    end
    if any then
        insert(said, "stack traceback:")
    end
    move(frames, 1, #frames, #said + 1, said)
    return concat(move(own, 1, #own, #said + 1, said), "\n")
end

---An error message with a traceback, unless it has one; for xpcall.
---@param err any
---@return string
function cli.with_traceback(err)
    local message = failures.describe(err)
    if find(message, "\nstack traceback:", 1, true) then
        return message
    end
    local traceback = failures.traceback_of(err)
    return traceback and message .. "\n" .. traceback or debug_traceback(message, 2)
end

local MEBIBYTE = 1 << 20

-- A message that says which limit was reached, and one that does not repeat what was reported.
local function clarify(message)
    local memory = match(message, "^[%w.]*:? ?not enough memory%f[\n\0]")
    if memory then
        local _, limit = host.memory()
        return ("%s: the limit is %d MiB (--max-memory-mb)"):format(memory, limit // MEBIBYTE)
    end
    local unjoined = match(message, "^task%.run: (unhandled errors? in %d+ tasks?);")
    local damaged = match(message, "^[^\n]*: damaged: [^\n]*") -- a log, wherever it was read
    return unjoined or damaged or cli.order_traceback(message)
end

-- Why a run ended, in a word.
local STOPPED = { interrupt = "interrupted", terminate = "terminated", hangup = "hung up",
    timeout = "time is up", steps = "the steps are spent" }

---Prints an error with its traceback, or where a run stood that was stopped.
---@param message string
---@param run? ponder.Run whose; default: the current one
---@return integer status 1, or that of a run that was stopped: 130 if it came of Ctrl-C
function cli.report_error(message, run)
    core.heard()
    local log_run = package.loaded["ponder.log.run"]
    if log_run then
        log_run.failure(message, run)
    end
    if log_run and log_run.is_broken(run) then
        return 1 -- its end says why
    elseif core.is_stopping() then
        local where = match(message, "\n(search%.run[^\n]*)")
        stderr:write("ponder: ", STOPPED[core.stop_reason()], "\n", where and where .. "\n" or "")
        return host.stop_status()
    end
    stderr:write("ponder: ", quote.terminal(clarify(message)), "\n")
    return 1
end

-- An error of a task that was never joined.
local function report_unjoined(message, id)
    if not core.is_stopping() then
        stderr:write(("ponder: unhandled error in task %d: %s\n"):format(
            id, quote.terminal(cli.order_traceback(message))))
    end
end

local TIME_IS_UP = 124

-- Ends the log of a run, where there is one.
local function end_run(run, status)
    local log_run = package.loaded["ponder.log.run"]
    return log_run and log_run.finish(run, status) or status
end

-- Whether --help is among a command's options: before the script's own.
local function wants_help(command, list)
    for i, word in ipairs(list) do
        if word == "--help" or word == "-h" and i == 1 then
            return true
        elseif word == "--" or command.own_help then
            return false
        end
    end
    return false
end

local function run_command(name, list)
    local command = require("ponder.cli." .. name)
    if wants_help(command, list) then
        print(cli.usage(name))
        return 0
    end
    local run = runs.new()
    local ok, status
    if command.outside_tasks then
        ok, status = xpcall(command.run, cli.with_traceback, list)
    else
        ok, status = xpcall(task.run, cli.with_traceback, run.enter, run, command.run, list)
    end
    status = ok and status or cli.report_error(status, run)
    return end_run(run, status == 1 and host.time_is_up() and TIME_IS_UP or status)
end

---A command whose runs are logged, by the name that a log has of it.
---@param name string
---@return table? command
---@return string? message
function cli.logged(name)
    local command = is_command(name) and require("ponder.cli." .. name)
    if not command or not ((command.rules or {}).no_log or command.logs_requests) then
        return nil, ("no run is logged of the command %s: the log is damaged"):format(
            options.show(name))
    end
    return command
end

---Runs a command within one that runs.
---@param name string
---@param list string[] its arguments
---@return integer status
function cli.execute(name, list)
    local command, message = cli.logged(name)
    if not command then
        return cli.usage_error("ponder: " .. message)
    end
    return command.run(list)
end

---Runs a command line.
---@param argv string[] as in C: argv[0] is the program
---@return integer status
function cli.main(argv)
    local first = argv[1]
    if first == "--confined" then
        return require("ponder.untrusted.child").main()
    elseif first == nil then
        return cli.usage_error(cli.help())
    elseif first == "--help" or first == "-h" then
        print(cli.help())
        return 0
    elseif first == "--version" or first == "-v" then
        print("ponder " .. host.version)
        return 0
    end
    task.on_unjoined_error(report_unjoined)
    local name, shift = first, 1
    if not is_command(name) then
        name, shift = "run", 0
    end
    -- args[0] and below: what stood before, for a script's own `arg`.
    return run_command(name, table.move(argv, 0, #argv, -shift, {}))
end

---The command closest to a misspelt word.
---@param word string
---@return string?
function cli.nearest_command(word)
    return options.nearest(word, command_names())
end

return cli
