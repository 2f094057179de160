-- ponder.operations: the recorded graphs of the published program, and our additions.

local json = require "ponder.json"
local operations = require "ponder.operations"
local raises = require "raises"
local recorded = require "operations_model"
local task = require "ponder.task"

local function lines(path)
    local list = {}
    for line in io.lines(path) do
        list[#list + 1] = json.decode(line)
    end
    return list
end

local function plain(thoughts)
    local list = {}
    for i, t in ipairs(thoughts) do
        list[i] = { t.state, t.score, t.valid, t.solved, t.scored, t.validated, t.compared }
    end
    return list
end

local function run_case(case, concurrency)
    local g = operations.new { start = case.start }
    recorded.build(g, case)
    local asked = 0
    return g, task.run(function()
        return table.pack(pcall(g.run, g, { concurrency = concurrency, ask = function(prompt, n)
            asked = asked + 1
            task.sleep(asked % 3 / 1e5) -- replies come in another order than they were asked for
            return recorded.ask(case.seed, prompt, n)
        end }))
    end)
end

local function compare(case, result)
    for i, expected in ipairs(case.results) do
        local op = result.operations[i]
        assert.same(expected.thoughts, plain(op.thoughts))
        assert.equal(expected.queries, op.queries)
        assert.equal(expected.responses, op.responses)
        for k, attempts in ipairs(expected.tries or {}) do
            assert.same(attempts, plain(op.attempts[k]))
        end
    end
    local final = {}
    for i, thoughts in ipairs(result.final) do
        final[i] = plain(thoughts)
    end
    assert.same(case.final, final)
end

local function id(state) return state end

local function parse_none() return {} end

describe("recorded graphs", function()
    for _, case in ipairs(lines "spec/fixtures/operations.jsonl") do
        it("give the same thoughts: " .. case.id, function()
            for _, concurrency in ipairs { 1, 7 } do
                local _, got = run_case(case, concurrency)
                assert.is_true(got[1], got[2])
                compare(case, got[2])
                assert.equal(case.queries, got[2].queries)
            end
        end)
    end
end)

describe("recorded graphs at the edges of the rules", function()
    local expected = {
        AssertionError = function(_, got)
            return got[2] == nil and (got[4] == "NOT_SCORED" or got[4] == "BAD_GRAPH")
        end,
        TypeError = function(_, got) return not got[1] or got[2] == nil end,
        KeyError = function(_, got) return not got[1] end,
        IndexError = function(_, got) return not got[1] or got[2] == nil end,
    }
    for _, case in ipairs(lines "spec/fixtures/operations_edge.jsonl") do
        it(case.name, function()
            local g, got = run_case(case, 4)
            local what = case.error and case.error ~= json.null and case.error.exception
            if what then
                assert.is_function(expected[what], what)
                assert.is_true(expected[what](case, got), got[3])
                assert.is_table(g:result())
            elseif case.name:find "None" and not got[1] then
                assert.matches("must return numbers", got[2])
            else
                assert.is_true(got[1], got[2])
                assert.is_table(got[2], got[3])
                compare(case, got[2])
            end
        end)
    end
end)

describe("a graph", function()
    local function ask() return { "1" } end

    it("is plain data, printed as text, dot and mermaid", function()
        local g = operations.new { start = { x = 1 } }
        local a = g:split { split = function() return { {}, {} } end }
        g:keep_valid { after = { a } }
        g:keep_valid { after = { a.id } }
        assert.same({ 1, 1 }, { g.operations[2].after[1], g.operations[3].after[1] })
        assert.same({ 2, 3 }, { g:leaves()[1].id, g:leaves()[2].id })
        assert.matches("3 keep_valid  <%- 1", tostring(g))
        assert.matches("o1 %-> o2;", g:dot())
        assert.matches("o1 %-%-> o3", g:mermaid())
    end)

    it("is checked before anything is asked", function()
        local asked = 0
        local function mistake(build)
            local g = operations.new {}
            build(g)
            return task.run(function()
                local result, message, code = g:run { ask = function()
                    asked = asked + 1
                    return ask()
                end }
                assert.same({ nil, "BAD_GRAPH" }, { result, code })
                return message
            end)
        end
        local generate = { prompt = function() return "p" end, parse = parse_none }
        assert.matches("cycle", mistake(function(g)
            local a = g:generate(generate)
            local b = g:keep_valid {}
            a.after = { b.id }
        end))
        assert.matches("operation 7, which does not exist", mistake(function(g)
            g:generate(generate)
            g:keep_valid { after = { 7 } }
        end))
        assert.matches("operation 2 %(keep_best%) gets thoughts that are not scored",
            mistake(function(g)
                g:generate(generate)
                g:keep_best {}
            end))
        assert.matches("operation 1 %(keep_valid%) needs a predecessor", mistake(function(g)
            g:keep_valid {}
        end))
        assert.equal(0, asked)
    end)

    it("reports an invalid operation at the caller's line", function()
        local g = operations.new {}
        local function mistake(kind, opts, pattern)
            local ok, message = pcall(function() g[kind](g, opts) end)
            assert.is_false(ok)
            assert.matches("operations_spec.lua:%d+: operations." .. kind .. ": .*" .. pattern,
                message)
        end
        mistake("generate", {}, "opts.parse must be a function")
        mistake("score", {}, "needs score, or prompt and parse")
        mistake("score", { score = id, prompt = id }, "not both")
        mistake("keep_valid", { after = { {} } }, "after%[1%] must be an operation of this graph")
        mistake("validate_and_improve", { validate = id }, "needs improve_prompt")
    end)

    it("runs an operation once that is listed twice as a predecessor", function()
        local g = operations.new { start = { x = 1 } }
        local a = g:map { map = id }
        g:map { map = id, after = { a, a, a.id } }
        local result = task.run(g.run, g, { ask = ask })
        assert.equal(1, #result.final[1])
    end)

    it("can be extended while it runs", function()
        local g = operations.new { start = { x = 1 } }
        g:split { split = function() return { { x = 1 }, { x = 2 } } end }
        g:aggregate { prompt = function() return "sum" end,
            parse = function(states) return { x = #states } end,
            after = function(outputs)
                local added = {}
                for _, t in ipairs(outputs[1].thoughts) do
                    added[#added + 1] = g:map { after = { 1 },
                        map = function() return { x = t.state.x * 10 } end }
                end
                return added
            end }
        for _ = 1, 2 do -- a run does not change the plan
            local result = task.run(g.run, g, { ask = ask })
            assert.equal(4, #result.operations)
            assert.equal(4, result.final[1][1].state.x) -- two thoughts through each of two
            assert.equal(2, #g.operations)
            assert.equal(4, #g:result().operations)
        end
        local ok, message = pcall(task.run, function()
            return task.map({ 1, 2 }, function() return g:run { ask = function()
                task.sleep(0)
                return { "1" }
            end } end)
        end)
        assert.is_false(ok)
        assert.matches("another run extends this graph now", message)
    end)

    it("runs ready operations concurrently", function()
        local at_once, most = 0, 0
        local g = operations.new {}
        for _ = 1, 3 do
            g:generate { after = {}, prompt = function() return "p" end, parse = parse_none }
        end
        task.run(g.run, g, { ask = function()
            at_once = at_once + 1
            most = math.max(most, at_once)
            task.sleep(0)
            at_once = at_once - 1
            return { "1" }
        end })
        assert.equal(3, most)
    end)

    it("ends with what there is if a query fails, and raises what a callback raises", function()
        local g = operations.new {}
        g:map { map = id }
        g:generate { prompt = function() return "p" end, parse = parse_none }
        task.run(function()
            local result, message, code, partial = g:run { ask = function()
                return nil, "no answer", "TIMEOUT"
            end }
            assert.is_nil(result)
            assert.equal("operation 2 (generate): no answer", message)
            assert.equal("TIMEOUT", code)
            assert.equal("done", partial.operations[1].status)
            assert.equal("failed", partial.operations[2].status)
        end)
        local mine = { code = 5 }
        local h = operations.new {}
        h:map { map = function() error(mine) end }
        task.run(function()
            local ok, err = pcall(h.run, h, { ask = ask })
            assert.is_false(ok)
            assert.equal(mine, err)
        end)
    end)

    it("refuses updates that are not tables", function()
        for shown, callback in pairs {
            ["map must return a table of fields (got nil)"] = { "map", function() end },
            ["split must return a table of fields (got 5)"] = { "split", function()
                return { {}, 5 }
            end },
            ["split must return a list of updates (got nil)"] = { "split", function() end },
        } do
            local g = operations.new {}
            g[callback[1]](g, { [callback[1]] = callback[2] })
            raises(shown, task.run, g.run, g, { ask = ask })
        end
    end)

    it("refuses replies that are not strings", function()
        for shown, replies in pairs { ["5"] = 5, ["true"] = { "a", true } } do
            local g = operations.new { start = {} }
            g:generate { prompt = function() return "?" end, parse = function() return {} end }
            local ok, message = pcall(task.run, g.run, g, { ask = function() return replies end })
            assert.is_false(ok)
            assert.matches("opts.ask must return a list of texts (got " .. shown .. ")", message,
                1, true)
        end
    end)

    it("keeps a callback that writes to a state from changing other outputs", function()
        local g = operations.new { start = { x = 1 } }
        local a = g:map { map = id }
        g:map { after = { a }, map = function(state)
            state.x = 99
            return {}
        end }
        local result = task.run(g.run, g, { ask = ask })
        assert.equal(1, result.operations[1].thoughts[1].state.x)
        assert.equal(1, result.final[1][1].state.x)
    end)
end)

describe("typed replies", function()
    it("of operations are values", function()
        local model, sent = require "ponder.model", {}
        model.register("typed-operations", { call = function(request)
            sent[#sent + 1] = request.format.schema.required[1]
            return { texts = { '{"n": 1}', '{"n": 2}' } }
        end })
        local g = operations.new {}
        g:generate { responses = 2, returns = { n = "integer" },
            prompt = function() return "Two numbers?" end,
            parse = function(_, replies) return replies end }
        local result = assert(task.run(g.run, g, { model = "typed-operations:m" }))
        assert.same({ { n = 1 }, { n = 2 } },
            { result.final[1][1].state, result.final[1][2].state })
        assert.same({ "n" }, sent)
        result = assert(task.run(g.run, g, { ask = function(_, n, returns)
            return { { n = n }, { n = returns.n } }
        end }))
        assert.same({ { n = 2 }, { n = "integer" } },
            { result.final[1][1].state, result.final[1][2].state })
    end)
end)
