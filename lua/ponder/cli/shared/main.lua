--- The command line: `ponder COMMAND [ARG...]`, or `ponder FILE [ARG...]` for `ponder run`.
---
--- A command is a module ponder.cli.NAME with
---     summary                    one line for `ponder --help`
---     about                      the text of `ponder NAME --help` above the options
---     run(given, operands, list, first)    -> exit status; or status or nil (2), message; or it
---                                ends by cli.refuse, expect... Its arguments: see args.parse;
---                                `list`: those of the command
---     rules, sections            its options, from cli.command
---     expects                    its operands: {fewest, most, what to write in a usage error}
---     words, files               the same for completion: a list of words; true if any file
---     parse(name, list, rules)   in place of args.parse
---     outside_tasks              true: run() is not called within task.run
---     own_help                   true: run() handles a --help that is not the first argument
---
--- `rules` and the fields below it are optional. --help, shell completions and the manual page are
--- made from these fields.
---
--- Exit statuses: ponder.cli.shared.statuses.

local args = require "ponder.args"
local core = require "ponder.core.task"
local failures = require "ponder.run.task.failures"
local host = require "ponder.core.host"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local runs = require "ponder.run"
local task = require "ponder.task"

local cli = {}

core.protect(debug.getinfo(1, "S").source)

-- Locals, so that errors are reported even if a script has replaced Lua's library functions.
local debug_traceback = debug.traceback
local find, gmatch, gsub, match, sub = string.find, string.gmatch, string.gsub, string.match,
    string.sub
local concat, insert, move = table.concat, table.insert, table.move
local getmetatable, type = getmetatable, type
local stderr = io.stderr

