--- The closing line of each run that called a model, and the line that `ponder run` shows on a
--- terminal while calls are in flight:
---
---     ponder run: 12 calls, 3.4k tokens, $0.0042, 8.1 s, log ~/.local/state/ponder/runs/17.db
---     12 calls, 3 in flight, 3.4k tokens, $0.0042, 8.1 s

local budgets = require "ponder.run.task.budget"
local logged = require "ponder.run.log.command"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local style = require "ponder.show.style"

local closing = {}

-- Modules that only runs with calls need are loaded here: most of the start-up time is loading.
local function spent_facts(self, now)
    return require("ponder.show.amount").spent(self.budget, now - self.started)
end

local stderr = io.stderr -- a script may replace it

---The log of the current run and, after an interruption, the command that continues it.
---@return string[] facts at most two
function closing.of(was_interrupted)
    local path = logged.path()
    if not path then
        return {}
    end
    local home = os.getenv "HOME" or ""
    if home ~= "" and path:sub(1, #home + 1) == home .. "/" then
        path = "~" .. path:sub(#home + 1)
    end
    return { "log " .. require("ponder.show.text").line(path),
        was_interrupted and "to continue: " .. logged.resume_command() or nil }
end

-------------------------------------------------------------------------------
-- The line while calls are in flight

local BURST, PER_SECOND = 64, 10 -- rate limit of redraws

---@class ponder.show.RunLine
---@field budget ponder.task.Budget
---@field private name string of the command
---@field private credit number of redraws left
local RunLine = {}
RunLine.__index = RunLine

-- While the line is shown, replaces print and write with functions that erase it first, so that a
-- script's output does not run into it.
local function guard(self)
    local methods, before = getmetatable(io.stdout).__index, {}
    for place, name in pairs { [_G] = "print", [io] = "write", [methods] = "write" } do
        local now = place[name]
        local function clear_first(...)
            self:clear()
            return now(...)
        end
        place[name] = clear_first
        before[#before + 1] = function()
            if place[name] == clear_first then -- unless the script has replaced it since
                place[name] = now
            end
        end
    end
    self.unguard = function()
        self.unguard = nil
        for _, restore in ipairs(before) do
            restore()
        end
    end
end

---Erases the line.
function RunLine:clear()
    if self.unguard then
        self.unguard()
        self.view:clear()
    end
end

-- Redraws the line, at a limited rate after a burst.
function RunLine:draw()
    local now = scheduler.clock()
    self.credit = math.min(self.credit + (now - self.at) * PER_SECOND, BURST)
    self.at = now
    if self.budget.in_flight == 0 then
        return self:clear()
    elseif self.credit < 1 then
        return
    end
    self.credit = self.credit - 1
    self:clear()
    self.view = self.view or require("ponder.show.terminal").new(stderr, self.style)
    local line, columns = table.concat(spent_facts(self, now), ", "), self.style:size()
    self.view:draw { require("ponder.show.text").cut(line, columns - 1, self.style:mark()) }
    guard(self)
end

---Writes the closing line of a run, once, if it has called a model.
function RunLine:write(was_interrupted)
    self:clear()
    local run = logged.current()
    local kind = run and run.kind or "run"
    if self.is_written or self.budget.calls == 0 or kind == "replay" then
        return
    end
    self.is_written = true
    kind = kind == "run" and self.name or kind
    local facts = spent_facts(self, scheduler.clock())
    table.move(closing.of(was_interrupted), 1, 2, #facts + 1, facts)
    stderr:write("ponder ", kind, ": ", table.concat(facts, ", "), "\n")
end

function RunLine:__close()
    self:write(task.interrupted())
end

---Counts what a run spends, for its closing line.
---@param name string of the command
---@param is_live boolean? shows it while calls are in flight if standard error is a terminal
---@return ponder.show.RunLine line to be closed; the run must use `line.budget`
function closing.watch(name, is_live)
    local started = scheduler.clock()
    local self = setmetatable({ name = name, budget = budgets.new {}, started = started,
        at = started, credit = BURST, style = style.of(2) }, RunLine)
    if is_live and self.style.live then
        self.budget.on_change = function()
            self:draw()
        end
    end
    return self
end

---Calls f(...), then writes the closing line, also if f raises.
---@param name string of the command
---@return any ... its results
function closing.around(name, f, ...)
    local self <close> = closing.watch(name)
    return budgets.within(self.budget, f, ...)
end

return closing
