--- The options of commands whose runs are logged. With `--view`, another process (`ponder view`)
--- serves the page of the running run, so that the run's own work never delays it; the command ends
--- when the page is closed.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local exists = require("ponder.base.file").exists
local host = require "ponder.core.host"
local logged = require "ponder.run.log.command"
local options = require "ponder.base.options"
local process = require "ponder.core.process"
local quote = require "ponder.quote"

local logging = {}

logging.OPTIONS = {
    { "log", value = "FILE", files = true, help = "log the run in FILE, a new one (default: in "
        .. "$XDG_STATE_HOME/ponder/, once it calls a model)" },
    { "no_log", help = "log nothing" },
    { "keep", value = "N", type = "integer", min = 1, max = 1000000,
        help = "keep the newest N logs made without --log (default: 100)" },
    { "sync", value = "HOW", enum = { "normal", "full" },
        help = "normal: survives a crash (default); full: also a power failure" },
    { "view", help = "show the run in a browser as it proceeds (ponder view)" },
}
logging.RULES = args.collect(logging.OPTIONS)

-- Opens the page of the run with `ponder view`, for whose end the command then waits.
local function show(run)
    local path, message = logged.planned_path(run)
    local pipe, pid, url
    if path then
        local program = host.absolute(process.program()) or "ponder"
        pipe = io.popen(("echo $$; exec %s view --until-closed %s"):format(quote.shell(program),
            quote.shell(path .. "#1")), "r")
        pid, url = pipe and pipe:read "l", pipe and pipe:read "l"
    end
    if not url then
        io.stderr:write("ponder: --view: ", quote.terminal(message or "cannot start ponder view"),
            "\n")
        return
    end
    io.stderr:write(("ponder: the run's page is at %s\n"):format(quote.terminal(url)))
    run.after = function()
        io.stdout:flush()
        if exists(path) then
            io.stderr:write("ponder: waiting until the page is closed; Ctrl-C ends it\n")
        else
            io.stderr:write("ponder: the run called no model, so there is no log to show\n")
            os.execute("kill " .. pid)
        end
        pipe:close()
    end
end

---The prompt of a command: standard input if it is not a terminal, then the operands. `-` alone
---reads standard input even from a terminal. Ends the command if it cannot be read or is not UTF-8.
---@return string prompt "" if there is none
---@return string? input what was read, for the log
function logging.prompt(operands)
    local words = table.concat(operands, " ")
    local input = ""
    if words == "-" or logged.has_input() then
        input = cli.expect(logged.read_input())
        words = words ~= "-" and words or ""
    end
    local piped = input:match "^.*%S" or ""
    local prompt = piped .. (piped ~= "" and words ~= "" and "\n\n" or "") .. words
    cli.expect(utf8.len(prompt), "the prompt is not UTF-8 text (ponder chat --attach sends images)")
    return prompt, input ~= "" and input or nil
end

---Begins the run log of a command, unless --no-log is given. Ends the command if the options are
---wrong or the log cannot be written.
---@param given table<string, any> the parsed options
---@param how? {adds: boolean?, at_once: boolean?} see ponder.log.Options
function logging.begin(given, about, how)
    local is_played = logged.is_played()
    if given.no_log then
        cli.expect(not given.log, "--log or --no-log, not both")
        for _, name in ipairs { "view", "keep", "sync" } do
            cli.refuse(not is_played and given[name]
                and ("--%s needs the run's log, which --no-log turns off"):format(name))
        end
        return
    end
    cli.refuse(not is_played and given.log and given.keep
        and "--keep is about logs made without --log")
    local opts = options.merge({ path = given.log, sync = given.sync, keep = given.keep,
        max_runs = given.log_max_runs }, how)
    local run, message, code = logged.begin(about, opts)
    if code == "EXISTS" then
        local past <close> = require("ponder.run.log.reader").open(opts.path)
        message = ("%s; %s"):format(message, past and "to continue it: ponder resume "
            .. quote.shell(opts.path) or "--log takes a new file")
    end
    cli.need(run, message, code)
    if given.view and run.kind ~= "replay" then
        show(run)
    end
end

return logging
