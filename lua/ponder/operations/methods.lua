--- Four ways to solve one task with a model, as graphs of operations, after Besta et al. 2023:
---
---     io     one reply
---     cot    one reply that reasons step by step before it answers
---     tot    the best of many replies, then the best of many improvements of it
---     got    divides the task into parts and solves each (the best of many replies); merges
---            neighbours the same way until one is left; improves that if it has mistakes
---
--- For tasks whose mistakes plain Lua can count, such as scripts/sorting.lua.

local operations = require "ponder.operations"

local methods = {}

---@class ponder.operations.Task
---@field name string for the run log
---@field start table the first state
---@field solve fun(state: table): string prompt
---@field think fun(state: table): string prompt that asks for reasoning first
---@field improve fun(state: table): string prompt about a state with mistakes
---@field merge fun(states: table[]): string prompt about two solved states
---@field read fun(text: string, state: table): table the update in a reply; a wrong one if the
---  reply is unreadable
---@field mistakes fun(state: table): number fewer are better; 0: correct
---@field split fun(state: table): table[] updates, one for each part
---@field join fun(states: table[]): table the merged state without its answer
---@field tries integer replies for each part; twice as many for a merge or an improvement

-- Adds operations that generate replies, score them and keep the best.
local function best_of(g, task, how)
    how.parse = how.parse or function(state, replies)
        local updates = {}
        for i, text in ipairs(replies) do
            updates[i] = task.read(text, state)
        end
        return updates
    end
    local made = g[#(how.after or {}) > 1 and "aggregate" or "generate"](g, how)
    local scored = g:score { after = { made }, score = task.mistakes }
    return g:keep_best { after = { scored }, higher = false }
end

-- Adds operations that keep the better of a solution and its improvements, which are made only if
-- it has mistakes.
local function improved(g, task, solved, responses)
    return g:keep_best { higher = false, after = function(outputs)
        if outputs[solved.id].thoughts[1].score == 0 then
            return { solved }
        end
        return { solved, best_of(g, task, { after = { solved }, prompt = task.improve,
            responses = responses }) }
    end }
end

local function merged(g, task, a, b)
    return best_of(g, task, { after = { a, b }, responses = 2 * task.tries, prompt = task.merge,
        parse = function(states, replies)
            local updates = {}
            for i, text in ipairs(replies) do
                updates[i] = task.join(states)
                for name, value in pairs(task.read(text, updates[i])) do
                    updates[i][name] = value
                end
            end
            return updates
        end })
end

local BUILD = {}

function BUILD.io(g, task)
    best_of(g, task, { prompt = task.solve })
end

function BUILD.cot(g, task)
    best_of(g, task, { prompt = task.think })
end

function BUILD.tot(g, task)
    local solved = best_of(g, task, { prompt = task.solve, responses = 4 * task.tries })
    improved(g, task, solved, 4 * task.tries)
end

function BUILD.got(g, task)
    local parts = task.split(task.start)
    local divided, solved = g:split { split = function() return parts end }, {}
    for i = 1, #parts do
        local part = g:select { after = { divided },
            choose = function(thoughts) return { thoughts[i] } end }
        solved[i] = best_of(g, task, { after = { part }, prompt = task.solve,
            responses = task.tries })
    end
    while #solved > 1 do
        local pairs_of = {}
        for i = 1, #solved, 2 do
            local a, b = solved[i], solved[i + 1]
            pairs_of[#pairs_of + 1] = b and merged(g, task, a, b) or a
        end
        solved = pairs_of
    end
    improved(g, task, solved[1], 2 * task.tries)
end

---The names of the methods, in order of cost.
methods.names = { "io", "cot", "tot", "got" }

---The graph of a method.
---@param method "io"|"cot"|"tot"|"got"
---@param task ponder.operations.Task
---@return ponder.operations.Graph
function methods.graph(method, task)
    if not BUILD[method] then
        error(('operations.methods.graph: method must be "io", "cot", "tot" or "got" (got %s)')
            :format(tostring(method)), 2)
    end
    local g = operations.new { start = task.start, name = task.name }
    BUILD[method](g, task)
    return g
end

return methods
