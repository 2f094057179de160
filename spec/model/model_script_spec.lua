-- script:FILE, models written in Lua, and the built-in one.

local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local play = require "strategy_play"
local task = require "ponder.task"
local verbose = require "ponder.model.verbose"

local function open(text)
    return model.open("script:" .. play.file(text))
end

local function chat(text, opts)
    local call = merge({ messages = { { role = "user", content = "Hello" } } }, opts)
    return play.run(function() return open(text):chat(call) end)
end

describe("script:FILE", function()
    after_each(play.remove_files)

    it("answers with a table or a text, and is marked as scripted", function()
        local reply = chat [[return function(request)
            return { text = request.messages[1].content .. " " .. request.options.temperature,
                usage = { input_tokens = 3, output_tokens = 2 } }
        end]]
        assert.is_nil(reply) -- no temperature: the script raised
        reply = chat([[return function(request)
            return { text = request.messages[1].content .. " " .. request.options.temperature,
                usage = { input_tokens = 3, output_tokens = 2 }, model = "parrot" }
        end]], { temperature = 0.5 })
        assert.equal("Hello 0.5", reply.text)
        assert.same({ 3, 2, 5 }, { reply.usage.input_tokens, reply.usage.output_tokens,
            reply.usage.total_tokens })
        assert.is_true(reply.scripted)
        assert.equal("plain", chat("return function() return 'plain' end").text)
    end)

    it("notifies observers, without a server's fields", function()
        local events, out = {}, {}
        local remove = model.observe(function(event) events[#events + 1] = event end)
        local hush = model.observe(verbose.observer { write = function(_, ...)
            out[#out + 1] = table.concat { ... }
        end })
        chat "return function() return 'plain' end"
        chat "return function() return nil, 'tired' end"
        remove()
        hush()
        assert.same({ "request", "reply", "request", "failure" }, { events[1].type, events[2].type,
            events[3].type, events[4].type })
        assert.same({ "plain" }, events[2].texts)
        assert.is_nil(events[1].url)
        local text = table.concat(out)
        assert.truthy(text:find("> %d+ script:%S+\n> %d+   {"), text)
        assert.truthy(text:find("< %d+ answered in %d+ ms\n< %d+   plain\n"), text)
        assert.truthy(text:find("! %d+ attempt 1: %- SERVER after %d+ ms: tired\n"), text)
    end)

    it("is loaded once for each open model", function()
        local text = "local n = 0 return function() n = n + 1 return tostring(n) end"
        play.run(function()
            local a, b = open(text), open(text)
            assert.equal("1 2 1", table.concat({ a:complete "x", a:complete "x",
                b:complete "x" }, " "))
        end)
    end)

    it("may wait, and answers several samples", function()
        local reply = chat([[local task = require "ponder.task"
            return function(request)
                task.sleep(1)
                return "sample " .. request.sample
            end]], { n = 3 })
        assert.same({ "sample 1", "sample 2", "sample 3" }, reply.texts)
        assert.is_true(reply.scripted)
    end)

    it("gets ids and JSON for its tool calls", function()
        local reply = chat [[return function()
            return { tool_calls = { { name = "add", arguments = { a = 1 } } } }
        end]]
        assert.same({ { id = "call_1", name = "add", arguments = { a = 1 },
            arguments_json = '{"a":1}' } }, reply.tool_calls)
        assert.equal("", reply.text)
    end)

    it("streams by pieces, and the rest at the end", function()
        local heard = {}
        local function on_delta(text, kind)
            heard[#heard + 1] = kind .. ":" .. text
        end
        local reply = chat([[return function(request)
            request.emit("hm", "reasoning")
            request.emit("one ")
            request.emit("two ")
            return "one two three"
        end]], { on_delta = on_delta })
        assert.equal("one two three", reply.text)
        assert.same({ "reasoning:hm", "text:one ", "text:two ", "text:three" }, heard)
        heard = {}
        chat("return function() return 'whole' end", { on_delta = on_delta })
        assert.same({ "text:whole" }, heard)
        reply = chat("return function(r) r.emit('all') return {} end", { on_delta = on_delta })
        assert.equal("all", reply.text)
    end)

    it("fails with its own code, or with SERVER if it raises an error", function()
        for code, text in pairs {
            RATE_LIMITED = "return function() return nil, 'slow down', 'RATE_LIMITED' end",
            SERVER = "return function() error('broken') end",
            BAD_REPLY = "return function() return 3 end",
        } do
            local reply, message, got = chat(text)
            assert.is_nil(reply)
            assert.equal(code, got)
            assert.truthy(message:find("script:", 1, true))
        end
        assert.equal("BAD_REPLY", (select(3, chat "return function() return {text = {}} end")))
        assert.equal("SERVER", (select(3, chat "return function() end")))
    end)

    it("may not answer with fields that nothing reads", function()
        for reply, problem in pairs {
            ['{ txt = "hi" }'] = 'the reply has the unknown field "txt" (did you mean "text"?); '
                .. "its fields are text, texts, tool_calls, ",
            ['{ "hi" }'] = "the reply has the unknown field 1; its fields are text, ",
            ['{ samples = { { text = "a" }, { txt = "b" } } }'] =
                'a sample of the reply has the unknown field "txt"',
            ['{ tool_calls = { { name = "f", args = {} } } }'] =
                'a tool call of the reply has the unknown field "args"',
        } do
            local none, message, code = chat("return function() return " .. reply .. " end")
            assert.same({ nil, "BAD_REPLY" }, { none, code })
            assert.truthy(message:find(problem, 1, true), message)
        end
        assert.equal("hi", chat(([[local inner = require("ponder.model").open "script:%s"
            return function(request) return inner:chat { messages = request.messages } end]])
            :format(play.file "return function() return 'hi' end")).text) -- passed on
    end)

    it("that cannot be loaded is an error of model.open, with its place", function()
        for text, problem in pairs {
            ["return 3"] = "must return a function",
            ["return function("] = ":1:",
            ["error 'no'"] = ":1: no",
        } do
            local path = play.file(text)
            local function open_it() model.open("script:" .. path) end
            assert.error_matches(open_it, "script:" .. path, 1, true)
            assert.error_matches(open_it, problem)
        end
        assert.error_matches(function() model.open "script:no/such/file.lua" end,
            "no/such/file.lua")
    end)
end)

describe("scripts/models/arithmetic.lua", function()
    local NAME = "script:scripts/models/arithmetic.lua"
    local QUESTION = "Use 4 4 6 8 to make 24"

    local function run(name, opts)
        opts = opts or {}
        opts.model = NAME
        return task.run(function()
            return require("ponder.strategy." .. name).new(opts):run(QUESTION)
        end)
    end

    -- Computed by this spec itself: the numbers used, and the value.
    local function is_right(text)
        local expression = text:match "^(.*) = 24$"
        local digits = {}
        for digit in (expression or ""):gmatch "%d+" do
            digits[#digits + 1] = digit
        end
        table.sort(digits)
        return table.concat(digits) == "4468"
            and math.abs(load("return " .. expression)() - 24) < 1e-9
    end

    it("plays Game of 24 with every strategy", function()
        for _, name in ipairs { "tot", "got", "trm", "cot" } do
            local outcome, message = run(name)
            assert(outcome, message)
            assert.equal("completed", outcome.status)
            assert.is_true(outcome.scripted)
            assert.truthy(outcome.answer:find "=", outcome.answer)
        end
        local outcome = run "tot"
        assert.is_true(is_right(outcome.answer), outcome.answer)
        assert.equal("threshold", outcome.stop_reason)
    end)

    it("answers equally for equal seeds, and not always correctly", function()
        local right = 0
        for seed = 1, 12 do
            local first = run("tot", { seed = seed })
            assert.equal(first.answer, run("tot", { seed = seed }).answer)
            right = right + (is_right(first.answer) and 1 or 0)
        end
        assert.is_true(right >= 5 and right < 12, right .. " of 12")
    end)

    it("answers a plain question", function()
        task.run(function()
            local m = model.open(NAME)
            assert.truthy(m:complete(QUESTION):find "=")
            assert.truthy(m:complete("Who are you?"):find "arithmetic")
        end)
    end)
end)
