-- Strategies: ponder.strategy.new, the options of the built-in ones, `ponder ask`, and those in
-- scripts/strategies.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local raises = require "raises"
local shell = require "shell"
local strategy = require "ponder.strategy"
local task = require "ponder.task"

-- A model that answers with a function of the request.
local function model_of(answer)
    return { name = "fake", chat = function(_, request)
        local text, message, code = answer(request)
        if not text then
            return nil, message, code
        end
        return { text = text, usage = { input_tokens = 10, output_tokens = 2 }, samples = {} }
    end }
end

local function last_of(request) return request.messages[#request.messages].content end

local ECHO = model_of(function(request) return "re " .. last_of(request) end)

local TWICE = {
    name = "twice", roles = { "generate", "check" },
    options = { rounds = { type = "integer", min = 1, default = 1, help = "checks" } },
    prompts = { check = function(context)
        return { { role = "user", content = (context.instructions or "Check")
            .. context:quote("answer", context.answer) } }
    end },
    run = function(thinker, question)
        local answer = thinker:ask(question)
        local node = thinker:node { text = answer }
        thinker:best(node)
        for _ = 1, thinker.options.rounds do
            answer = thinker:prompt("check", { answer = answer }, { node = node })
            node = thinker:node { text = answer, parents = { node }, score = 0.5 }
            thinker:best(node)
        end
        return answer
    end,
}

local function changed(more)
    return merge(merge({}, TWICE), more)
end

local function run(library, opts, how)
    local s = library.new(opts)
    return task.run(function()
        local result = table.pack(s:run("Why?", how))
        return { result[1], message = result[2], code = result[3], partial = result[4], s = s }
    end)
end

describe("a strategy that is a function", function()
    it("calls models, draws and answers", function()
        local events = {}
        local r = run(strategy.new(TWICE), { model = ECHO, rounds = 2 },
            { on_event = function(event) events[#events + 1] = event.name end })
        assert.equal("re Check<answer-1>\nre Check<answer>\nre Why?\n</answer>\n</answer-1>",
            r[1].answer)
        assert.equal("completed", r[1].status)
        assert.equal(3, r[1].spent.calls)
        assert.same({ 30, 6 }, { r[1].spent.usage.input_tokens, r[1].spent.usage.output_tokens })
        assert.equal("call.start call.complete twice.step call.start call.complete twice.step "
            .. "call.start call.complete twice.step", table.concat(events, " "))
        local seen = r.s:look()
        assert.same({ 4, { 1, 2, 3, 4 }, 0.5 }, { seen.count, seen.path(), seen.node(4).score })
    end)

    it("has models by role, each with a fallback", function()
        local library = strategy.new(changed { roles = { "generate", "check", "judge" },
            fallback = { judge = "check" } })
        local other = model_of(function() return "checked" end)
        local r = run(library, { model = ECHO, models = { check = other } })
        assert.equal("checked", r[1].answer)
        local s = library.new { model = "openai:a", models = { check = "openai:b" } }
        assert.same({ "openai:a", "openai:b", "openai:b" }, { s:model_name "generate",
            s:model_name "check", s:model_name "judge" })
        assert.has_error(function() library.new { models = { chek = ECHO } } end)
    end)

    it("accepts instructions and functions in place of its prompts", function()
        local library = strategy.new(TWICE)
        assert.matches("^re Mine<answer>", run(library, { model = ECHO,
            check_prompt = "Mine" })[1].answer)
        assert.equal("re own", run(library, { model = ECHO, prompts = { check = function()
            return { { role = "user", content = "own" } }
        end } })[1].answer)
    end)

    it("ends with the failure of a call, and keeps its best", function()
        local count = 0
        local r = run(strategy.new(TWICE), { model = model_of(function()
            count = count + 1
            if count == 2 then return nil, "no key", "AUTH" end
            return "first"
        end) })
        assert.same({ nil, "no key", "AUTH" }, { r[1], r.message, r.code })
        assert.same({ "first", "error" }, { r.partial.answer, r.partial.status })
    end)

    it("may catch a failure, return nothing, or raise an error", function()
        local failing = model_of(function() return nil, "down", "CONNECT" end)
        local caught = strategy.new(changed { run = function(thinker, question)
            local ok, problem = pcall(thinker.ask, thinker, question)
            return ("%s %s"):format(ok, tostring(problem))
        end })
        assert.equal("false down [CONNECT]", run(caught, { model = failing })[1].answer)
        local none = run(strategy.new(changed { run = function()
            return nil, "no way", "NO_WAY"
        end }), { model = ECHO })
        assert.same({ "no way", "NO_WAY" }, { none.message, none.code })
        raises.like("strategy_spec.lua:%d+: a mistake", run, strategy.new(changed {
            run = function() error "a mistake" end }), { model = ECHO })
    end)

    it("makes concurrent calls; equal questions are different samples", function()
        local samples, most, now = {}, 0, 0
        local slow = { name = "slow", chat = function(_, request)
            samples[#samples + 1], now = request.sample, now + 1
            most = math.max(most, now)
            task.sleep(0.001)
            now = now - 1
            return { text = "x", usage = {}, samples = {} }
        end }
        run(strategy.new(changed { run = function(thinker, question)
            local texts = task.map({ 1, 2, 3 }, function() return (thinker:ask(question)) end)
            return table.concat(texts)
        end }), { model = slow })
        table.sort(samples)
        assert.same({ { 1, 2, 3 }, 3 }, { samples, most })
    end)

    it("repeats a call whose reply cannot be read, and then gives up", function()
        local function grade(replies, opts)
            local asked = {}
            local r = run(strategy.new(changed { run = function(thinker, question)
                return tostring(thinker:ask(question, { read = function(text)
                    return strategy.read_grade(text, "value", 10)
                end }))
            end }), { model = model_of(function(request)
                asked[#asked + 1] = request.messages
                return replies[#asked]
            end), max_parse_retries = opts })
            return r, asked
        end
        local r, asked = grade { "Value: 70", "Value: 7/10" }
        assert.equal("0.7", r[1].answer)
        assert.same({ 2, 1, 3 }, { r[1].spent.calls, #asked[1], #asked[2] })
        assert.same({ role = "assistant", content = "Value: 70" }, asked[2][2])
        r = grade { "good", "very good", "Value: 7" }
        assert.same({ "BAD_REPLY", 2 }, { r.code, r.partial.spent.calls })
        assert.matches('the reply to ask cannot be read: "very good"', r.message, 1, true)
        r = grade({ "good", "very good", "Value: 7" }, 2)
        assert.equal("0.7", r[1].answer)
    end)

    it("parses answers like everything else", function()
        assert.same({ "24", true }, { strategy.read_answer "So \\boxed{24}." })
        local outcome = task.run(function()
            return require("ponder.strategy.cot").new {
                model = model_of(function() return "x\n#### 9\n" end) }:run("Why?")
        end)
        assert.equal("9", outcome.answer)
        assert.same({ "It depends.", false }, { strategy.read_answer " It depends.\n" })
        assert.equal(strategy.answer_key "$1,200.", strategy.answer_key "1200")
    end)

    it("asks by the name of a prompt, and does not take a text for one", function()
        local function answer_of(f, question)
            local made = strategy.new(changed { run = f, prompts = { check = function(context)
                return { { role = "user", content = "check " .. tostring(context.x) } }
            end } })
            local ok, outcome = pcall(task.run, function()
                return (made.new { model = ECHO }:run(question or "Why?"))
            end)
            return ok and outcome.answer, tostring(outcome)
        end
        for expected, f in pairs {
            ["re check nil"] = function(t) return (t:prompt "check") end,
            ["re check 1"] = function(t) return (t:prompt("check", { x = 1 })) end,
            ["re Yes"] = function(t) return (t:ask("Yes", { node = 1 })) end,
            ["re a word"] = function(t) return (t:ask "a word") end,
            ["re chekc"] = function(t)
                return (t:ask { { role = "user", content = "chekc" } })
            end,
        } do
            assert.equal(expected, (answer_of(f)))
        end
        for _, word in ipairs { "check", "chekc" } do
            assert.equal("re " .. word, (answer_of(function(t, q) return (t:ask(q)) end, word)))
            assert.equal("re " .. word, (answer_of(function(t, q)
                return (t:ask(q, { temperature = 0 }))
            end, word)))
        end
        for pattern, f in pairs {
            ["has no prompt \"chekc\" %(it has check%)"] = function(t) t:prompt "chekc" end,
            ["has no prompt nil"] = function(t) t:prompt() end,
            ["thinker:ask: text must be a text .*got nil"] = function(t) t:ask() end,
            ['now thinker:prompt%("check", fields, opts%)'] = function(t)
                t:ask("check", { x = 1 })
            end,
            ['now thinker:prompt%("chekc", fields, opts%)'] = function(t)
                t:ask("chekc", nil, { node = 1 })
            end,
            ["thinker:ask: unknown option \"x\""] = function(t) t:ask("a word", { x = 1 }) end,
            ["unknown option \"reed\""] = function(t) t:prompt("check", {}, { reed = 1 }) end,
        } do
            local found, message = answer_of(f)
            assert.is_false(found)
            assert.matches(pattern, message)
        end
    end)

    it("streams the replies of all its calls, by the call", function()
        local seen, gathered = {}, {}
        local m = { name = "streamed", chat = function(_, request)
            for piece in ("one two three"):gmatch "%S+" do
                request.on_delta(piece, "text", 1)
            end
            return { text = "onetwothree", usage = {}, samples = {} }
        end }
        local r = run(strategy.new(changed {}), { model = m }, {
            on_delta = function(text, kind, call)
                seen[call.role .. " " .. kind] = true
                gathered[call.id] = (gathered[call.id] or "") .. text
            end })
        assert.equal("onetwothree", r[1].answer)
        assert.same({ ["generate text"] = true, ["check text"] = true }, seen)
        assert.same({ c1 = "onetwothree", c2 = "onetwothree" }, gathered)
    end)

    it("offers tools, and runs them", function()
        local asked = { name = "asked", chat = function(_, request)
            if request.tools and last_of(request) == "Why?" then
                local calls = { { id = "a", name = "add", arguments = { x = 2 } } }
                return { text = "", tool_calls = calls, usage = {}, samples = {} }
            end
            return { text = "got " .. last_of(request), usage = {}, samples = {} }
        end }
        local tools = { { name = "add", description = "adds", parameters = { type = "object",
            properties = { x = { type = "integer" } } },
            run = function(arguments) return tostring(arguments.x + 1) end } }
        local opts = { model = asked, tools = tools }
        assert.equal("got 3", run(strategy.new(changed { run = function(thinker, question)
            return (thinker:ask(question))
        end }), opts)[1].answer)
        assert.equal("got Why? 6", run(strategy.new(changed { run = function(thinker, question)
            return thinker:ask(question, { tools = false }) .. " "
                .. thinker:tool("add", { x = 5 })
        end }), opts)[1].answer)
    end)
end)

describe("a strategy that plays a machine", function()
    -- Asks twice; the second time for a checked answer.
    local function new_machine()
        local machine = { status = "idle" }
        function machine:update(msg, env)
            if msg.type == "start" then
                self.status = "asking"
                return { { type = "question", call_id = msg.call_id,
                    context = { { role = "user", content = msg.prompt } } } }, {}
            elseif msg.ok == false then
                self.status, self.error = "error", msg.reason
                return {}, {}
            elseif self.status == "asking" then
                self.status, self.first = "checking", msg.text
                return { { type = "check", call_id = "c1",
                    context = env.render("check", { answer = msg.text }) } },
                    { { name = "pair.step", measurements = {}, metadata = {} } }
            end
            self.status, self.result = "completed", msg.text
            return {}, {}
        end
        return machine
    end

    local library = strategy.new { name = "pair", roles = { "generate", "check" },
        prompts = { check = TWICE.prompts.check },
        run = function(thinker)
            return thinker:play(new_machine(), {
                roles = { question = "generate", check = "check" },
                draw = function(event, machine)
                    return event.name == "pair.step" and { text = machine.first, best = true }
                        or nil
                end,
                returns = function(directive)
                    return directive.type == "check" and { answer = "string" } or nil
                end,
                answer = function(machine) return machine.result end,
            })
        end }

    it("answers, and is drawn", function()
        local r = run(library, { model = ECHO })
        assert.equal("re Check<answer>\nre Why?\n</answer>", r[1].answer)
        local seen = r.s:look()
        assert.same({ 2, 1, { 1, 2 } }, { seen.count, seen.node(2).parent, seen.path() })
    end)

    it("asks for a schema where the prompt is its own and the model is open", function()
        local formats = {}
        model.register("typed-spec", { call = function(request)
            formats[#formats + 1] = request.format and request.format.schema.required[1] or "none"
            if request.format and request.model == "old" then
                return nil, "response_format is not supported", "BAD_REQUEST"
            end
            return { text = #formats == 2 and '{"answer": "typed"}' or "in prose" }
        end })
        assert.equal('{"answer": "typed"}', run(library, { model = "typed-spec:m" })[1].answer)
        assert.same({ "none", "answer" }, formats)
        formats = {}
        local r = run(library, { model = "typed-spec:m", check_prompt = "Mine" })
        assert.same({ "none", "none" }, formats)
        formats = { "a" }
        assert.equal("in prose", run(library, { model = "typed-spec:m" })[1].answer)
        formats = { "a" }
        assert.equal("in prose", run(library, { model = "typed-spec:old" })[1].answer)
        assert.same({ "a", "none", "answer", "none" }, formats)
        assert.is_nil(r.message)
    end)

    it("of a thinker may be typed, by any model", function()
        local typed = strategy.new(changed { run = function(thinker, question)
            local value = thinker:ask(question, { returns = { n = "integer" } })
            return tostring(value.n + 1)
        end })
        local replies = { "no", '{"n": 4}' }
        local custom = model_of(function() return table.remove(replies, 1) end)
        local r = run(typed, { model = custom })
        assert.same({ "5", 2 }, { r[1].answer, r[1].spent.calls })
        require("ponder.model").register("value-spec", { call = function()
            return { text = '{"n": 6}' }
        end })
        assert.equal("7", run(typed, { model = "value-spec:m" })[1].answer)
    end)
end)

describe("ponder.strategy.new", function()
    it("reports errors in a description", function()
        for message, more in pairs {
            ["opts.name must be letters"] = { name = "a b" },
            ["start is now opts.run, in which thinker:play(machine, how)"] =
                { start = function() end },
            ["opts.roles must name at least one role"] = { roles = {} },
            ["opts.prompts.x must be a function"] = { prompts = { x = "text" } },
            ["opts.options.x must be a table"] = { options = { x = 5 } },
            ["unknown option"] = { rol = {} },
        } do
            raises.like("^%S*strategy_spec.lua:%d+: strategy.new: .*" .. message:gsub("%p", "%%%0"),
                function() strategy.new(changed(more)) end)
        end
    end)

    it("makes the built-in strategies", function()
        for _, name in ipairs { "tot", "got", "trm", "cot" } do
            assert.is_true(strategy.is_library(require("ponder.strategy." .. name)))
        end
        assert.is_false(strategy.is_library {})
    end)
end)

local NAMES = { "tot", "got", "trm", "cot" }
local strategies = {}
for _, name in ipairs(NAMES) do
    strategies[name] = require("ponder.strategy." .. name)
end

local function new(name, opts)
    opts.model = opts.model or "play:1"
    return strategies[name].new(opts)
end

describe("strategy.options", function()
    it("describes every option, each with help", function()
        for _, name in ipairs(NAMES) do
            local seen = {}
            for _, option in ipairs(strategies[name].options()) do
                assert.is_string(option.help, name .. "." .. option.name)
                assert.is_nil(seen[option.name], option.name)
                assert.is_truthy(option.type)
                seen[option.name] = option
            end
            for _, common in ipairs { "model", "models", "temperature", "tools", "budget",
                "max_output_tokens", "generation_prompt" } do
                assert.is_truthy(seen[common] or name == "trm", name .. "." .. common)
            end
        end
    end)

    it("has the machine's defaults, enums and ranges", function()
        local by_name = {}
        for _, option in ipairs(strategies.tot.options()) do
            by_name[option.name] = option
        end
        assert.equal(3, by_name.branching_factor.default)
        assert.same({ "best_first", "bfs", "dfs" }, by_name.traversal_strategy.enum)
        assert.equal(1, by_name.max_depth.min)
        assert.equal("machine", by_name.batch.group)
        assert.equal("budget", by_name.budget.group)
        assert.same({ 1, 200, 3 }, { by_name.tool_max_retries.default,
            by_name.tool_retry_backoff_ms.default, by_name.max_tool_round_trips.default })
    end)
end)

describe("strategy.new", function()
    it("raises errors for unknown and wrong options, at the caller's line", function()
        raises('unknown option "branching" (did you mean "branching_factor"?)',
            strategies.tot.new, { branching = 3 })
        raises("strategy.tot.new: opts.max_depth must be an integer from 1 to", strategies.tot.new,
            { max_depth = 0 })
        raises('no role "evaluation" (did you mean "evaluate"?)', new, "tot",
            { models = { evaluation = "x" } })
        raises("opts.models.evaluate must be a name or an open model", new, "got",
            { models = { evaluate = 3 } })
        raises("strategy.cot.new: opts.model must be a name or an open model (got a table)",
            strategies.cot.new, { model = {} })
        raises("opts.models.generate must be a name or an open model", strategies.tot.new,
            { models = { generate = {} } })
        raises("strategy_spec.lua:", function()
            strategies.trm.new { max_supervision_stops = 3 }
        end)
    end)

    it("checks the tools", function()
        local function nothing() return "" end
        raises("strategy.tot.new: opts.tools[1]: opts.run must be a function", strategies.tot.new,
            { tools = { { name = "a" } } })
        raises("letters, digits", strategies.tot.new,
            { tools = { { name = "a b", run = nothing } } })
        raises("not unique", strategies.tot.new,
            { tools = { { name = "a", run = nothing }, { name = "a", run = nothing } } })
        raises("parameters: a $ref leads back to itself", strategies.tot.new,
            { tools = { { name = "a", run = nothing, parameters = { ["$ref"] = "#" } } } })
        raises('opts.tools[1].parameters: type must be "object", ', strategies.tot.new,
            { tools = { { name = "a", run = nothing, parameters = { type = "objekt" } } } })
        raises("must be a list", strategies.tot.new, { tools = { name = "a", run = nothing } })
    end)
end)

describe("prompts of the options", function()
    it("that are unknown or invalid raise errors", function()
        raises('strategy.tot.new: unknown prompt "generat" (did you mean "generate"?)',
            strategies.tot.new, { prompts = { generat = "x" } })
        raises("strategy.trm.new: prompts.improve must be a function or a string (got 3)",
            strategies.trm.new, { prompts = { improve = 3 } })
        assert.is_truthy(strategies.got.new { prompts = { instructions = {} } })
    end)
end)

describe("a strategy's old methods", function()
    it("say what to use instead", function()
        raises("s:snapshot is gone: s:outcome() has", function() new("tot", {}):snapshot() end)
    end)
end)

describe("models by role", function()
    it("have fallbacks", function()
        local s = new("got", { models = { evaluate = "play:2", refine = "play:3" } })
        local names = {}
        for _, role in ipairs { "generate", "score", "vote", "connect", "aggregate", "refine" } do
            names[#names + 1] = s:model_name(role):match("%d")
        end
        assert.equal("1 2 2 1 1 3", table.concat(names, " "))
        local trm = new("trm", { models = { supervise = "play:2" } })
        assert.equal("play:2", trm:model_name("supervise"))
        assert.equal("play:1", trm:model_name("improve"))
    end)
end)

describe("ponder serve", function()
    it("offers what strategy.new returned", function()
        local list = assert(require("ponder.serve.http.policies").of("mine", strategy.new(TWICE)))
        assert.same({ 1, "mine" }, { #list, list[1].name })
    end)
end)

describe("scripts/strategies", function()
    local ANSWERS = { rsa = "42", react = "42", program_of_thought = "204", lats = "7",
        self_refine = "6", budget_forcing = "9", mixture = "123", solve_verify = "12",
        plan_search = "16", mctsr = "5" }
    local FLAGS = { rsa = { "--population", "4", "--subset", "4" }, lats = { "--iterations", "4" } }

    local function ask(dir, name, ...)
        return dir:ponder { "ask", "--strategy", shell.root .. "/scripts/strategies/" .. name
            .. ".lua", "--model", ("script:%s/spec/support/models/strategies/%s.lua"):format(
            shell.root, name), ... }
    end

    for name, answer in pairs(ANSWERS) do
        it("answer, are drawn, replay and resume: " .. name, function()
            local dir <close> = shell.directory()
            local own = FLAGS[name] or {}
            local flags = table.move(own, 1, #own, 1, {})
            table.move({ "--log", "a.db", "How many?" }, 1, 3, #flags + 1, flags)
            local r = ask(dir, name, table.unpack(flags))
            assert.same({ answer .. "\n", 0 }, { r.out, r.status }, r.err)
            local shown = dir:ponder({ "show", "--tree", "a.db" }).out
            assert.matches("search 1: " .. name .. ", %d+ nodes", shown)
            for _, command in ipairs { "replay", "resume" } do
                local again = dir:ponder { command, "a.db" }
                assert.same({ answer .. "\n", 0 }, { again.out, again.status }, again.err)
            end
        end)
    end

    it("answer otherwise without their mechanism, and say what they cost", function()
        local dir <close> = shell.directory()
        for name, case in pairs {
            self_refine = { 4, "3", "--rounds", "0" }, -- solve, criticize, refine, criticize
            budget_forcing = { 5, "8", "--waits", "1" },
            mixture = { 7, "1", "--proposers", "1", "--layers", "1" },
            solve_verify = { 12, "10", "--solutions", "2" }, -- two alike, which are not checked
            plan_search = { 13, "8", "--observations", "1" },
            mctsr = { 14, "2", "--rollouts", "0" },
        } do
            local with = json.decode(ask(dir, name, "--json", "How many?").out)
            assert.same({ ANSWERS[name], case[1] }, { with.answer, with.spent.calls }, name)
            local without = json.decode(ask(dir, name, "--json", "How many?",
                table.unpack(case, 3)).out)
            assert.same({ name, case[2] }, { name, without.answer })
        end
    end)

    it("solve more than one call: lats reflects, rsa merges, react corrects itself", function()
        local dir <close> = shell.directory()
        local result = json.decode(ask(dir, "lats", "--json", "How many?").out)
        assert.same({ "7", "completed", 21 }, { result.answer, result.status, result.spent.calls })
        result = json.decode(ask(dir, "rsa", "--steps", "0", "--json", "How many?").out)
        assert.equal("11", result.answer)
        result = json.decode(ask(dir, "react", "--max-turns", "2", "--json", "How many?").out)
        assert.equal("MAX_TURNS", result.error.code)
        result = json.decode(ask(dir, "program_of_thought", "--repairs", "0", "--json", "?").out)
        assert.matches("^no program ran: ", result.error.message)
    end)
end)

describe("chain of thought with several samples", function()
    local MODEL = [[
        return function(request)
            local i = request.sample
            local text, tokens = ("Hm.<answer>%d.</answer>"):format(i % 4 == 2 and 13 or 14), {}
            for t = 1, 6 do
                tokens[t] = { token = "t", logprob = i == 5 and -0.1 or -i }
                if request.emit then request.emit(t == 6 and text or " ", nil, { tokens[t] }) end
            end
            if i == 3 then return nil, "overloaded", "SERVER" end
            return { text = (" "):rep(5) .. text, logprobs = tokens,
                usage = { input_tokens = 10, output_tokens = 6 } }
        end]]

    local function ask(dir, ...)
        local r = dir:ponder { ... }
        return r, r.out:find "^{" and json.decode(r.out)
    end

    it("votes as its flags say, and tells how far it went", function()
        local dir <close> = shell.directory { ["m.lua"] = MODEL }
        for _, case in ipairs {
            { "success", 1, nil, "--log", "a.db" },
            { "sure", 9, 31, "--n", "40", "--stop-at", "0.9", "--min-samples", "3", "--log",
                "b.db" },
            { "budget", 4, 0, "--n", "8", "--max-calls", "4", "--log", "c.db" },
            { "success", 8, 0, "--n", "8", "--vote", "weighted", "--confidence", "mean",
                "--keep-share", "0.5", "--max-cost", "1", "--log", "d.db" },
            { "consensus", 9, 3, "--n", "12", "--vote", "weighted", "--warmup", "3", "--window",
                "2", "--keep-share", "1", "--consensus", "0.72", "--log", "e.db" },
        } do
            local log = case[#case]
            local r, object = ask(dir, "ask", "--json", "--model", "script:m.lua",
                "How many?", table.unpack(case, 4))
            assert.equal(0, r.status, r.err)
            assert.same({ "14", case[1], case[2], case[3] }, { object.answer, object.stop_reason,
                object.spent.calls, type(object.result) == "table" and object.result.saved or nil },
                log)
            if type(object.result) == "table" then
                assert.equal(case[2] + case[3] + (log == "c.db" and 4 or 0),
                    object.result.calls + object.result.saved)
                assert.equal("14", object.result.distribution[1].answer)
            end
            if log == "e.db" then assert.equal(1, object.result.cancelled) end
            for _, command in ipairs { "replay", "resume" } do
                local _, again = ask(dir, command, log)
                assert.same({ object.answer, object.result }, { again.answer, again.result }, log)
            end
        end
        local r = ask(dir, "ask", "--model", "script:m.lua", "--n", "40", "--stop-at", "0.9", "?")
        assert.matches("ponder ask: sure, 2 answers, best [%d.]+, 9 calls, .*31 of 40 samples "
            .. "saved", r.err)
    end)

    it("refuses what does not go together, with the names of flags", function()
        for message, flags in pairs {
            ["--stop-at needs several samples: give -n"] = { "--stop-at", "0.9" },
            ["--first must be at most -n, 2 (got 3)"] = { "--n", "2", "--first", "3" },
            ['--keep-share needs vote = "weighted"'] = { "--n", "2", "--keep-share", "0.5" },
        } do
            local r = shell.ponder { "cot", "--model", "script:x", table.unpack(flags) }
            assert.same({ 2, "ponder cot: " .. message .. "\n" }, { r.status, r.err })
        end
    end)

    it("is asked for answers that compare", function()
        local last
        model.register("cot-spec", { call = function(request)
            last = request.messages
            return "<answer>4</answer>"
        end })
        for n, is_brief in pairs { false, true } do
            local outcome = task.run(function()
                return require("ponder.strategy.cot").new { model = "cot-spec:m", n = n }:run "2+2?"
            end)
            assert.same({ "4", n }, { outcome.answer, outcome.spent.calls })
            assert.equal(is_brief, json.encode(last):find("shortest form", 1, true) ~= nil)
        end
    end)
end)

describe("ponder ask", function()
    local FILE = [[
        local strategy = require "ponder.strategy"
        return strategy.new { name = "mine", roles = { "generate" }, summary = "my own",
            options = { loud = { type = "boolean", default = false, help = "shout" } },
            prompts = { generate = function(context)
                return { { role = "user", content = "built in " .. context.question } }
            end },
            run = function(thinker, question)
                local text = thinker:prompt("generate", { question = question })
                return thinker.options.loud and text:upper() or text
            end }]]
    local MODEL = "return function(r) return r.messages[1].content end"

    it("has the strategy's options as flags", function()
        local dir <close> = shell.directory { ["s.lua"] = FILE, ["m.lua"] = MODEL }
        local r = dir:ponder { "ask", "--strategy=s.lua", "--model", "script:m.lua", "--loud",
            "Why?" }
        assert.same({ "BUILT IN WHY?\n", 0 }, { r.out, r.status })
        r = dir:ponder { "ask", "--strategy", "s.lua", "--help" }
        assert.matches("my own.*%-%-max%-cost.*%-%-loud +shout.*%-%-generate%-prompt TEXT", r.out)
    end)

    it("uses a prompt file with the strategy's name", function()
        local dir <close> = shell.directory { ["s.lua"] = FILE, ["m.lua"] = MODEL,
            ["p/mine.lua"] = "return { generate = function(c) return { { role = 'user', "
                .. "content = 'mine ' .. c.question } } end }" }
        local r = dir:ponder { "ask", "--strategy", "s.lua", "--model", "script:m.lua",
            "--prompts", "p", "Why?" }
        assert.equal("mine Why?\n", r.out)
        assert.matches("p/mine.lua overrides the built%-in prompts", r.err)
    end)

    it("has its prompts listed, shown, checked and copied", function()
        local TEXT = "local prompts = {}\n\nfunction prompts.generate(context)\n    return { { "
            .. "role = 'user', content = 'text of ' .. context.question } }\nend\n\n"
            .. "return prompts\n"
        local dir <close> = shell.directory { ["f.lua"] = FILE, ["m.lua"] = MODEL,
            ["s.lua"] = ([[return require("ponder.strategy").new { name = "mine",
                roles = { "generate" }, prompts = %q,
                samples = { generate = { { question = "Which?" } } },
                run = function(thinker, question)
                    return (thinker:prompt("generate", { question = question }))
                end }]]):format(TEXT) }
        local function prompts(command, operand, file)
            local arguments = { "prompts", command, "--strategy", file or "s.lua", operand }
            if command ~= "eject" then
                table.move({ "--prompts", "prompts" }, 1, 2, #arguments + 1, arguments)
            end
            return shell.ponder(arguments, { cwd = dir.path })
        end
        os.execute("mkdir " .. dir.path .. "/prompts")
        assert.matches("mine.generate +built in\n", prompts("list").out)
        assert.equal("[user]\ntext of Which?\n", prompts("show", "mine.generate").out)
        assert.equal(TEXT, prompts("show", "mine").out)
        assert.equal("mine: 1 prompt is fine (built in)\n", prompts("check", "mine").out)
        assert.equal("./prompts/mine.lua\n", prompts("eject", "mine").out)
        assert.equal(TEXT, dir:read "prompts/mine.lua")
        dir:write("prompts/mine.lua", (TEXT:gsub("context.question", "context.qestion")))
        assert.matches("context.qestion: no such field .did you mean context.question",
            prompts("check", "mine").out)
    end)

    it("names the script that has its prompts as functions", function()
        local dir <close> = shell.directory { ["f.lua"] = [[
            return require("ponder.strategy").new { name = "mine", roles = { "generate" },
                prompts = { generate = function() return {} end },
                run = function(thinker, question) return (thinker:ask(question)) end }]] }
        local r = dir:ponder { "prompts", "eject", "mine", "--strategy", "f.lua" }
        assert.same({ 1, "ponder prompts: the prompts of mine are functions of its script: move "
            .. "them to a prompt file, and give the strategy its text\n" }, { r.status, r.err })
    end)

    it("may have no prompts", function()
        local dir <close> = shell.directory { ["f.lua"] = [[
            return require("ponder.strategy").new { name = "plain", roles = { "generate" },
                run = function(thinker, question) return (thinker:ask(question)) end }]] }
        for command, expected in pairs { list = "tot.generate +built in",
            check = "plain: 0 prompts are fine" } do
            local r = dir:ponder { "prompts", command, "--strategy", "f.lua" }
            assert.same({ "", 0 }, { r.err, r.status })
            assert.matches(expected, r.out)
        end
    end)

    it("reports errors in its file", function()
        local dir <close> = shell.directory { ["none.lua"] = "return 5", ["bad.lua"] = "return (" }
        for file, expected in pairs { ["bad.lua"] = "bad.lua:1: unexpected symbol",
            ["none.lua"] = "none.lua: must return ponder.strategy.new{...}",
            ["gone.lua"] = "ponder ask: gone.lua: No such file" } do
            local r = dir:ponder { "ask", "--strategy", file, "?" }
            assert.equal(file == "gone.lua" and 2 or 1, r.status)
            assert.truthy(r.err:find(expected, 1, true), r.err)
        end
        local r = shell.ponder { "ask", "--strategy" }
        assert.equal(2, r.status)
        assert.matches("expected a strategy", r.err)
    end)
end)
