--- `ponder run FILE|- [ARG...]` and `ponder -e CODE`: runs a script.

local args = require "ponder.args"
local budgets = require "ponder.run.task.budget"
local cli = require "ponder.cli.shared.main"
local closing = require "ponder.show.closing"
local confined = require "ponder.cli.shared.confined"
local file = require "ponder.base.file"
local files = require "ponder.run.log.files"
local logging = require "ponder.cli.shared.logging"
local host = require "ponder.core.host"
local quote = require "ponder.quote"
local limits = require "ponder.cli.shared.limits"
local logged = require "ponder.run.log.command"
local task = require "ponder.task"

local run = cli.command({ files = true, own_help = true }, {
    { title = "Script",
        { "e", value = "CODE", help = "run CODE instead of a file" },
        { "json", help = "print the table that the script returns, as JSON" },
        cli.VERBOSE,
        limits.RULES.cache,
        limits.BATCHES,
    },
    { title = "Limits of the whole run (default: none)",
        limits.RULES.max_cost,
        limits.RULES.max_calls,
        limits.RULES.max_total_tokens,
        limits.RULES.timeout,
        limits.RULES.max_steps,
        { "max_memory_mb", value = "N", type = "integer", min = 1, max = 1 << 30,
            help = "memory limit in MiB, not counting what libraries take "
            .. "(default: 3/4 of the memory available)" },
    },
    { title = "Untrusted code", confined.OPTIONS },
    { title = "Run log", logging.OPTIONS },
})

run.summary = "run a script (FILE, or - for standard input)"

run.about = [[
ponder run [OPTION...] FILE|- [ARG...]
ponder [OPTION...] FILE [ARG...]
ponder -e CODE [ARG...]

Runs a Lua 5.4 script. It can use Lua's standard library, cjson, ponder's modules (require
"ponder.search") and modules in its own directory. All words after FILE are its arguments, in `...`
and `arg`: options of ponder run come before FILE.]]

local stdout, collectgarbage = io.stdout, collectgarbage -- a script may replace them

-- Reads a script once (it may be a pipe); or nil and why it cannot be read.
local function read_script(path)
    local text, message, _, problem = files.read(path, "script")
    if problem then
        return nil, ("%s: expected a script (got: %s)"):format(path, problem)
    elseif not text then
        return nil, message
    end
    return text
end

local NAME_MODEL = "to name the model of a script without such an option: PONDER_MODEL=NAME ponder "
    .. "run FILE"

-- Says which arguments of a script are spelled like options of this command: a budget there limits
-- nothing. Scripts that use ponder.args, itself or by ponder.policy, refuse what they do not know;
-- others that read an option name it.
local function warn_of_options(text, path, arguments)
    if text:find "ponder%.args" or text:find "ponder%.policy" then
        return
    end
    for _, word in ipairs(arguments) do
        local flag = word:match "^%-%-[%l-]+"
        if word == "--" then
            return
        elseif flag and (run.rules[(flag:sub(3):gsub("-", "_"))] or flag == "--model")
            and not text:find("[\"']" .. flag:gsub("-", "%%-")) then
            io.stderr:write(("ponder run: %s is passed to the script; %s\n"):format(flag,
                flag == "--model" and NAME_MODEL or "to limit or change the run, write it before "
                .. quote.terminal(path or "CODE")))
        end
    end
end

-- The chunk of a file, of standard input or of -e; or nil, message, status.
local function load_script(opts, path, arguments)
    local text, name = opts.e, "=(command line)"
    if not text then
        local message
        text, message = read_script(path)
        if not text then
            return nil, message, 2
        end
        name = path == "-" and "=stdin" or "@" .. path
        host.set_script_directory(path ~= "-" and cli.directory_of(path) or nil)
    end
    warn_of_options(text, path, arguments)
    if opts.untrusted then
        return confined.chunk(text, name, arguments, opts)
    end
    local chunk, message = file.compile(text, name)
    if message and message:find("attempt to load a binary chunk", 1, true) then
        message = name:sub(2) .. ": binary Lua code is refused; expected source text"
    end
    return chunk, message, 1