---The commands: the embedded modules ponder.cli.NAME, sorted.
function cli.names()
    local names = {}
    for _, file in ipairs(host.embedded_names()) do
        names[#names + 1] = file:match("^lua/ponder/cli/(%w+)%.lua$")
    end
    table.sort(names)
    return names
end

-- The most used options of a command, then the others in sections.
local function sections_of(name, command)
    local known = require("ponder.cli.shared.examples")[name] or {}
    local sections, is_first = { known.first and { title = "Most used", names = known.first } }, {}
    for _, option in ipairs(known.first or {}) do
        is_first[option] = true
    end
    for _, section in ipairs(command.sections or {}) do
        local names = {}
        for _, option in ipairs(section.names) do
            names[#names + 1] = not is_first[option] and option or nil
        end
        local title = section.title or known.first and "Others"
        sections[#sections + 1] = names[1] and { title = title, names = names }
    end
    return sections
end

--- The flag with which `cli.call` shows what a command sends and receives.
cli.VERBOSE = { "verbose", help = "show requests and replies on standard error, redacted" }

local function is_command(name)
    return name:match("^%w+$") ~= nil and host.embedded("lua/ponder/cli/" .. name .. ".lua") ~= nil
end

---Makes a command.
---@param fields table its fields but `rules` and `sections`
---@param list table[] its options, for args.collect
---@return table command
function cli.command(fields, list)
    fields.rules, fields.sections = args.collect(list)
    return fields
end

---The options of a command in the sections of its --help.
---@return {title: string?, names: string[]}[]
function cli.sections(name)
    return sections_of(name, require("ponder.cli." .. name))
end

local TITLE = "ponder %s: search policies and reasoning strategies in Lua, run against language "
    .. "models"

local REST = "ponder COMMAND --help describes a command; start with ponder help tutorial."

-- The commands in the order of `ponder --help`.
local GROUPS = {
    { "Ask a model", "chat cot tot got trm ask" },
    { "Scripts", "run repl init" },
    { "Runs", "log show view diff export resume replay fork" },
    { "Evaluate and serve", "eval optimize pool serve mcp work queue" },
    { "Set up", "doctor models prompts trust completion" },
    { "Read", "help doc man" },
}

local FILE_AND_CODE = { { "ponder FILE [ARG...]", "run a script; the same as ponder run FILE" },
    { "ponder -e CODE [ARG...]", "run code" } }

---What `ponder --help` says: its first and last paragraphs and the lists between them.
---@return string title
---@return {title: string?, rows: {[1]: string, [2]: string}[]}[] lists of what to type, and why
---@return string rest
function cli.overview()
    local lists = { { rows = FILE_AND_CODE } }
    for i, group in ipairs(GROUPS) do
        local rows = {}
        for name in gmatch(group[2], "%S+") do
            rows[#rows + 1] = { "ponder " .. name, require("ponder.cli." .. name).summary }
        end
        lists[i + 1] = { title = group[1], rows = rows }
    end
    return TITLE:format(host.version), lists, REST
end

---The text of `ponder --help`.
---@param columns? integer default 80
function cli.help(columns)
    local title, lists, rest = cli.overview()
    local parts, statuses = { args.fill(title, columns) }, {}
    for _, list in ipairs(lists) do
        parts[#parts + 1] = (list.title and list.title .. ":\n" or "")
            .. args.list(list.rows, columns)
    end
    for i, one in ipairs(require "ponder.cli.shared.statuses") do
        statuses[i] = ("%d %s"):format(one[1], one[2])
    end
    parts[#parts + 1] = args.fill(("%s Exit status: %s (ponder man)."):format(rest,
        concat(statuses, ", ")), columns)
    return concat(parts, "\n\n")
end

---The text of a command's --help, for standard output.
function cli.usage_of(name, command)
    local columns, examples = args.columns(), { "Examples:" }
    for i, line in ipairs(require("ponder.cli.shared.examples")[name] or {}) do
        examples[i + 1] = "  ponder " .. line
    end
    local synopsis, rest = match(command.about, "^(.-)\n\n(.*)$")
    return args.usage(concat({ synopsis or command.about, examples[2] and concat(examples, "\n"),
        rest and args.fill(rest, columns) }, "\n\n"), command.rules or {},
        sections_of(name, command), columns)
end

---The text of `ponder NAME --help`.
---@return string? usage nil: unknown command
function cli.usage(name)
    return is_command(name) and cli.usage_of(name, require("ponder.cli." .. name)) or nil
end

---Prints one line on standard error, safe for a terminal.
---@return integer status 2, for `return cli.usage_error(...)`
function cli.usage_error(message)
    stderr:write(quote.terminal(message), "\n")
    return 2
end

---Prints "NAME: MESSAGE" on standard error, safe for a terminal.
---@param name string of the command: "ponder show"
---@return integer status 1, for `return cli.fail(...)`
function cli.fail(name, message)
    stderr:write(name, ": ", quote.terminal(message), "\n")
    return 1
end

local End = {} -- metatable of what ends a command

---Ends the command with a message, if there is one. Call it within the `run` of a command.
---@param status? integer default 2
function cli.refuse(message, status)
    if message then
        error(setmetatable({ message = message, status = status or 2 }, End), 0)
    end
end

---Ends the command if a flag is given that does nothing in the chosen mode. A flag counts in the
---modes that its rule has as `modes`, or in all.
---@param given table its flags
---@param mode string as it is written, "--retry"; "" is the mode without such a word
function cli.check_modes(command, given, mode)
    for _, name in ipairs(options.names(command.rules)) do
        local modes = command.rules[name].modes
        if given[name] ~= nil and modes and not options.has(modes, mode) then
            cli.refuse(mode == "" and ("%s needs %s"):format(args.flag(name),
                options.alternatives(modes)) or ("%s has no effect with %s"):format(
                args.flag(name), mode))
        end
    end
end

---Like `refuse`, for what is wrong with the value of a flag.
---@param flag string "--cache": the message begins with it
function cli.refuse_flag(flag, problem)
    cli.refuse(problem and ("%s: %s"):format(flag, problem))
end

---Ends the command with status 2 and a message unless a value is true, as `assert` does: for the
---results of functions that return nil and a message.
---@param message string? what is wrong with the command line
---@return any ... its arguments
function cli.expect(value, message, ...)
    cli.refuse(not value and message)
    return value, message, ...
end

---Like `expect`, for the value of a flag.
---@param flag string "--cache": the message begins with it
---@param message string? what is wrong with it
---@return any ... its arguments but the flag
function cli.expect_flag(flag, value, message, ...)
    cli.refuse_flag(flag, not value and message)
    return value, message, ...
end

-- Codes of failures with what the command line names: it does not exist, exists already or is of
-- another kind.
local MISNAMED = { NOT_FOUND = true, UNREADABLE = true, NOT_A_LOG = true, EXISTS = true,
    BAD_URL = true }

---Like `expect`, for what is tried: status 1, but 2 if the code says that the command line is
---wrong.
---@param message string? why the command failed
---@return any ... its arguments
function cli.need(value, message, code, ...)
    cli.refuse(not value and message, MISNAMED[code] and 2 or 1)
    return value, message, code, ...
end

---Like `need`; the message begins with the name of a flag or of what it is about.
---@param flag string "--tools"
---@return any value
function cli.need_flag(flag, value, message, code)
    return (cli.need(value, not value and ("%s: %s"):format(flag, message), code))
end

---Prints a value as one line of JSON, safe for a terminal.
function cli.print_json(value)
    io.stdout:write(require("ponder.show.export.json").line(value), "\n")
    io.stdout:flush()
end

---Prints lines.
function cli.print_lines(lines)
    io.stdout:write(concat(lines, "\n"), lines[1] and "\n" or "")
end

---The directory of a script.
---@return string? directory absolute; nil: it has none (a pipe)
function cli.directory_of(path)
    local absolute = host.absolute(path)
    return absolute and (match(absolute, "^(.+)/") or "/")
end

-- Whether a line of a traceback is about ponder's own files or a C function.
local function is_own_frame(line)
    return match(line, "^%s*%[C%]") or match(line, "^%s*ponder/") or match(line, "^%s*prompts/")
        or match(line, "^%s*%(%.%.%.")
end

-- Moves the lines of one traceback to the frames of the script and ponder's own, but for those
-- below the script's outermost: they are the same in each run, and say nothing about the error.
local function sort_frames(block, frames, own)
    local last = #block
    while last > 0 and is_own_frame(block[last]) do
        last = last - 1
    end
    for i = 1, last > 0 and last or #block do
        insert(is_own_frame(block[i]) and own or frames, block[i])
    end
end

---Merges the tracebacks in a message (each protected call may add one) into one: the script's
---frames first, then those of ponder's functions that the script called.
function cli.order_traceback(message)
    local lines, frames, own, block, any = {}, {}, {}, nil, false
    for line in gmatch(message .. "\n", "(.-)\n") do
        if block and sub(line, 1, 1) == "\t" then
            insert(block, (gsub(line, "skipping 1 levels", "skipping 1 level"))) -- Lua's
        else
            sort_frames(block or {}, frames, own)
            block = line == "stack traceback:" and {} or nil
            any = any or block ~= nil
            insert(lines, not block and line or nil)
        end
    end
    sort_frames(block or {}, frames, own)
    if any then
        insert(lines, "stack traceback:")
    end
    move(frames, 1, #frames, #lines + 1, lines)
    return concat(move(own, 1, #own, #lines + 1, lines), "\n")
end

---Adds a traceback to an error message that has none, and the callback of a search that raised it;
---a message handler for xpcall.
---@return string|table err a table ends the command (cli.expect): raise it again
function cli.with_traceback(err)
    if getmetatable(err) == End then
        return err
    end
    local message = failures.describe(err)
    local search = package.loaded["ponder.search"]
    local from = search and search.raised_by(err)
    if from then
        message = from.message .. ": " .. message
    end
    if find(message, "\nstack traceback:", 1, true) then
        return message
    end
    local traceback = failures.traceback_of(err)
    return traceback and message .. "\n" .. traceback or debug_traceback(message, 2)
end

local MEBIBYTE = 1 << 20

-- Shortens messages whose traceback does not help: memory limits, unjoined tasks (already
-- reported), damaged logs, broken settings, and mistakes that a library found in what a command
-- passed on from its user.
local function clarify(message)
    local memory = match(message, "^[%w.]*:? ?not enough memory%f[\n\0]")
    if memory then
        local _, limit = host.memory()
        return ("%s: the limit is %d MiB (--max-memory-mb)"):format(memory, limit // MEBIBYTE)
    end
    local unjoined = match(message, "^task%.run: (unhandled errors? in %d+ tasks?);")
    local damaged = match(message, "^[^\n]*: damaged: [^\n]*")
    local settings = package.loaded["ponder.model.name"]
    local broken = settings and match(message, "^[^\n]*" .. settings.ADVICE)
    local mistake = match(message, "^ponder/cli/[%w/_]+%.lua:%d+: (.-)"
        .. "\nstack traceback:\n\t%[C%]: in function 'error'")
    return unjoined or damaged or mistake or broken or cli.order_traceback(message)
end

local STOPPED = { interrupt = "interrupted", terminate = "terminated", hangup = "hung up",
    timeout = "time is up", steps = "the budget of steps is spent",
    detach = "detached: the run waits for its batches" }

-- The text of an error for people, and whether the run was stopped: then its reason and how far its
-- search got.
local function explain(message)
    if core.stop_reason() then
        local where = match(message, "\n(search%.run[^\n]*)")
        return STOPPED[core.stop_reason()] .. (where and "\n" .. where or ""), true
    end
    return clarify(message), false
end

---Prints an error with its traceback; of a stopped run, the reason and how far its search got. The
---log gets the same text.
---@param run? ponder.Run default: the current one
---@return integer status 1; of a stopped run, by its reason: 130 after Ctrl-C
function cli.report_error(message, run)
    core.stop_obeyed()
    local text, is_stopped = explain(message)
    local logged = package.loaded["ponder.run.log.command"]
    if logged then
        logged.failure(text, run)
    end
    if logged and logged.is_broken(run) then
        return 1 -- logged.finish says why
    end
    stderr:write("ponder: ", quote.terminal(text), "\n")
    return is_stopped and host.stop_status() or 1
end

local function report_unjoined(message, id)
    if not core.stop_reason() then
        stderr:write(("ponder: unhandled error in task %d: %s\n"):format(
            id, quote.terminal(cli.order_traceback(message))))
    end
end

local TIMED_OUT = 124

-- Whether --help is among a command's own options.
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

---Parses the arguments of a command and runs it.
---@param list string[] its arguments
---@return integer? status of the process; default 2
---@return string? message to be printed
function cli.call(name, command, list)
    local called, expects = "ponder " .. name, command.expects
    local given, operands, first = (command.parse or args.parse)(called, list, command.rules or {})
    if not given then
        return cli.usage_error(operands)
    elseif expects and (#operands < expects[1] or #operands > expects[2]) then
        local extra = operands[expects[2] + 1]
        return nil, ("expected %s%s"):format(expects[3],
            extra and (" (got %s)"):format(extra) or "")
    end
    local _ <close> = given.verbose and require("ponder.model.verbose").start() or nil
    return command.run(given, operands, list, first)
end

---Calls f(...), which may end the command, and reports what it raises.
---@param run ponder.Run? whose log gets an error; default: the current one
---@return integer? status of the process
---@return string? message to be printed
function cli.guarded(run, f, ...)
    local ok, status, message = xpcall(f, cli.with_traceback, ...)
    if ok then
        return status, message
    elseif type(status) == "table" then
        return status.status, status.message
    end
    return cli.report_error(status, run)
end

local function run_command(name, list)
    local command = require("ponder.cli." .. name)
    if wants_help(command, list) then
        print(cli.usage(name))
        return 0
    end
    local run = runs.new()
    local status, message
    if command.outside_tasks then
        status, message = cli.guarded(run, cli.call, name, command, list)
    else
        status, message = cli.guarded(run, task.run, run.enter, run, cli.call, name, command, list)
    end
    if message then
        cli.fail("ponder " .. name, cli.order_traceback(message))
    end
    status = status or 2
    status = status == 1 and host.time_is_up() and TIMED_OUT or status
    local logged = package.loaded["ponder.run.log.command"]
    return logged and logged.finish(run, status) or status
end

---A command whose runs are logged, by its name in a log.
---@return table? command
---@return string? message
function cli.logged(name)
    local command = is_command(name) and require("ponder.cli." .. name)
    if not command or not ((command.rules or {}).no_log or command.logs_requests) then
        return nil, command and ("ponder %s is not run again from its log"):format(name)
            or "the log is damaged: there is no command " .. options.show(name)
    end
    return command
end

---Runs a command within the running one.
---@param list string[] its arguments
---@return integer? status
---@return string? message
function cli.execute(name, list)
    local command, message = cli.logged(name)
    if not command then
        return nil, message
    end
    return cli.call(name, command, list)
end

---Runs a command line.
---@param argv string[] as in C: argv[0] is the program
---@return integer status
function cli.main(argv)
    local first = argv[1]
    if first == "--confined" then
        return require("ponder.serve.untrusted.child").main()
    elseif first == nil then
        return cli.usage_error(cli.help(args.columns()))
    elseif first == "--help" or first == "-h" then
        print(cli.help(args.columns()))
        return 0
    elseif first == "--version" or first == "-v" then
        print("ponder " .. host.version)
        return 0
    end
    require("ponder.cli.shared.memory").limit()
    task.on_unjoined_error(report_unjoined)
    local name, shift = first, 1
    if not is_command(name) then
        name, shift = "run", 0
    end
    -- Indices 0 and below hold the words before, for a script's `arg`.
    return run_command(name, table.move(argv, 0, #argv, -shift, {}))
end

---The command closest to a misspelt word.
---@return string?
function cli.nearest_command(word)
    return options.nearest(word, cli.names())
end

return cli
