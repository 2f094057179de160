--- `ponder view`: shows logged runs in a browser, live.

local cli = require "ponder.cli.shared.main"
local guard = require "ponder.serve.http.guard"
local host = require "ponder.core.host"
local logs = require "ponder.show.server.logs"
local options = require "ponder.base.options"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local server = require "ponder.serve"
local task = require "ponder.task"
local page = require "ponder.show.server"

local view = cli.command({ files = true }, {
    { "listen", value = "ADDRESS", default = "127.0.0.1:0",
        help = "HOST:PORT on this machine (default: 127.0.0.1:0, any free port)" },
    { "no_open", help = "print the page's URL and open no browser" },
    { "until_closed", help = "exit when the last page is closed" },
})

view.summary = "look at runs in a browser, live"

view.about = [[
ponder view [OPTION...] [LOG...]

Serves a page of the runs in the logs, each a path, or a name or number in ponder log; without LOG,
of all runs in ponder log. It lists them and shows the tree, calls and timeline of each as they
grow. FILE#3 opens the page of that run; so does the log of a single run.

Only this machine can reach the page, and only with the token in its URL, which is new each time.
Ctrl-C ends it.]]

local IDLE_S = 3 -- after this long without a page, the last one was closed, not reloaded
local FIRST_S = 120 -- how long the first page may take to open

-- Drains the server once the last page is closed.
local function end_when_closed(shown, serving)
    local idle_since, limit = task.now(), FIRST_S
    while true do
        task.sleep(1)
        if shown.streams > 0 then
            idle_since, limit = task.now(), IDLE_S
        elseif task.now() - idle_since > limit then
            return serving:drain()
        end
    end
end

-- The run whose page to open: the one named, the only one, or one that has not begun.
local function first_run(shown, named)
    local logs_named = shown.logs.named
    if named or not logs_named or logs_named[2] then
        return named
    end
    local first = logs_named[1].name .. "#1"
    return shown.runs:only() or not shown.logs:find(first).stamp and first or nil
end

-- Other users can read a process's arguments, so the browser gets not the URL, which holds a token,
-- but a file that redirects to it and that only its owner can read.
local PAGE = [[<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s"><title>ponder</title>
]]

-- Opens a browser with $BROWSER or xdg-open, without waiting for it. Returns what is to be closed
-- when the page has ended; nil: there is no display.
local function open_browser(url)
    local command = (os.getenv "BROWSER" or ""):match "^[^:]+"
        or (os.getenv "DISPLAY" or os.getenv "WAYLAND_DISPLAY") and "xdg-open"
    if not command then
        return nil
    end
    local path = os.tmpname()
    os.remove(path)
    path = path .. ".html"
    if not private.write(path, PAGE:format(url), true) then
        return nil
    end
    os.execute(("%s %s >/dev/null 2>&1 </dev/null &"):format(quote.shell(command),
        quote.shell(path)))
    return setmetatable({}, { __close = function() os.remove(path) end })
end

function view.run(opts, operands)
    local address, is_local = opts.listen, guard.is_local(opts.listen)
    cli.expect_flag("--listen", is_local ~= nil and not address:find "^unix:",
        ("expected HOST:PORT of this machine, such as 127.0.0.1:8080 (got %s)"):format(
        options.show(address)))
    cli.expect_flag("--listen", is_local, ("other machines could reach %s, and only this one may: "
        .. "127.0.0.1:PORT; ponder serve --log FILE --key-file FILE shows runs to others"):format(
        address))
    local shown_logs, _, named = cli.expect(logs.new(operands[1] and operands or nil,
        host.absolute))
    for i, log in ipairs(shown_logs.named or {}) do -- a file that does not exist may still begin
        local opened <close>, message, code = reader.open(log.path)
        cli.need(opened or code == "NOT_FOUND", message, code)
        local number = opened and math.tointeger(tonumber(operands[i]:match "#(%d+)$"))
        cli.expect(not number or options.has(opened:numbers(), number),
            ("%s: holds no run %d"):format(log.path, number or 0))
    end
    local shown <close> = page.new { logs = shown_logs, alone = true }
    local serving = server.new { policies = {}, page = shown, listen = opts.listen, drain_ms = 0,
        log = function(text)
            io.stderr:write("ponder view: ", quote.terminal(text), "\n")
        end }
    local problem
    address, problem = serving:start()
    cli.need(address, problem and problem:gsub("opts%.", "--"))
    local stop = serving:follow_signals()
    local url = shown:url(address, first_run(shown, named))
    io.stdout:write(url, "\n")
    io.stdout:flush()
    local _ <close> = not opts.no_open and open_browser(url) or nil
    local watcher = opts.until_closed and task.spawn(end_when_closed, shown, serving)
    serving:wait()
    if watcher then
        watcher:cancel()
    end
    stop()
    return 0
end

return view
