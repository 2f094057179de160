--- A terminal of its own to run ponder in, and what its screen shows: a detached tmux.
---
---     local screen = require "screen"
---     local s <close> = screen.open({ "tot", "--model", m, "Why?" }, { columns = 40, rows = 12 })
---     s:wait("2 in flight")          -- until the screen shows that (a Lua pattern)
---     s:press("C-c"); s:resize(60, 12)
---     s:finish()                     -- -> exit status, the screen's lines

local shell = require "shell"

local screen = {}

local SECONDS = 20 -- without the expected screen: an error

local Screen = {}
Screen.__index = Screen

local count = 0

local function tmux(self, command)
    local pipe <close> = assert(io.popen(
        ("unset TMUX; TMUX_TMPDIR=%s tmux -u -f /dev/null -L %s %s 2>&1"):format(
            shell.quote(self.dir.path), self.name, command)))
    return (pipe:read("a"))
end

--- Starts `ponder ARGUMENTS...` in a terminal.
---@param arguments string[]
---@param opts? {columns: integer?, rows: integer?, env: table<string, string>?, err: string?,
---out: string?} err, out: files in place of the terminal
function screen.open(arguments, opts)
    opts = opts or {}
    count = count + 1
    local self = setmetatable({ dir = shell.directory(), name = "ponder" .. count }, Screen)
    local words = { "env LC_ALL=C.UTF-8" }
    for name, value in pairs(opts.env or {}) do
        words[#words + 1] = name .. "=" .. shell.quote(value)
    end
    words[#words + 1] = shell.quote(shell.executable)
    for _, word in ipairs(arguments) do
        words[#words + 1] = shell.quote(word)
    end
    words[#words + 1] = opts.out and ">" .. shell.quote(opts.out) or ""
    words[#words + 1] = opts.err and "2>" .. shell.quote(opts.err) or ""
    -- The status goes through a file: tmux does not always notice that a command has ended. The
    -- shell itself takes no notice of Ctrl-C, and the screen stays until it is closed.
    self.dir:write("run",
        ("trap : INT\n%s\necho $? >%s/new\nmv %s/new %s/status\nexec sleep 99\n")
        :format(table.concat(words, " "), self.dir.path, self.dir.path, self.dir.path))
    local said = tmux(self, ("new-session -d -x %d -y %d sh %s/run ';' set-option -g status off")
        :format(opts.columns or 80, opts.rows or 24, shell.quote(self.dir.path)))
    assert(said == "", said)
    return self
end

--- The lines that the screen shows, without the empty ones at the end.
---@return string[]
function Screen:lines()
    local lines = {}
    for line in tmux(self, "capture-pane -p"):gsub("%s+$", ""):gmatch("([^\n]*)\n?") do
        lines[#lines + 1] = (line:gsub(" +$", ""))
    end
    if lines[#lines] == "" then
        lines[#lines] = nil
    end
    return lines
end

--- The same with the sequences for colours.
---@return string
function Screen:colored()
    return tmux(self, "capture-pane -e -p")
end

local function wait_for(self, what, condition)
    local deadline = os.time() + SECONDS
    repeat
        local result = condition()
        if result then
            return result
        end
        os.execute("sleep 0.02")
    until os.time() > deadline
    error(("no %s; the screen is:\n%s"):format(what, table.concat(self:lines(), "\n")), 3)
end

--- Waits until the screen shows a pattern.
---@param pattern string
---@return string[] lines
function Screen:wait(pattern)
    return wait_for(self, pattern, function()
        local lines = self:lines()
        return table.concat(lines, "\n"):find(pattern) and lines
    end)
end

--- Presses a key, named as tmux does ("C-c").
---@param key string
function Screen:press(key)
    tmux(self, "send-keys " .. shell.quote(key))
end

---@param columns integer
---@param rows integer
function Screen:resize(columns, rows)
    tmux(self, ("resize-window -x %d -y %d"):format(columns, rows))
end

--- Stops the program, as Ctrl-Z does under a shell, writes lines as the shell would, and resumes
--- the program.
---@param lines string with \\r\\n
function Screen:suspend(lines)
    local pid, terminal = tmux(self, "list-panes -F '#{pane_pid} #{pane_tty}'"):match "(%d+) (%S+)"
    shell.run(("P=$(cat /proc/%s/task/%s/children); kill -STOP $P; sleep 0.1; printf %s >%s; "
        .. "kill -CONT $P"):format(pid, pid, shell.quote(lines), terminal))
end

--- Waits until the command has ended.
---@return integer status
---@return string[] lines
function Screen:finish()
    local status = wait_for(self, "end", function()
        local file <close> = io.open(self.dir.path .. "/status")
        return file and file:read("n")
    end)
    return status, self:lines()
end

function Screen:__close()
    tmux(self, "kill-server")
    self.dir:__close()
end

return screen
