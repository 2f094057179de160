--- The options of commands whose runs are logged.

local options = require "ponder.options"
local run = require "ponder.log.run"

local flags = {}

--- Rules for ponder.args.
---@type table<string, ArgumentRule>
flags.RULES = {
    log = { value = "FILE", files = true, help = "log the run in FILE, a new one (default: in "
        .. "$XDG_STATE_HOME/ponder/, once it calls a model)" },
    no_log = { help = "log nothing" },
    keep = { value = "N", type = "integer", min = 1, max = 1000000,
        help = "keep the newest N logs made without --log (default: 100)" },
    sync = { value = "HOW", enum = { "normal", "full" },
        help = "normal: survives a crash (default); full: also a loss of power" },
    view = { help = "show the run in a browser as it proceeds (ponder view)" },
}

--- In the order of --help.
flags.ORDER = { "log", "no_log", "keep", "sync", "view" }

---Adds these options to those of a command.
---@param rules table<string, ArgumentRule>
function flags.add(rules)
    options.merge(rules, flags.RULES)
end

---Begins the run log of a command, unless --no-log is given.
---@param given table<string, any> the parsed options
---@param about ponder.log.About
---@return boolean ok
---@return string? message what is wrong with the options, or why the log cannot be written
function flags.begin(given, about)
    if given.no_log then
        return not given.log and not given.view, given.log and "--log or --no-log, not both"
            or "--view needs the run's log, which --no-log turns off"
    elseif given.log == "" then
        return false, "--log: expected a file (got an empty name)"
    end
    local begun, message = run.begin(about, { path = given.log, sync = given.sync,
        keep = given.keep, max_runs = given.log_max_runs })
    return begun ~= nil, message
end

return flags
