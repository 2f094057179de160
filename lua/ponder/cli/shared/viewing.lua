--- `--view`: the page of a run while it goes on. Another process serves it (`ponder view`), so that
--- the run's own work never holds it up; the command ends when its page was closed.

local host = require "ponder.core.host"
local log_run = require "ponder.log.run"
local quote = require "ponder.quote"
local runs = require "ponder.run"

local viewing = {}

local function quoted(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- The page's process, and the URL that it says first.
local function start(path)
    local program = host.absolute "/proc/self/exe" or "ponder"
    local pipe = io.popen(("exec %s view --until-closed %s"):format(quoted(program),
        quoted(path .. "#1")), "r")
    local url = pipe and pipe:read "l"
    return url and pipe, url
end

---Opens the page of the run that has begun, if the flags say so.
---@param given {view: boolean?} the flags of ponder.log.flags
function viewing.begin(given)
    local run, owner = log_run.current(), runs.current()
    if not given.view or not run or run.kind == "replay" then
        return
    end
    local path = log_run.path(run)
    local pipe, url = start(path)
    if not pipe then
        io.stderr:write("ponder: --view: ponder view could not be started\n")
        return
    end
    io.stderr:write(("ponder: the run's page is at %s\n"):format(quote.terminal(url)))
    local finish = owner.before_exit
    owner.before_exit = function(status)
        status = finish(status)
        io.stderr:write("ponder: the page stays until it is closed; Ctrl-C ends it\n")
        pipe:close()
        return status
    end
end

return viewing
