local help = require "task_help"
local options = require "ponder.base.options"

describe("ponder.base.options", function()
    local schema = {
        k = { type = "integer", min = 1, default = 1 },
        beam_width = { type = "integer", min = 1 },
        max_depth = { type = "integer", min = 0, default = 8 },
        share = { type = "number", min = 0, max = 1 },
        seconds = { type = "number", finite = true },
        score = { type = "number" },
        search = { type = "string", default = "bfs",
            enum = { "bfs", "dfs", "beam", "best_first" } },
        expand = { type = "function" },
        stop = { type = { "string", "table" } },
        flag = { type = "boolean", default = true },
        state = { type = "any" },
        at_most = { type = { "integer", "boolean" }, max = 9 },
    }

    -- Stands in for a public function: `run(opts)` is what a user's line calls.
    local function run(opts, rules)
        local checked = options.check("search.run", opts, rules or schema)
        return checked
    end

    local function complaint(opts, rules)
        local ok, message = pcall(function() run(opts, rules) end)
        assert.is_false(ok)
        local place, text = message:match("^(.-:%d+): (.*)$")
        assert.truthy(place:find("options_spec.lua", 1, true))
        assert.is_nil(text:find("\n", 1, true))
        return text
    end

    it("fills defaults, keeps what was given, and leaves the user's table alone", function()
        local given = { beam_width = 5, flag = false, state = false, stop = "x" }
        local checked = run(given)
        assert.same({ k = 1, beam_width = 5, max_depth = 8, search = "bfs", flag = false,
            state = false, stop = "x" }, checked)
        assert.same({ beam_width = 5, flag = false, state = false, stop = "x" }, given)
        assert.are_not.equal(given, checked)
        assert.same({ k = 1, max_depth = 8, search = "bfs", flag = true }, run(nil))
    end)

    it("turns whole floats into integers", function()
        local checked = run { k = 3.0, at_most = 2.0, share = 1 }
        assert.equal("integer", math.type(checked.k))
        assert.equal("integer", math.type(checked.at_most))
        assert.equal(3, checked.k)
        assert.equal(1, checked.share)
    end)

    for _, case in ipairs {
        { { k = 0 }, "search.run: opts.k must be an integer >= 1 (got 0)" },
        { { k = 1.5 }, "search.run: opts.k must be an integer >= 1 (got 1.5)" },
        { { k = "3" }, 'search.run: opts.k must be an integer >= 1 (got "3")' },
        { { k = 0 / 0 }, "search.run: opts.k must be an integer >= 1 (got nan)" },
        { { k = math.huge }, "search.run: opts.k must be an integer >= 1 (got inf)" },
        { { k = 2 ^ 63 }, "search.run: opts.k must be an integer >= 1 (got 9.2233720368548e+18)" },
        { { k = {} }, "search.run: opts.k must be an integer >= 1 (got a table)" },
        { { share = 1.01 }, "search.run: opts.share must be a number from 0 to 1 (got 1.01)" },
        { { seconds = -math.huge },
            "search.run: opts.seconds must be a finite number (got -inf)" },
        { { score = 0 / 0 }, "search.run: opts.score must be a number (got nan)" },
        { { at_most = 10 },
            "search.run: opts.at_most must be an integer <= 9 or a boolean (got 10)" },
        { { stop = 1 }, "search.run: opts.stop must be a string or a table (got 1)" },
        { { expand = {} }, "search.run: opts.expand must be a function (got a table)" },
        { { flag = 1 }, "search.run: opts.flag must be a boolean (got 1)" },
        { { search = "best-first" }, 'search.run: opts.search must be "bfs", "dfs", "beam" or '
            .. '"best_first" (got "best-first"; did you mean "best_first"?)' },
        { { search = "random" }, 'search.run: opts.search must be "bfs", "dfs", "beam" or '
            .. '"best_first" (got "random")' },
        { { search = 3 }, 'search.run: opts.search must be "bfs", "dfs", "beam" or '
            .. '"best_first" (got 3)' },
        { { beamwidth = 5 },
            'search.run: unknown option "beamwidth" (did you mean "beam_width"?)' },
        { { colour = 5 }, 'search.run: unknown option "colour"' },
        { { 5 }, "search.run: unknown option 1" },
        { { [{}] = 5 }, "search.run: unknown option a table" },
        { { zz = 1, aa = 1, k = 0 }, 'search.run: unknown option "aa"' },
        { 7, "search.run: opts must be a table (got 7)" },
        { false, "search.run: opts must be a table (got false)" },
    } do
        it("says: " .. case[2], function()
            assert.equal(case[2], complaint(case[1]))
        end)
    end

    it("reports missing options", function()
        local rules = {
            expand = { type = "function", required = true },
            state = { type = "any", required = true },
        }
        assert.equal("search.run: opts.expand must be a function (got nil)", complaint(nil, rules))
        assert.equal("search.run: opts.state must be given (got nil)",
            complaint({ expand = print }, rules))
        assert.is_false(run({ expand = print, state = false }, rules).state)
    end)

    it("shows hostile text on one short line", function()
        local text = complaint { search = 'a"\n\0' .. ("\u{20AC}"):rep(1000) }
        assert.truthy(text:find('(got "a\\"\\n\\x00', 1, true))
        assert.truthy(#text < 200)
        assert.truthy(utf8.len(text))
    end)

    it("reads the user's own defaults through __index", function()
        assert.equal(4, run(setmetatable({}, { __index = { k = 4 } })).k)
    end)

    it("refuses former names with the new ones", function()
        local rules = { width = { type = "integer", was = "columns" }, budget = { type = "table",
            fields = { max_cost = { type = "number", min = 0, was = "cost" } },
            was = { max_cost = "opts.budget.max_cost", timeout = "opts.budget.timeout_ms" } } }
        for message, opts in pairs {
            ["f: opts.columns is now opts.width"] = { columns = 1 },
            ["f: opts.max_cost is now opts.budget.max_cost"] = { max_cost = 1, width = 1 },
            ["f: opts.budget.cost is now max_cost"] = { budget = { cost = 1 } },
            ["f: opts.budget.max_cost must be a number >= 0 (got -1)"] =
                { budget = { max_cost = -1 } },
            ['f: opts.budget: unknown option "max_costs" (did you mean "max_cost"?)'] =
                { budget = { max_costs = 1 } },
            ["f: opts.budget must be a table (got 5)"] = { budget = 5 },
            ['f: unknown option "column"'] = { column = 1 },
        } do
            local ok, err = pcall(options.check, "f", opts, rules, 0)
            assert.same({ false, message }, { ok, err })
        end
        assert.same({ width = 2, budget = { max_cost = 3 } },
            options.check("f", { width = 2.0, budget = { max_cost = 3 } }, rules))
        assert.error_matches(function() options.argument("f", "x", { cost = 1 }, rules.budget) end,
            "f: x.cost is now max_cost")
    end)

    it("can report the error further up the stack", function()
        local function inner(opts) local _ = options.check("f", opts, schema, 3) end
        local function outer(opts) inner(opts) end
        local ok, message = pcall(function() outer { k = 0 } end)
        local line = debug.getinfo(1, "l").currentline - 1
        assert.is_false(ok)
        assert.truthy(message:find("options_spec.lua:" .. line .. ": f: opts.k", 1, true))
    end)
end)

describe("ponder.base.options.nearest", function()
    local names = { "k", "beam_width", "max_depth", "max_nodes", "on_event", "stop", "search" }

    for _, case in ipairs {
        { "beamwidth", "beam_width" }, { "beam-width", "beam_width" },
        { "beamWidth", "beam_width" },
        { "BEAM_WIDTH", "beam_width" }, { "width", "beam_width" }, { "maxdepth", "max_depth" },
        { "depth", "max_depth" }, { "max_node", "max_nodes" }, { "onevent", "on_event" },
        { "serach", "search" }, { "sotp", "stop" }, { "K", "k" }, { "stop", "stop" },
    } do
        it(("takes %s for %s"):format(case[1], case[2]), function()
            assert.equal(case[2], options.nearest(case[1], names))
        end)
    end

    it("suggests nothing if nothing is close", function()
        for _, name in ipairs { "", "j", "colour", "temperature", ("x"):rep(10000) } do
            assert.is_nil(options.nearest(name, names))
        end
        assert.is_nil(options.nearest("k", {}))
        assert.is_nil(options.nearest(nil, names))
        assert.is_nil(options.nearest({}, names))
    end)

    it("is not needed where several options are wrong: the first by name is reported", function()
        local rules, given = {}, {}
        for c in ("abcdefghijklmnop"):gmatch "." do
            rules[c], given[c] = { type = "integer" }, "wrong"
        end
        local _, message = pcall(options.check, "f", given, rules, 0)
        assert.equal('f: opts.a must be an integer (got "wrong")', message)
    end)

    it("gives ties to the first", function()
        assert.equal("abcx", options.nearest("abc", { "abcx", "abcy" }))
        assert.equal("abcy", options.nearest("abc", { "abcy", "abcx" }))
    end)
end)

describe("an argument", function()
    local function repeated(text, times)
        options.argument("repeated", "text", text, "string")
        return text:rep(options.argument("repeated", "times", times, { type = "integer", min = 1 }))
    end

    it("is normalized", function()
        assert.equal("aa", repeated("a", 2.0))
    end)

    it("that is wrong raises at the caller", function()
        help.mistakes {
            ["repeated: text must be a string %(got nil%)$"] = function() repeated() end,
            ["repeated: times must be an integer >= 1 %(got 0%)$"] = function()
                repeated("a", 0)
            end,
        }
    end)
end)

describe("the methods of a class", function()
    it("say how to call them if they are called with a dot", function()
        local Counter = {}
        Counter.__index = Counter
        function Counter:add(n) self.n = self.n + n; return self.n end
        options.methods(Counter, "counter", "a counter")
        local counter = setmetatable({ n = 1 }, Counter)
        assert.equal(3, counter:add(2))
        for _, first in ipairs { 2, {}, "x" } do
            help.mistakes { ["counter.add: call it with a counter, with a colon: "
                .. "counter:add%(...%)$"] = function() local _ = counter.add(first) end }
        end
    end)
end)

describe("an object of the library", function()
    it("says how its methods are called", function()
        local task = require "ponder.task"
        for object, methods in pairs {
            [task.semaphore(1)] = { semaphore = { "acquire", "release" } },
            [require("ponder.run").new {}] = { run = { "call", "cancel", "report", "spent" } },
            [require("ponder.strategy.cot").new { model = "script:m.lua" }] = { s = { "run" } },
            [require("ponder.serve.http.request").new({}, {})] = { request = { "write", "think" } },
        } do
            local name, list = next(methods)
            for _, method in ipairs(list) do
                assert.error_matches(function() object[method] "x" end,
                    ("%s.%s: call it with a %%l+, with a colon: %s:%s"):format(name, method, name,
                    method))
            end
        end
    end)
end)

describe("what can be called", function()
    it("is a function, or has a function as its own __call", function()
        local callable = setmetatable({}, { __call = print })
        assert.is_true(options.is_callable(print))
        assert.is_true(options.is_callable(callable))
        for _, meta in ipairs { {}, { __call = 5 }, setmetatable({}, { __index = error }),
            setmetatable({}, { __index = getmetatable(callable) }) } do
            local value = setmetatable({}, meta)
            assert.is_false(pcall(value))
            assert.is_false(options.is_callable(value))
        end
        assert.is_false(options.is_callable(nil))
        assert.is_false(options.is_callable "print")
    end)
end)
