--- The progress of a strategy's run, from its events, for the live view and the plain lines.
---
---     local progress = require "ponder.show.progress"
---     local p = progress.new("tot", task.now)
---     s:run(question, { on_event = function(event, running) p:take(event, running) end })

local amount = require "ponder.show.amount"
local look = require "ponder.think.strategy.look"
local options = require "ponder.base.options"

local progress = {}

---@class ponder.show.Call
---@field id string
---@field role string
---@field model string
---@field since number seconds on the run's clock

---@class ponder.show.Progress
---@field name string "tot"
---@field phase string the machine's status
---@field thoughts integer? what the strategy counts: nodes besides the question, or rounds
---@field counted string[] its name, singular and plural
---@field best number? best score
---@field answer string? the best so far
---@field in_flight ponder.show.Call[] oldest first
---@field budget ponder.task.Budget? of the run, once it has begun
---@field tools integer running now
local Progress = {}
Progress.__index = Progress

---@param name string of the strategy
---@param now fun(): number seconds, monotonic
---@return ponder.show.Progress
function progress.new(name, now)
    return setmetatable({ name = name, now = now, started = now(), phase = "starting",
        in_flight = {}, tools = 0, counted = { "thought", "thoughts" } }, Progress)
end

local function end_call(self, event)
    for i, call in ipairs(self.in_flight) do
        if call.id == event.metadata.call_id then
            table.remove(self.in_flight, i)
            break
        end
    end
end

local on = { ["call.complete"] = end_call, ["call.error"] = end_call, ["call.refused"] = end_call }

on["call.start"] = function(self, event)
    table.insert(self.in_flight, { id = event.metadata.call_id, role = event.metadata.role,
        model = event.metadata.model, since = self.now() })
end
on["tool.start"] = function(self) self.tools = self.tools + 1 end
on["tool.complete"] = function(self) self.tools = self.tools - 1 end

---Takes an event of a strategy's run.
---@param event MachineEvent
---@param s ponder.strategy.Run
function Progress:take(event, s)
    local own = on[event.name]
    if own then
        own(self, event)
    else -- the machine has made a step
        local seen = s:look()
        if seen.count > 0 then
            self.thoughts, self.best = seen.count - 1, look.score(seen)
        end
        self.answer, self.counted = s:answer(), s.kind.counted or self.counted
    end
    self.budget = s.budget
    self.phase = s.phase
end

local COUNTS = { "calls", "failed", "tokens", "estimated_tokens", "cost", "estimated_cost",
    "unpriced" }
local NOTHING = { calls = 0, failed = 0, tokens = 0, cost = 0, unpriced = 0 }

---A short summary: `{"7 thoughts", "best 0.80", "12 calls", "3.4k tokens", "$0.021",
---"8.1 s"}`.
function Progress:facts()
    local facts = {}
    if self.thoughts then
        facts[1] = amount.of(self.thoughts, self.counted[1], self.counted[2])
    end
    if self.best then
        facts[#facts + 1] = ("best %.2f"):format(self.best)
    end
    local counts = options.pick(self.budget or NOTHING, COUNTS)
    counts.in_flight = 0 -- the view lists them
    local spent = amount.spent(counts, self.now() - self.started)
    return table.move(spent, 1, #spent, #facts + 1, facts)
end

return progress
