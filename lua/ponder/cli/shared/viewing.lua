--- `--view`: shows the page of a running run. Another process (`ponder view`) serves it, so that
--- the run's own work never delays it; the command ends when the page is closed.

local host = require "ponder.core.host"
local log_run = require "ponder.log.run"
local quote = require "ponder.quote"

local viewing = {}

-- Starts `ponder view`: its output, its process id and the URL of the page; nil if it fails.
local function start(path)
    local program = host.absolute "/proc/self/exe" or "ponder"
    local pipe = io.popen(("echo $$; exec %s view --until-closed %s"):format(quote.shell(program),
        quote.shell(path .. "#1")), "r")
    local pid, url = pipe and pipe:read "l", pipe and pipe:read "l"
    return url and pipe, pid, url
end

-- Waits until the page is closed; ends its process at once if the run has no log.
local function wait(pipe, pid, path)
    io.stdout:flush()
    local log = io.open(path, "rb")
    if log then
        log:close()
        io.stderr:write("ponder: waiting until the page is closed; Ctrl-C ends it\n")
    else
        io.stderr:write("ponder: the run called no model, so there is no log to show\n")
        os.execute("kill " .. pid)
    end
    pipe:close()
end

---Opens the page of the current run, if --view is given.
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
        io.stderr:write("ponder: --view: cannot start ponder view\n")
        return
    end
    io.stderr:write(("ponder: the run's page is at %s\n"):format(quote.terminal(url)))
    run.after = function() wait(pipe, pid, path) end
end

return viewing
