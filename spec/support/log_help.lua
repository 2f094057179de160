--- Helpers for specs of the run log: scripts that call a local server, run by the executable.

local assert = require "luassert"
local disk = require "failing_disk"
local merge = require("ponder.base.options").merge
local server = require "server"
local shell = require "shell"
local store = require "ponder.core.store"

local help = {}

help.KEY = "sk-0123456789abcdefghij"

--- Precedes each script: `call(text, opts)` returns the reply, `ask(text, opts)` its text;
--- `say(...)` prints.
help.PRELUDE = [[
local log, run, task = require "ponder.log", require "ponder.run", require "ponder.task"
local m = require("ponder.model").open()
io.stdout:setvbuf "line"
local function say(...) print(...) end
local function call(text, opts)
    opts = opts or {}
    opts.messages = { { role = "user", content = text } }
    return m:chat(opts)
end
local function ask(text, opts)
    local reply, message, code = call(text, opts)
    if reply then return reply.text end
    return nil, message, code
end
]]

--- The lines of a text, sorted, since replies arrive in any order.
---@param text string
---@return string[]
function help.sorted_lines(text)
    local lines = shell.lines(text)
    table.sort(lines)
    return lines
end

---@class LogWorkshop a server, and a directory for scripts and logs
local Workshop = {}
Workshop.__index = Workshop

---@param steer? string how the server answers: see server.c
function help.open(steer)
    local self = setmetatable({ server = server.start(), dir = shell.directory(),
        steer = steer or "mix=1&text=" .. server.encode "######" }, Workshop)
    self.log = self.dir.path .. "/run.db"
    self.script = self.dir.path .. "/script.lua"
    return self
end

function Workshop:close()
    self.server:stop()
    self.dir:__close()
end

---Removes the log, forgets the server's counters and writes the script.
---@param code string what follows PRELUDE
function Workshop:begin(code)
    for _, ending in ipairs { "", "-wal", "-shm" } do
        os.remove(self.log .. ending)
    end
    self.server:reset()
    self.dir:write("script.lua", help.PRELUDE .. code)
end

---An environment that makes the server the model.
---@param more? table<string, string>
---@return table<string, string>
function Workshop:environment(more)
    return merge({ OPENAI_API_KEY = help.KEY, PONDER_MODEL = "openai:m", no_proxy = "127.0.0.1",
        OPENAI_BASE_URL = ("%s/s/%s/v1"):format(self.server.url, self.steer),
        XDG_STATE_HOME = self.dir.path .. "/state" }, more)
end

---The paths of the kept runs' logs.
---@return string[]
function Workshop:kept()
    local files = {}
    for name in self:sh("ls -d state/ponder/*.db* 2>/dev/null").out:gmatch "[^\n]+" do
        files[#files + 1] = self.dir.path .. "/" .. name
    end
    return files
end

---Runs a shell script in the directory and with the environment; $PONDER is the executable.
---@param script string
---@return {status: integer, out: string, err: string}
function Workshop:sh(script)
    local parts = { "cd " .. shell.quote(self.dir.path) }
    for name, value in pairs(self:environment { PONDER = shell.executable }) do
        parts[#parts + 1] = ("export %s=%s"):format(name, shell.quote(value))
    end
    parts[#parts + 1] = "exec 2>$ERR >$OUT\n" .. script
    return shell.run(table.concat(parts, "; "))
end

---The bytes of the log and of the files beside it.
---@param path? string
---@return string
function Workshop:bytes(path)
    local all = {}
    for _, ending in ipairs { "", "-wal", "-shm", "-journal" } do
        local file = io.open((path or self.log) .. ending, "rb")
        if file then
            all[#all + 1] = ending .. ":" .. (file:read "a" or "")
            file:close()
        end
    end
    return table.concat(all)
end

---Runs `ponder ARGUMENTS...`.
---@param arguments string[]
---@param opts? table as of shell.ponder
function Workshop:ponder(arguments, opts)
    opts = opts or {}
    opts.env = self:environment(opts.env)
    opts.cwd = opts.cwd or self.dir.path
    return shell.ponder(arguments, opts)
end

---Runs the script, logged.
---@param ... string its arguments
function Workshop:run(...)
    return self:ponder { "run", "--log", self.log, self.script, ... }
end

-- Resumes the run; leaves out the notice about calls that were in flight.
function Workshop:resume()
    local result = self:ponder { "resume", self.log }
    result.err = result.err:gsub("^ponder resume: %d+ calls? had no reply [^\n]*\n", "")
    return result
end
function Workshop:replay() return self:ponder { "replay", self.log } end

---Runs `ponder ARGUMENTS...` with a disk that fails.
---@param arguments string[]
---@param failing table as of disk.ponder
function Workshop:with_failing_disk(arguments, failing)
    return disk.ponder(arguments, failing, { env = self:environment(), cwd = self.dir.path })
end

---Fails unless the logged run, replayed and resumed, ends as it did, and calls nothing.
---@param first {out: string, status: integer} what it did
function Workshop:repeats(first)
    local requests = self:requests()
    for _, again in ipairs { self:replay(), self:resume(), self:replay() } do
        assert.same({ first.out, first.status, "" }, { again.out, again.status, again.err })
    end
    assert.equal(requests, self:requests())
end

---The values of the first row that a query of the log gives.
---@param sql string
---@param path? string of the log
---@return any ...
function Workshop:row(sql, path)
    local db = assert(store.open(path or self.log, { mode = "read" }))
    local row = table.pack(db:row(sql))
    db:close()
    return table.unpack(row, 1, row.n)
end

---@return integer how many requests have come to the server
function Workshop:requests()
    return self.server:counters().requests
end

return help