end

-- What a file is for, if its value is of a kind that only other commands use; and the command for
-- one that does nothing by itself.
local function purpose_of(value)
    if type(value) == "function" then
        return "a function: ponder serve FILE serves a policy, --model script:FILE names a model"
    elseif type(value) == "table" and type(rawget(value, "new")) == "function"
        and type(rawget(value, "options")) == "function" then
        return "a strategy", "ask --strategy %s QUESTION"
    elseif type(value) == "table" and rawget(value, "data") ~= nil
        and type(rawget(value, "policies")) == "table" then
        return "an evaluation", "eval %s"
    end
end

-- Runs a loaded script.
local function execute(chunk, opts, operands)
    local _ <close> = limits.cache(opts.cache)
    local hints = {} -- of searches that found no terminal node
    local spent <close> = closing.watch("run", true)
    local ok, result, refusal, reached, failure = budgets.within(spent.budget, task.with_context,
        "hints", hints, limits.call, opts, cli.with_traceback, chunk, table.unpack(operands,
            opts.e and 1 or 2))
    if not ok then
        collectgarbage() -- after an out-of-memory error, finalizers may free memory
    end
    spent:write(not ok and task.interrupted())
    if hints[1] then
        io.stderr:write("ponder: search.run: ", hints[#hints], "\n")
    end
    refusal = refusal or ok and opts.refused
    if refusal then
        logged.failure(refusal)
        io.stderr:write("ponder: ", refusal, "\n")
        return 1
    elseif not ok then
        local status = cli.report_error(result)
        if reached and status == 1 then
            io.stderr:write("ponder: before that, ", reached, "\n")
        end
        return status
    end
    if failure then
        logged.failure(failure)
        return cli.fail("ponder", failure)
    end
    logged.answer(result)
    if not opts.json then
        local purpose, command = purpose_of(result)
        if command then
            return cli.usage_error(("ponder run: the script returned %s: ponder %s"):format(purpose,
                command:format(opts.e and "FILE" or operands[1])))
        elseif purpose then
            io.stderr:write("ponder run: the script returned ", purpose, "\n")
        end
        return 0
    end
    local ok_json, text = pcall(require("ponder.show.export.json").line, result)
    if not ok_json then
        return cli.fail("ponder: --json", (text:gsub("^.-json%.encode: ", "")))
    end
    stdout:write(text, "\n")
    return 0
end

---@param list string[] the words before the arguments are at 0 and below
function run.parse(name, list, rules)
    local is_implied = list[-1] == nil -- `ponder FILE`
    local opts, operands, first = args.parse(name, list, rules, { stops_at_operand = true,
        others = { "--help", is_implied and "--version" or nil } })
    if not opts and operands:find("unknown option --model", 1, true) then
        operands = ("%s: unknown option --model; %s"):format(name, NAME_MODEL)
    end
    return opts, operands, first
end

---Runs the script that the arguments name.
run.run = limits.with_models(function(opts, operands, list, first)
    cli.expect(opts.e or operands[1], "expected a script: ponder run FILE|- [ARG...]")
    confined.check(opts)
    if opts.max_memory_mb and not opts.untrusted then
        host.limit_memory(opts.max_memory_mb)
    end
    local path = operands[1]
    logging.begin(opts, { command = "run", arguments = list, script = opts.e and "-e" or path })
    local chunk, message, status = load_script(opts, path,
        table.move(operands, opts.e and 1 or 2, #operands, 1, {}))
    if chunk then
        arg = {} -- as of the lua command: the script is at 0, the words before it below
        for i = -1, #list do
            arg[i - (opts.e and (first or #list + 1) - 1 or first)] = list[i]
        end
        return execute(chunk, opts, operands)
    elseif status == 2 then
        local is_word = path:find("^[%w_-]+$")
        local near = is_word and cli.nearest_command(path)
        return cli.usage_error(("ponder: %s%s"):format(message,
            near and (" (did you mean the command %s?)"):format(near)
            or is_word and " (ponder --help lists the commands)" or ""))
    end
    cli.fail("ponder", message)
    return status
end)

return run
