--- Runs the ponder executable as a person would, and returns its output and status.
---
---     local shell = require "shell"
---     local r = shell.ponder({ "-e", "print(1)" })        -- r.status, r.out, r.err
---     local dir <close> = shell.directory { ["a.lua"] = "return 1" }
---     shell.ponder({ "a.lua" }, { cwd = dir.path, input = "", to = "/dev/full" })
---
--- Nothing hangs: after LIMIT seconds a run is killed, and its status is 137.

local merge = require("ponder.base.options").merge

local shell = {}

local LIMIT = 60
local build = os.getenv("PONDER_BUILD") or "build"

---The output of a command, without white space at its end.
---@param command string for sh
---@return string
function shell.output(command)
    local pipe <close> = assert(io.popen(command, "r"))
    return (pipe:read("a"):gsub("%s+$", ""))
end

local here = shell.output "pwd"
local root = build:sub(1, 1) == "/" and build or here .. "/" .. build

--- The executable's absolute path.
shell.executable = root .. "/ponder"
--- The checkout's.
shell.root = here
--- The stock interpreter, for sh; an instrumented ponder.so needs the sanitizers' libraries first.
shell.LUA = 'LD_PRELOAD="$PRELOAD" lua5.4'

---@param text string
---@return string quoted for sh
function shell.quote(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

local built = {}

---Builds a file of the build directory, once, unless it is up to date. (A make above this process
---shares no job slots.)
---@param name string "server"
---@return string path absolute
function shell.build(name)
    if not built[name] then
        local command = ("env -u MAKEFLAGS -u MAKELEVEL make -s B=%s %s/%s >/dev/null"):format(
            build, build, name)
        assert(os.execute(command), command)
        built[name] = root .. "/" .. name
    end
    return built[name]
end

---@param path string
---@return string bytes of the file
function shell.read(path)
    local file <close> = assert(io.open(path, "rb"))
    return file:read("a")
end

---@param text string
---@return string[] its non-empty lines
function shell.lines(text)
    local lines = {}
    for line in text:gmatch "[^\n]+" do
        lines[#lines + 1] = line
    end
    return lines
end

local Directory = {}
Directory.__index = Directory

function Directory:__close()
    if not self.removed then
        self.removed = true
        os.execute("rm -rf " .. shell.quote(self.path))
    end
end
Directory.__gc = Directory.__close

function Directory:write(name, text)
    local parent = name:match("^(.*)/")
    if parent then
        os.execute("mkdir -p " .. shell.quote(self.path .. "/" .. parent))
    end
    local path = self.path .. "/" .. name
    local file <close> = assert(io.open(path, "wb"))
    file:write(text)
    return path
end

function Directory:read(name)
    return shell.read(self.path .. "/" .. name)
end

---Runs `ponder ARGUMENTS...` in the directory.
---@param arguments string[]
---@param opts? table of shell.ponder
function Directory:ponder(arguments, opts)
    opts = opts or {}
    opts.cwd = self.path
    return shell.ponder(arguments, opts)
end

---The same, which must succeed: see shell.printed.
function Directory:printed(arguments, opts)
    opts = opts or {}
    opts.cwd = self.path
    return shell.printed(arguments, opts)
end

---A new directory with these files, removed at the end of its `<close>` scope.
---@param files? table<string, string> text by name; names may have directories in them
function shell.directory(files)
    local dir = setmetatable({ path = shell.output "mktemp -d" }, Directory)
    for name, text in pairs(files or {}) do
        dir:write(name, text)
    end
    return dir
end

local scratch -- directory for the output of all runs of this process

local function scratch_path()
    scratch = scratch or shell.directory()
    return scratch.path
end

-- The last line of a run that called a model; costs and times differ from run to run.
local CLOSING = "ponder %l+: %d[%d.]*k? calls?, [^\n]* tokens?, [^\n]*\n"

---Runs a shell script. Separates the closing lines of runs from the rest of standard error.
---@param script string for sh; $OUT and $ERR are files for what is printed, $IN is for input
---@param input? string
---@param limit_s? integer default LIMIT
---@return {status: integer, out: string, err: string, closing: string?}
function shell.run(script, input, limit_s)
    local at = scratch_path()
    for name, text in pairs { IN = input or "", OUT = "", ERR = "" } do
        scratch:write(name, text)
    end
    local _, _, status = os.execute(
        ("IN=%s/IN OUT=%s/OUT ERR=%s/ERR timeout -s KILL %d sh -c %s"):format(
            at, at, at, limit_s or LIMIT, shell.quote(script)))
    local closing = {}
    local err = scratch:read("ERR"):gsub(CLOSING, function(line)
        closing[#closing + 1] = line
        return ""
    end)
    return { status = status, out = scratch:read("OUT"), err = err,
        closing = closing[1] and table.concat(closing) }
end

local function words(arguments)
    local quoted = { shell.quote(shell.executable) }
    for _, word in ipairs(arguments) do
        quoted[#quoted + 1] = shell.quote(word)
    end
    return table.concat(quoted, " ")
end

---The default state directory of runs: it has their logs and the key that signs them.
---@return string
function shell.state_home()
    return scratch_path() .. "/state"
end

local BARE = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", OPENAI_API_KEY = "",
    OPENAI_BASE_URL = "", ANTHROPIC_API_KEY = "", ANTHROPIC_AUTH_TOKEN = "",
    OLLAMA_HOST = "127.0.0.1:1", PONDER_MODEL = "", PONDER_PROVIDER = "", PONDER_PROMPTS = "",
    LC_ALL = "C.UTF-8", no_proxy = "*" }

---An environment independent of the machine that runs the specs.
---@param env? table<string, string> further variables
---@return table<string, string>
function shell.bare(env)
    return merge(merge({}, BARE), env)
end

-- Logs of runs go to the scratch directory, unless a spec says where.
local function environment(opts)
    local parts = {}
    if not (opts.env and opts.env.XDG_STATE_HOME) then
        parts[1] = "XDG_STATE_HOME=" .. shell.quote(shell.state_home())
    end
    for name, value in pairs(opts.env or {}) do
        parts[#parts + 1] = name .. "=" .. shell.quote(value)
    end
    return #parts > 0 and "env " .. table.concat(parts, " ") .. " " or ""
end

---Runs `ponder ARGUMENTS...`.
---@param arguments string[]
---@param opts? {input: string?, cwd: string?, to: string?, env: table<string, string>?,
---  limit_s: number?} `to` replaces standard output: "/dev/full", "&-" (closed)
function shell.ponder(arguments, opts)
    opts = opts or {}
    return shell.run(("cd %s && exec %s%s <$IN >%s 2>$ERR"):format(shell.quote(opts.cwd or here),
        environment(opts), words(arguments), opts.to or "$OUT"), opts.input, opts.limit_s)
end

---Runs `ponder ARGUMENTS...`, which must succeed, with nothing on standard error.
---@param arguments string[]
---@param opts? table of shell.ponder
---@return string out
function shell.printed(arguments, opts)
    local r = shell.ponder(arguments, opts)
    require("luassert").same({ 0, "" }, { r.status, r.err }, r.out) -- of busted
    return r.out
end

---Runs `ponder ARGUMENTS...` until it has printed `ready` and interrupts it, as Ctrl-C does. Its
---standard input never ends.
---@param arguments string[]
---@param opts? {times: integer?} how many interruptions, a tenth of a second apart; default 1
function shell.interrupt(arguments, opts)
    return shell.run(([[
        rm $IN; mkfifo $IN; exec 3<>$IN
        %s >$OUT 2>$ERR <&3 & pid=$!
        until grep -q ready $OUT; do sleep 0.01; done
        sleep 0.03
        kill -INT $pid
        for i in $(seq 2 %d); do sleep 0.1; kill -INT $pid; done
        wait $pid; status=$?
        rm $IN; exit $status]]):format(words(arguments), opts and opts.times or 1))
end

local Background = {}
Background.__index = Background

---Ends it with a signal. `rest` is then what it has printed.
---@param signal? string default "TERM"
---@return integer status
function Background:stop(signal)
    if self.pipe then
        os.execute(("kill -%s %d 2>/dev/null"):format(signal or "TERM", self.pid))
        self.rest = self.pipe:read "a"
        local _, _, status = self.pipe:close()
        self.pipe, self.status = nil, status
    end
    return self.status
end

function Background:__close()
    self:stop()
end

---Starts `ponder ARGUMENTS...`, and waits for its first line.
---@param arguments string[]
---@param env? table<string, string>
---@param cwd? string
---@return {line: string, pid: integer, pipe: file*, stop: fun(self, signal: string?): integer}
function shell.start(arguments, env, cwd)
    local pipe = assert(io.popen(("echo $$; cd %s && exec %s%s 2>&1"):format(
        shell.quote(cwd or here), environment { env = env }, words(arguments)), "r"))
    local pid = math.tointeger(tonumber(pipe:read "l"))
    return setmetatable({ pid = pid, pipe = pipe, line = pipe:read "l" }, Background)
end

---Runs `ponder ARGUMENTS...` in its own terminal.
---@param arguments string[]
---@param steps {[1]: string, [2]: string}[] what to wait for, a text that is printed once more than
---  in the steps before; and what to type then
---@param env? table<string, string>
function shell.terminal(arguments, steps, env)
    local feed, seen = {}, {}
    for i, step in ipairs(steps) do
        local text, typed = step[1], step[2]
        seen[text] = (seen[text] or 0) + 1
        -- In one line: grep takes the lines of a pattern for alternatives.
        feed[i] = ("until [ $(tr '\\n' '\\1' <$OUT | grep -aoF %s | wc -l) -ge %d ]; "
            .. "do sleep 0.02; done; printf %%s %s"):format(shell.quote((text:gsub("\n", "\1"))),
            seen[text], shell.quote(typed))
    end
    -- exec: otherwise Ctrl-C would also reach the shell, which has its own status.
    return shell.run(("{ %s; } | SHELL=/bin/sh script -qec %s /dev/null >$OUT 2>$ERR"):format(
        table.concat(feed, "; "),
        shell.quote("exec " .. environment { env = env } .. words(arguments))))
end

return shell
