--- Queues for specs: a redis-server, workers as processes of their own, coordinators.
---
---     local lab <close> = workers.lab({ ["job.lua"] = "return { f = function(x) ... end }" })
---     local w = lab:worker { "--lease", "1s" }
---     local run = lab:coordinate [[ local r = q:map({ 1, 2 }, "f") print(r[1], r[2]) ]]
---     w:kill()

local assert = require "luassert"
local redis_server = require "redis_server"
local shell = require "shell"

local workers = {}

---@class spec.Lab
---@field server spec.RedisServer
---@field directory table
local Lab = {}
Lab.__index = Lab

---@class spec.Worker a process
---@field pid string
---@field err string path of what it says
local Process = {}
Process.__index = Process

---Whether it runs: not a zombie.
---@return boolean
function Process:runs()
    return shell.output(("grep -s '^State:.[^Z]' /proc/%s/status"):format(self.pid)) ~= ""
end

---@param signal? string default KILL
function Process:kill(signal)
    shell.output(("kill -%s %s 2>/dev/null"):format(signal or "KILL", self.pid))
end

---Waits until it has ended.
---@param limit_s? integer default 60
---@return string status as sh has it
function Process:wait(limit_s)
    for _ = 1, (limit_s or 60) * 50 do
        local status = shell.output(("cat %s.status 2>/dev/null"):format(self.err))
        if status ~= "" then
            return status
        end
        os.execute "sleep 0.02"
    end
    error "the process did not end"
end

---@return string what it says
function Process:output()
    return shell.output("cat " .. self.err)
end

---@return string[] the lines that it prints
function Process:lines()
    return shell.lines(shell.read(self.err .. ".out"))
end

-- Starts ponder; `pid` is its own, not that of a shell.
local function start(self, arguments)
    self.count = self.count + 1
    local words = {}
    for i, word in ipairs(arguments) do
        words[i] = shell.quote(word)
    end
    local err = ("%s/%d.err"):format(self.dir.path, self.count)
    local pid = shell.output(([[cd %s; export XDG_STATE_HOME=%s/state
        { %s %s >%s.out 2>%s 3>&- & echo $! >&3; exec 3>&-; wait $!; echo $? >%s.status; } \
            3>&1 >/dev/null 2>&1 &]]):format(self.dir.path, self.dir.path, shell.executable,
        table.concat(words, " "), err, err, err))
    return setmetatable({ pid = pid, err = err }, Process)
end

---Starts ponder in the lab.
---@param arguments string[]
---@return spec.Worker
function Lab:run(arguments)
    local one = start(self, arguments)
    self.processes[#self.processes + 1] = one
    return one
end

---Starts a worker of the queue "t" with job.lua.
---@param arguments? string[]
---@return spec.Worker
function Lab:worker(arguments)
    local words = { "work", self.server.url, "--script", "job.lua", "--queue", "t" }
    return self:run(table.move(arguments or {}, 1, #(arguments or {}), #words + 1, words))
end

local MAIN = [[
local queue = require "ponder.queue"
local json = require "ponder.json"
local q <close> = assert(queue.open(%q, { name = "t", script = "job.lua" }))
%s]]

---Starts a coordinator: a script that has `q`, and is logged in main.db.
---@param code string
---@return spec.Worker
function Lab:begin(code)
    os.execute(("rm -f %s/main.db*"):format(self.dir.path))
    self.dir:write("main.lua", MAIN:format(self.server.url, code))
    return self:run { "run", "--log", "main.db", "main.lua" }
end

---Resumes the run in main.db.
---@return spec.Worker
function Lab:resume()
    return self:run { "resume", "main.db" }
end

---Runs ponder in the lab.
---@param arguments string[]
---@param limit_s? number
---@return {status: integer, out: string, err: string}
function Lab:ponder(arguments, limit_s)
    return shell.ponder(arguments, { cwd = self.dir.path, limit_s = limit_s,
        env = { XDG_STATE_HOME = self.dir.path .. "/state" } })
end

---Runs a coordinator to its end; its log is a new main.db.
---@param code string
---@param limit_s? number
---@return {status: integer, out: string, err: string}
function Lab:coordinate(code, limit_s)
    self.dir:write("main.lua", MAIN:format(self.server.url, code))
    os.execute(("rm -f %s/main.db*"):format(self.dir.path))
    return self:ponder({ "run", "--log", "main.db", "main.lua" }, limit_s)
end

---Fails unless a replay of main.db prints this, and nothing else.
---@param out string
function Lab:replays(out)
    local replay = self:ponder { "replay", "main.db" }
    assert.same({ 0, out, "" }, { replay.status, replay.out, replay.err })
end

---@param sql string
---@return string printed by sqlite's own shell, or by ponder's store: values of a row with "|"
function Lab:sql(sql)
    local store = require "ponder.core.store"
    local db <close> = assert(store.open(self.dir.path .. "/main.db", { lock = false }))
    local rows = {}
    for value in db:rows(sql) do
        rows[#rows + 1] = tostring(value)
    end
    return table.concat(rows, " ")
end

---The lines of a file that jobs append to.
---@param name string
---@return string[]
function Lab:lines(name)
    local list = {}
    local file <close> = io.open(self.dir.path .. "/" .. name)
    for line in file and file:lines() or function() end do
        list[#list + 1] = line
    end
    return list
end

---Waits until a condition holds.
---@param what string
---@param holds fun(): any
function workers.eventually(what, holds)
    local limit = os.time() + 60
    while not holds() do
        if os.time() > limit then
            error("without success: " .. what)
        end
        os.execute "sleep 0.02"
    end
end

function Lab:__close()
    for _, process in ipairs(self.processes) do
        process:kill()
    end
    self.server:__close()
    self.dir:__close()
end

---@param files table<string, string>
---@param arguments? string[] of redis-server
---@param timeout? string for each reply of Redis; half of it is what all wait before they complain
---@return spec.Lab
function workers.lab(files, arguments, timeout)
    local self = setmetatable({ dir = shell.directory(files), processes = {}, count = 0,
        server = redis_server.start(arguments) }, Lab)
    self.server.url = self.server.url .. (timeout and "?timeout=" .. timeout or "")
    return self
end

return workers
