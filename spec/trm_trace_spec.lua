-- Recorded behaviour: every run of spec/fixtures/trm.jsonl is reproduced step by step.

local json = require "ponder.json"
local trm = require "ponder.trm"

local function runs()
    local list = {}
    for line in io.lines "spec/fixtures/trm.jsonl" do
        list[#list + 1] = assert(json.decode(line))
    end
    return list
end

-- null in JSON is absent
local function absent(value)
    if value == json.null then
        return nil
    elseif type(value) ~= "table" then
        return value
    end
    local copy = {}
    for k, v in pairs(value) do
        copy[k] = absent(v)
    end
    return copy
end

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
    local recorded = runs()

    it("are complete", function()
        assert.equal(57, #recorded)
    end)

    for _, run in ipairs(recorded) do
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
