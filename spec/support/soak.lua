--- Runs the long tests of spec/slow/parts, which measure what only shows at size: growing memory,
--- and time that grows faster than the work.
---
---     make soak                                   # all, at full size
---     make soak SOAK=log SIZE=100000 SEED=7       # one
---
--- A file of spec/slow/parts returns a table:
---
---     return {
---         size = 1000000,             -- make soak; make test takes a 100th
---         (spec/slow/soak_spec.lua) in_test = true,             -- false: too long even then
---         steps = {
---             { "write", function(s)
---                 local run = s:run { "run", "--log", "run.db", "script.lua", s.size }
---                 s:report("memory", run.peak_kib, "<=", 40 << 10, "KiB")
---                 s.keep.peak_kib = run.peak_kib     -- a number for later steps
---             end },
---         },
---     }
---
--- Steps work in `s.path`, which stays until all have succeeded: after an interruption or a missed
--- target, a test resumes with the step that did not succeed. `s.seed` seeds their random numbers.

local shell = require "shell"

local soak = {}

local SHARE_OF_TEST = 100
local LIMIT_S = 24 * 60 * 60 -- of a command

---@class ponder.Soak
---@field size integer
---@field seed integer
---@field full boolean at the size of `make soak`: times matter
---@field path string
---@field keep table<string, number>
---@field missed string[] figures that missed their target
---@field print fun(line: string)
local Soak = {}
Soak.__index = Soak

---@class ponder.SoakRun
---@field out string
---@field err string without the figures
---@field status integer
---@field wall_s number
---@field cpu_s number of user and system
---@field peak_kib integer memory

local FIGURES = "soak %e %U %S %M"

---Runs the executable in `s.path`, without a time limit; its keys and logs are there, too.
---@param words any[]
---@return ponder.SoakRun
function Soak:ponder(words)
    local quoted = {}
    for i, word in ipairs(words) do
        quoted[i] = shell.quote(tostring(word))
    end
    local r = shell.run(("cd %s && XDG_STATE_HOME=$PWD/state exec time -q -f %s %s %s >$OUT 2>$ERR")
        :format(shell.quote(self.path), shell.quote(FIGURES), shell.quote(shell.executable),
            table.concat(quoted, " ")), nil, LIMIT_S)
    local err, wall, user, system, peak = r.err:match(
        "^(.*)soak ([%d.]+) ([%d.]+) ([%d.]+) (%d+)\n$")
    assert(wall, r.err)
    return { out = r.out, err = err, status = r.status, wall_s = tonumber(wall),
        cpu_s = tonumber(user) + tonumber(system), peak_kib = math.tointeger(peak) }
end

---The same; raises an error unless it succeeds.
---@param words any[]
---@return ponder.SoakRun
function Soak:run(words)
    local r = self:ponder(words)
    if r.status ~= 0 then
        error(("ponder %s: status %d: %s"):format(words[1], r.status, r.err:sub(-500)), 2)
    end
    return r
end

---@param name string
---@param text string
function Soak:write(name, text)
    local file <close> = assert(io.open(self.path .. "/" .. name, "wb"))
    file:write(text)
end

---Compares a figure with a target.
---@param what string
---@param figure number
---@param relation "<="|">="
---@param target number
---@param unit? string
function Soak:report(what, figure, relation, target, unit)
    local reached = relation == "<=" and figure <= target or relation == ">=" and figure >= target
    self.print(("  %-52s %10.4g %-8s %s %-8.4g %s"):format(what, figure, unit or "", relation,
        target, reached and "ok" or "MISSED"))
    if not reached then
        self.missed[#self.missed + 1] = what
    end
end

---The same for a time, or a ratio of times, which only matters at full size: other load on the
---machine matters less then.
function Soak:report_time(what, figure, relation, target, unit)
    if self.full then
        return self:report(what, figure, relation, target, unit)
    end
    self.print(("  %-52s %10.4g %s"):format(what, figure, unit or ""))
end

---------------------------------------------------------------------------------------------------

-- Reads the steps that succeeded in an earlier process, and the numbers that they kept.
local function load_done(self)
    local done = {}
    local file <close> = io.open(self.path .. "/done", "rb")
    for kind, name, value in (file and file:read "a" or ""):gmatch "(%a+) ([^\t\n]+)\t([^\n]*)\n" do
        if kind == "step" then
            done[name] = true
        else
            self.keep[name] = tonumber(value)
        end
    end
    return done
end

local function record_done(self, name)
    local file <close> = assert(io.open(self.path .. "/done", "ab"))
    for key, value in pairs(self.keep) do
        file:write(("keep %s\t%.17g\n"):format(key, value))
    end
    file:write(("step %s\t\n"):format(name))
end

---Runs one test.
---@param name string
---@param test table as above
---@param opts {size: integer?, seed: integer?, print: fun(line: string)?}
---@return string[] missed figures that missed their targets
function soak.play(name, test, opts)
    local build = shell.executable:match "^(.*)/"
    local size, seed = opts.size or test.size, opts.seed or 1
    local self = setmetatable({ size = size, seed = seed, full = size >= test.size, keep = {},
        path = ("%s/soak/%s-%d-%d"):format(build, name, size, seed), missed = {},
        print = opts.print or print }, Soak)
    shell.run("mkdir -p " .. shell.quote(self.path))
    local done = load_done(self)
    for _, step in ipairs(test.steps) do
        self.print(("%s %d: %s%s"):format(name, size, step[1], done[step[1]] and ": done" or ""))
        if not done[step[1]] then
            step[2](self)
            if self.missed[1] then
                return self.missed
            end
            record_done(self, step[1])
        end
    end
    shell.run("rm -rf " .. shell.quote(self.path))
    return self.missed
end

---Runs the test of a file of spec/slow/parts.
---@param name string
---@param opts {size: integer?, seed: integer?, print: fun(line: string)?}
---@return string[] missed figures that missed their targets
function soak.run(name, opts)
    return soak.play(name, dofile(("spec/slow/parts/%s.lua"):format(name)), opts)
end

---The size of a test in `make test`; nil: not run there.
---@param name string
---@return integer?
function soak.size_in_test(name)
    local test = dofile(("spec/slow/parts/%s.lua"):format(name))
    return test.in_test and test.size // SHARE_OF_TEST or nil
end

---@return string[] names in order
function soak.names()
    local names = {}
    for name in shell.run("ls spec/slow/parts >$OUT").out:gmatch "([%w_]+)%.lua\n" do
        names[#names + 1] = name
    end
    return names
end

-- make soak: lua5.4 spec/support/soak.lua [NAME...]
if arg and arg[0] and arg[0]:find "support/soak%.lua$" then
    local failed = false
    for _, name in ipairs(arg[1] and arg or soak.names()) do
        local missed = soak.run(name, { size = math.tointeger(tonumber(os.getenv "SIZE" or "")),
            seed = math.tointeger(tonumber(os.getenv "SEED" or "")) })
        failed = failed or missed[1] ~= nil
    end
    os.exit(not failed)
end

return soak
