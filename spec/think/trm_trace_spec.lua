-- Recorded behaviour: every run of spec/fixtures/trm.jsonl is reproduced step by step.

local json = require "ponder.json"
local recorded = require "recorded"
local trm = require "ponder.trm"

local absent = recorded.absent

local FIELDS = {
    "status", "current_call_id", "question", "current_answer", "answer_history",
    "supervision_step", "act_triggered", "best_answer", "best_score", "termination_reason",
}

local function check_state(machine, state, where)
    for _, name in ipairs(FIELDS) do
        assert.same(absent(state[name]), absent(machine[name]), where .. name)
    end
    assert.same(state.act_history, absent(machine.act_state.history), where .. "history")
    assert.equal(state.trace_length, #machine.latent_state.reasoning_trace, where .. "trace")
    assert.equal(absent(state.result), machine.result, where .. "result")
end

describe("recorded TRM runs", function()
    local runs = recorded.lines "trm.jsonl"

    it("are complete", function()
        assert.equal(57, #runs)
    end)

    for _, run in ipairs(runs) do
        for _, saved in ipairs { false, true } do
            it(("seed %d%s"):format(run.seed, saved and ", saved and loaded at each step" or ""),
                function()
                    local machine = trm.new(run.options)
                    for i, step in ipairs(run.steps) do
                        local where = ("step %d: "):format(i)
                        local directives = machine:update(step.msg)
                        for _, directive in ipairs(directives) do
                            assert.equal(directive.type ~= "request_error",
                                directive.context ~= nil, where .. "context")
                            directive.context = nil
                        end
                        assert.same(absent(step.directives), directives, where .. "directives")
                        check_state(machine, step.state, where)
                        if saved then
                            machine = trm.from_map(json.decode(json.encode(machine:to_map())))
                            check_state(machine, step.state, where .. "loaded: ")
                        end
                    end
                end)
        end
    end
end)
