-- Recorded behaviour of the published machines: every run of spec/fixtures/tot.jsonl, got.jsonl and
-- trm.jsonl is reproduced step by step, also by machines that are saved, loaded and cloned.

local json = require "ponder.json"
local parse = require "ponder.parse"
local recorded = require "recorded"

local absent = recorded.absent

local function plain(value)
    return absent(json.decode(json.encode(value)))
end

local function fields(...)
    local names = { ... }
    return function(machine, state, where)
        for _, name in ipairs(names) do
            local value = machine[name]
            if value ~= nil then
                value = plain { value }[1]
            end
            for _, edge in ipairs(name == "edges" and value or {}) do
                edge.description = nil -- which the recording lacks
            end
            assert.same(absent(state[name]), value, where .. name)
        end
    end
end

local tot = fields("status", "root_id", "current_node_id", "current_call_id", "termination_reason",
    "nodes", "pending_thoughts", "frontier", "solution_path")
local trm = fields("status", "current_call_id", "question", "current_answer", "answer_history",
    "supervision_step", "act_triggered", "best_answer", "best_score", "termination_reason",
    "result")

-- By machine: how many runs there are, and what to compare after each step.
local CASES = {
    tot = { 34, function(machine, state, where)
        tot(machine, state, where)
        if state.best then
            assert.equal(state.best, machine.result.best.node_id, where .. "best")
            local ids = {}
            for i, candidate in ipairs(machine.result.candidates) do
                ids[i] = candidate.node_id
            end
            assert.same(state.candidates, ids, where .. "candidates")
        end
    end },
    got = { 28, fields("status", "termination_reason", "generation_count", "result", "root_id",
        "current_node_id", "current_call_id", "pending_node_ids", "nodes", "edges") },
    trm = { 57, function(machine, state, where)
        trm(machine, state, where)
        assert.same(state.act_history, plain(machine.act_state.history), where .. "history")
        assert.equal(state.trace_length, #machine.latent_state.reasoning_trace, where .. "trace")
    end },
}

local THROUGH = {
    [""] = function(machine) return machine end,
    [", saved and loaded at each step"] = function(machine, library)
        return library.from_map(json.decode(json.encode(machine:to_map())))
    end,
    [", cloned at each step"] = function(machine)
        local copy = machine:clone()
        machine:update { type = "error", reason = "not the clone's" }
        return copy
    end,
}

for name, case in pairs(CASES) do
    local library, runs = require("ponder." .. name), recorded.lines(name .. ".jsonl")

    describe("recorded runs of " .. name, function()
        it("are complete", function()
            assert.equal(case[1], #runs)
        end)

        for how, through in pairs(THROUGH) do
            it("are reproduced" .. how, function()
                for _, run in ipairs(runs) do
                    local machine = library.new(run.options)
                    for at, step in ipairs(run.steps) do
                        local where = ("seed %d, step %d: "):format(run.seed, at)
                        local directives = machine:update(step.msg, run.env)
                        for i, directive in ipairs(directives) do
                            assert.equal(directive.call_id ~= nil and directive.type
                                ~= "request_error", directive.context ~= nil, where)
                            directive.context = nil
                            if step.directives[i] and step.directives[i].node_id == nil then
                                directive.node_id = nil
                            end
                        end
                        assert.same(absent(step.directives), plain(directives), where)
                        case[2](machine, step.state, where)
                        machine = through(machine, library)
                        case[2](machine, step.state, where .. "then: ")
                    end
                end
            end)
        end
    end)
end

describe("recorded parses", function()
    for i, vector in ipairs(recorded.lines "tot_vectors.jsonl") do
        it(("%d: %s"):format(i, vector.fn), function()
            local args = vector.args
            if vector.fn == "tot.parse_thoughts" then
                local thoughts, mode = parse.thoughts(args.text)
                assert.same(vector.out, { thoughts = thoughts, mode = mode })
            else
                local scores, mode = parse.scores(args.text, args.thoughts)
                assert.same(vector.out, { scores = scores, mode = mode })
            end
        end)
    end
end)
