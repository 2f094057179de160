-- Recorded behaviour: every run of spec/fixtures/tot.jsonl is reproduced step by step.

local json = require "ponder.json"
local tot = require "ponder.tot"
local parse = require "ponder.parse"
local recorded = require "recorded"

local absent = recorded.absent

local function plain(list)
    return absent(table.move(list, 1, #list, 1, {}))
end

local function check_state(machine, state, where)
    for _, name in ipairs { "status", "root_id", "current_node_id", "current_call_id",
        "termination_reason" } do
        assert.equal(state[name], machine[name], where .. name)
    end
    for _, name in ipairs { "nodes", "pending_thoughts", "frontier", "solution_path" } do
        assert.same(state[name], plain(machine[name]), where .. name)
    end
    if state.best then
        assert.equal(state.best, machine.result.best.node_id, where .. "best")
        local ids = {}
        for i, candidate in ipairs(machine.result.candidates) do
            ids[i] = candidate.node_id
        end
        assert.same(state.candidates, ids, where .. "candidates")
    end
end

describe("recorded Tree of Thoughts runs", function()
    local runs = recorded.lines("tot.jsonl")

    it("are complete", function()
        assert.equal(34, #runs)
    end)

    for _, run in ipairs(runs) do
        for _, saved in ipairs { false, true } do
            it(("seed %d%s"):format(run.seed, saved and ", saved and loaded at each step" or ""),
                function()
                    local machine = tot.new(run.options)
                    for i, step in ipairs(run.steps) do
                        local where = ("step %d: "):format(i)
                        local directives = machine:update(step.msg)
                        for _, directive in ipairs(directives) do
                            directive.context, directive.node_id = nil, nil
                        end
                        assert.same(step.directives, directives, where .. "directives")
                        check_state(machine, absent(step.state), where)
                        if saved then
                            machine = tot.from_map(json.decode(json.encode(machine:to_map())))
                            check_state(machine, absent(step.state), where .. "loaded: ")
                        end
                    end
                end)
        end
    end
end)

describe("recorded parses", function()
    for i, vector in ipairs(recorded.lines("tot_vectors.jsonl")) do
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
