--- `--view`: the page of a run while it goes on. Another process serves it (`ponder view`), so that
--- the run's own work never holds it up; the command ends when its page was closed.

local host = require "ponder.core.host"
local log_run = require "ponder.log.run"
local quote = require "ponder.quote"

local viewing = {}

-- The page's process: what it prints, its number, and the URL that it says first.
local function start(path)
    local program = host.absolute "/proc/self/exe" or "ponder"
    local pipe = io.popen(("echo $$; exec %s view --until-closed %s"):format(quote.shell(program),
        quote.shell(path .. "#1")), "r")
    local pid, url = pipe and pipe:read "l", pipe and pipe:read "l"
    return url and pipe, pid, url
end

-- The page outlives the run, unless it was never opened.
local function wait(pipe, pid, path)
    io.stdout:flush()
    local log = io.open(path, "rb")
    if log then
        log:close()
        io.stderr:write("ponder: the page stays until it is closed; Ctrl-C ends it\n")
    else
        io.stderr:write("ponder: no model was called, so there is no log to show\n")
        os.execute("kill " .. pid)
    end
    pipe:close()
end

---Opens the page of the run that has begun, if the flags say so.
---@param given {view: boolean?} the flags of ponder.log.flags
function viewing.begin(given)
    local run = log_run.current()
    if not given.view or not run or run.kind == "replay" then
        return
    end
    local path, message = log_run.planned_path(run)
    if not path then
        io.stderr:write("ponder: --view: ", quote.terminal(message), "\n")
        return
    end
    local pipe, pid, url = start(path)
    if not pipe then
        io.stderr:write("ponder: --view: ponder view could not be started\n")
        return
    end
    io.stderr:write(("ponder: the run's page is at %s\n"):format(quote.terminal(url)))
    run.after = function() wait(pipe, pid, path) end
end

return viewing
