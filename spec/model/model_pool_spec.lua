-- pool:FILE#FIELD, a model of recorded replies.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local shell = require "shell"
local task = require "ponder.task"

local LINES = {
    { id = "a", input = "What is 1 + 1?", io = { answers = { "2", "3" }, samples = { 0, 1, 0 },
        tokens = { 5, 7, 6 }, input_tokens = 11 } },
    { id = "b", input = "What is 2 + 2?", io = { answers = { "4" }, samples = { 0 } } },
}

local function pool_of(lines)
    local texts = {}
    for i, line in ipairs(lines) do
        texts[i] = type(line) == "string" and line or json.encode(line)
    end
    return shell.directory { ["p.jsonl"] = table.concat(texts, "\n") .. "\n" }
end

local function ask(m, input, opts)
    return m:chat(merge({ messages = { { role = "user", content = input } } }, opts))
end

describe("pool:FILE#FIELD", function()
    local dir, m

    setup(function()
        dir = pool_of(LINES)
        m = model.open("pool:" .. dir.path .. "/p.jsonl#io")
    end)
    teardown(function() getmetatable(dir).__close(dir) end)

    it("answers the request with sample number i with sample i, for nothing", function()
        task.run(function()
            local texts = {}
            for i = 1, 3 do
                local reply = assert(ask(m, "What is 1 + 1?", { sample = i }))
                texts[i] = reply.text
                assert.same({ true, 0.0, 11, LINES[1].io.tokens[i] }, { reply.recorded, reply.cost,
                    reply.usage.input_tokens, reply.usage.output_tokens })
                assert.is_nil(reply.scripted)
            end
            assert.same({ "2", "3", "2" }, texts)
            local both = assert(ask(m, "What is 1 + 1?", { sample = 2, n = 2 }))
            assert.same({ "3", "2" }, both.texts)
            assert.same({ true, 11, 13 }, { both.recorded, both.usage.input_tokens,
                both.usage.output_tokens })
            assert.is_nil(assert(ask(m, "What is 2 + 2?")).usage)
        end)
    end)

    it("finds a line by its id, and the text of the last message", function()
        task.run(function()
            assert.equal("3", ask(m, "rewritten", { sample = 2, metadata = { id = "a" } }).text)
            assert.equal("4", m:chat { messages = { { role = "user", content = "What is 1 + 1?" },
                { role = "assistant", content = "2" },
                { role = "user", content = "What is 2 + 2?" } } }.text)
        end)
    end)

    it("fails for inputs it does not know, and when no sample is left", function()
        task.run(function()
            local _, message, code = ask(m, "What is 3 + 3?")
            assert.equal("POOL_UNKNOWN", code)
            assert.matches('the pool has no input "What is 3 %+ 3%?"$', message)
            _, message, code = ask(m, "What is 3 + 3?", { metadata = { id = "c" } })
            assert.equal("POOL_UNKNOWN", code)
            assert.matches('no input "What is 3 %+ 3%?" and no id "c"$', message)
            _, message, code = ask(m, "What is 1 + 1?", { sample = 4 })
            assert.equal("POOL_EMPTY", code)
            assert.matches("sample 4 is not in the pool, which has 3 of this input$", message)
            _, _, code = ask(m, "What is 1 + 1?", { sample = 3, n = 2 })
            assert.equal("POOL_EMPTY", code)
        end)
    end)

    it("says what is wrong with a file when it is opened", function()
        for message, lines in pairs {
            ["p.jsonl: no replies under \"ido\" %(did you mean \"io\"%?%); there are: io"] = {
                LINES[1] },
            ["p.jsonl:2: ido: samples%[1%] must be the index of a text of `answers`, from 0 "
                .. "%(got 1%)"] = { { input = "x", ido = { answers = {}, samples = {} } },
                { input = "y", ido = { answers = { "z" }, samples = { 1 } } } },
            ["p.jsonl:1: ido: needs the lists `answers` and `samples`"] = { { input = "x",
                ido = {} } },
            ["p.jsonl:1: ido: `tokens` must be a list as long as `samples`"] = { { input = "x",
                ido = { answers = { "z" }, samples = { 0 }, tokens = { 1, 2 } } } },
            ["p.jsonl:1: must be a JSON object with `input`, a text"] = { "{}" },
            ["p.jsonl:1: json.decode: unexpected end"] = { "{" },
        } do
            local broken <close> = pool_of(lines)
            local opened, why = model.try_open("pool:" .. broken.path .. "/p.jsonl#ido")
            assert.is_nil(opened)
            assert.matches(message, why)
        end
        assert.matches("expected pool:FILE#FIELD", select(2, model.try_open "pool:p.jsonl"))
        assert.matches("nowhere%.jsonl", select(2, model.try_open "pool:nowhere.jsonl#io"))
    end)

    it("is replayed from the log without its file", function()
        local own <close> = pool_of(LINES)
        own:write("a.lua", [[
            local m = require("ponder.model").open("pool:p.jsonl#io")
            local reply = m:chat { messages = { { role = "user", content = "What is 1 + 1?" } },
                sample = 2 }
            print(reply.text, reply.recorded, reply.cost)
        ]])
        assert.equal("3\ttrue\t0.0\n", own:ponder({ "run", "--log", "run.db", "a.lua" }).out)
        os.remove(own.path .. "/p.jsonl")
        assert.equal("3\ttrue\t0.0\n", own:ponder({ "replay", "run.db" }).out)
    end)

    it("answers each item of an evaluation with its own replies, also by its id", function()
        local own <close> = shell.directory {
            ["p.jsonl"] = table.concat({
                '{"id": "x", "input": "q", "io": {"answers": ["1"], "samples": [0]}}',
                '{"id": "y", "input": "r", "io": {"answers": ["2"], "samples": [0]}}',
                '{"id": "z", "input": "s", "io": {"answers": ["3"], "samples": [0]}}',
                '{"id": "z", "input": "t", "io": {"answers": ["4"], "samples": [0]}}',
            }, "\n"),
            ["e.lua"] = [[
                return { score = "exact", policies = { p = { model = "pool:p.jsonl#io",
                        prompt = "Say {{question}}" } },
                    data = { { id = "y", question = "r", target = "2" },
                        { id = "x", question = "q", target = "1" },
                        { id = "z", question = "s", target = "3" } } }
            ]],
        }
        local r = own:ponder { "eval", "--no-log", "--json", "e.lua" }
        assert.equal(2 / 3, json.decode(r.out).policies[1].accuracy.value)
        assert.truthy(r.err:find("replies are found by the item's id", 1, true), r.err)
        -- Two lines have the id z: neither may be meant.
        assert.truthy(r.out:find('the pool has no input "Say s" and no id', 1, true)
            or r.out:find('the pool has no input \\"Say s\\"', 1, true), r.out)
    end)

    it("is recorded from a log, of a run or an evaluation", function()
        local own <close> = shell.directory {
            ["m.lua"] = [[return function(request)
                local last = request.messages[#request.messages].content
                if request.sample == 3 then return nil, "tired" end
                return { text = last:upper() .. request.sample % 2,
                    usage = { input_tokens = 4, output_tokens = 6 + request.sample } }
            end]],
            ["a.lua"] = [[
                local m = require("ponder.model").open "script:m.lua"
                for i = 1, 4 do
                    m:chat { messages = { { role = "user", content = "b" } }, sample = i }
                end
                m:chat { messages = { { role = "user", content = "a" } }, n = 2 }
                m:chat { messages = { { role = "user", content = "a" },
                    { role = "assistant", content = "b" }, { role = "user", content = "c" } } }
            ]],
            ["e.lua"] = [[
                local model = (...).model or "script:m.lua"
                return { data = { { id = "x", question = "q" }, { id = "y", question = "r" } },
                    score = function(item, answer) return answer == item.question:upper() .. 1 end,
                    policies = { io = { model = model, prompt = "{{question}}" },
                        ask = { model = model, prompt = "Say {{question}}", n = 2 } } }
            ]],
        }
        local function ponder(...)
            local r = own:ponder { ... }
            assert.equal(0, r.status, r.err)
            return r.out
        end
        ponder("run", "--log", "run.db", "a.lua")
        local lines = {}
        for line in ponder("pool", "record", "run.db", "--field", "io"):gmatch "[^\n]+" do
            lines[#lines + 1] = json.decode(line)
        end
        assert.same({ input = "b", io = { answers = { "B1", "B0" }, samples = { 0, 1, 1 },
            tokens = { 7, 8, 10 }, input_tokens = 4 } }, lines[1])
        assert.same({ "a", { "A1", "A0" }, { 0, 1 } }, { lines[2].input, lines[2].io.answers,
            lines[2].io.samples })
        local before = ponder("eval", "--json", "--log", "eval.db", "e.lua")
        ponder("pool", "record", "eval.db", "--output", "p.jsonl")
        local again = ponder("eval", "--json", "--no-log", "--model", "pool:p.jsonl#io",
            "--policy", "io", "e.lua")
        local function of(text)
            for _, policy in ipairs(json.decode(text).policies) do
                if policy.name == "io" then
                    return { policy.accuracy.value, policy.tokens.total, policy.cost.total }
                end
            end
        end
        assert.same({ 1.0, 22.0, 0.0 }, of(before))
        assert.same(of(before), of(again))
        for _, name in ipairs { "ask", "io" } do
            for line in ponder("pool", "record", "--policy", name, "eval.db"):gmatch "[^\n]+" do
                local own_line = json.decode(line)
                assert.truthy(own_line[name] and own_line.id:find "^[xy]$")
                assert.is_nil(own_line[name == "ask" and "io" or "ask"])
            end
        end
        for _, name in ipairs { "id", "input", "a#b" } do
            local refused = own:ponder { "pool", "record", "run.db", "--field", name }
            assert.same({ 2, "" }, { refused.status, refused.out })
        end
        local none = own:ponder { "pool", "record", "--policy", "oi", "eval.db" }
        assert.same({ 1, "ponder pool: eval.db: no answered calls that match, so no pool; no "
            .. "policy is \"oi\" (did you mean \"io\"?): there are ask, io\n" },
            { none.status, none.err })
        local r = own:ponder { "pool", "make" }
        assert.same({ 2, true }, { r.status, r.err:find("expected: ponder pool record", 1, true)
            ~= nil })
    end)
end)
