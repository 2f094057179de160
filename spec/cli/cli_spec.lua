-- The command line, run as a person would.

local shell = require "shell"

local function status(expected, r)
    assert.equal(expected, r.status, r.out .. r.err)
    return r
end

-- Runs and expects success; returns what was printed.
local function out(arguments, opts)
    return status(0, shell.ponder(arguments, opts)).out
end

-- Runs and expects a usage error of one line; returns it.
local function usage(arguments, opts)
    local r = status(2, shell.ponder(arguments, opts))
    assert.equal("", r.out)
    assert.matches("^[^\n]*\n$", r.err)
    return (r.err:gsub("\n$", ""))
end

-- The values of arg, from the lowest index on, then `...`.
local SHOW_ARG = [[
local low = 0
while arg[low - 1] do low = low - 1 end
for i = low, #arg do io.write(i, "=", arg[i], " ") end
print("|", ...)
]]

describe("ponder run", function()
    it("runs a file, standard input, and code", function()
        local dir <close> = shell.directory { ["a.lua"] = "print('file', ...)" }
        assert.equal("file\tx\n", out { "run", dir.path .. "/a.lua", "x" })
        assert.equal("file\tx\n", out { dir.path .. "/a.lua", "x" })
        assert.equal("file\tx\n", out({ "a.lua", "x" }, { cwd = dir.path }))
        assert.equal("file\tx\n", out { "--", dir.path .. "/a.lua", "x" })
        assert.equal("in\tx\n", out({ "run", "-", "x" }, { input = "print('in', ...)" }))
        assert.equal("in\tx\n", out({ "-", "x" }, { input = "print('in', ...)" }))
        assert.equal("code\tx\n", out { "-e", "print('code', ...)", "x" })
        assert.equal("code\n", out { "run", "-e", "print('code', ...)" })
        assert.equal("", out { "-e", "" })
        assert.equal("", out({ "-" }, { input = "" }))
    end)

    it("runs a pipe", function()
        local r = shell.run(("mkfifo $OUT.fifo; echo 'print(1, ...)' >$OUT.fifo & "
            .. "%s $OUT.fifo x >$OUT 2>$ERR; status=$?; rm $OUT.fifo; exit $status")
            :format(shell.executable))
        assert.equal("1\tx\n", status(0, r).out)
        assert.equal("2\n", out({ "/dev/stdin" }, { input = "print(2)" }))
    end)

    it("sets arg and ... as lua5.4 does", function()
        local dir <close> = shell.directory { ["a.lua"] = SHOW_ARG }
        local ponder = shell.executable
        local lua = shell.run(("cd %s && lua5.4 a.lua x -y --json '' >$OUT"):format(dir.path)).out
        assert.equal((lua:gsub("lua5%.4", (ponder:gsub("%%", "%%%%")))),
            out({ "a.lua", "x", "-y", "--json", "" }, { cwd = dir.path }))
        assert.equal(("-2=%s -1=run 0=a.lua 1=x |\tx\n"):format(ponder),
            out({ "run", "a.lua", "x" }, { cwd = dir.path }))
        assert.equal(("-3=%s -2=run -1=--json 0=a.lua 1=x |\tx\nnull\n"):format(ponder),
            out({ "run", "--json", "a.lua", "x" }, { cwd = dir.path }))
        assert.equal(("-1=%s 0=- 1=x |\tx\n"):format(ponder),
            out({ "-", "x" }, { input = SHOW_ARG }))
        assert.equal(ponder .. "\t-e\tx\ty\t2\n",
            out { "-e", "print(arg[-2], arg[-1], arg[1], arg[2], #arg)", "x", "y" })
    end)

    it("takes thousands of arguments", function()
        local dir <close> = shell.directory {
            ["a.lua"] = "print(#arg, select('#', ...), arg[50000])" }
        local r = shell.run(("%s %s/a.lua $(seq 50000) >$OUT 2>$ERR"):format(
            shell.executable, dir.path))
        assert.equal("50000\t50000\t50000\n", status(0, r).out)
    end)

    it("skips a first line with # and a byte order mark, in files and standard input", function()
        local text = "\xEF\xBB\xBF#!/usr/bin/env ponder\nprint(debug.getinfo(1).currentline)"
        local dir <close> = shell.directory { ["bom.lua"] = text, ["only.lua"] = "#!/bin/x" }
        assert.equal("2\n", out { dir.path .. "/bom.lua" })
        assert.equal("2\n", out({ "-" }, { input = text }))
        assert.equal("", out { dir.path .. "/only.lua" })
    end)

    it("has Lua's library, cjson and ponder's modules, and ignores Lua's environment", function()
        local code = [[
            for _, name in ipairs { "string", "utf8", "table", "math", "io", "os", "debug" } do
                assert(require(name) == _G[name])
            end
            print(require("cjson").encode { 1 }, require("cjson.safe").decode("["))
            print(type(require "ponder.search".run), type(require "ponder.task".run))
            print(package.path, package.cpath)]]
        local r = out({ "-e", code }, { env = { LUA_INIT = "print 'init'", LUA_PATH = "./?.lua" } })
        assert.matches('^%[1%]\tnil\tExpected[^\n]*\nfunction\tfunction\n\t\n$', r)
    end)

    it("prints what a script returns only with --json", function()
        local code = "return { b = { 1, 2.5 }, a = {} }"
        assert.equal("", out { "-e", code })
        assert.equal('{"a":{},"b":[1,2.5]}\n', out { "--json", "-e", code })
        assert.equal('{"a":{},"b":[1,2.5]}\n', out { "run", "-e", code, "--json" })
        assert.equal('"--json"\n', out { "--json", "-e", "return ...", "--", "--json" })
        -- A search scores dead ends -math.huge; JSON has no infinity.
        assert.equal("[1.7976931348623157e+308,[],{}]\n",
            out { "--json", "-e", 'return { 1 / 0, require("ponder.json").array {}, {} }' })
        assert.equal("null\n", out { "--json", "-e", "" })
        local r = status(1, shell.ponder { "--json", "-e", "return { a = { print } }" })
        assert.equal("ponder: --json: value.a[1]: a function cannot be JSON\n", r.err)
    end)

    it("prints the result of a search as JSON", function()
        local text = out { "--json", "-e", [[return require "ponder.search".run {
            initial_state = 1, expand = function(n) return { n * 2 } end,
            evaluate = function(n) return n end, is_terminal = function(n) return n == 8 end }]] }
        assert.matches('"best_path":%[1,2,4,8%]', text)
        assert.matches('"nodes":%[{"depth":0,"id":0,', text)
    end)
end)

describe("ponder, asked for help,", function()
    it("shows every command, and the usage of each", function()
        for _, arguments in ipairs { { "--help" }, { "-h" }, { "help" } } do
            local text = out(arguments)
            for _, command in ipairs { "chat", "models", "repl", "run" } do
                assert.matches("\n  ponder " .. command .. " +%a", text)
                local usage_text = out { command, "--help" }
                assert.matches("^ponder " .. command, usage_text)
                assert.equal(usage_text, out { command, "-h" })
                assert.equal(usage_text, out { "help", command })
                for line in usage_text:gmatch("[^\n]+") do
                    assert(#line <= 100, line)
                end
            end
        end
    end)

    it("shows its version", function()
        assert.matches("^ponder %d+%.%d+%.%d+\n$", out { "--version" })
        assert.equal(out { "--version" }, out { "-v" })
    end)

    it("shows the help on standard error without arguments", function()
        local r = status(2, shell.ponder {})
        assert.equal("", r.out)
        assert.matches("\n  ponder run ", r.err)
    end)
end)

describe("an option of ponder run after the script", function()
    local function notice(flag)
        return ("ponder run: %s is passed to the script; to limit or change the run, write it "
            .. "before a.lua\n"):format(flag)
    end

    -- What `ponder a.lua ARG...` writes to standard error.
    local function written(text, ...)
        local dir <close> = shell.directory { ["a.lua"] = text }
        local r = status(0, dir:ponder { "a.lua", ... })
        assert.equal(table.concat({ ... }, "\t") .. "\n", r.out)
        return r.err
    end

    it("is an argument of the script, which a notice says", function()
        assert.equal(notice "--max-cost", written("print(...)", "--max-cost", "1"))
        assert.equal(notice "--max-calls" .. notice "--json",
            written("-- ponder --max-calls 1 a.lua\nprint(...)", "x", "--max-calls=5", "--json"))
        assert.matches("PONDER_MODEL=NAME ponder run FILE\n$",
            written("print(...)", "--model", "m"))
    end)

    it("gets no notice if the script may read it, or it is none", function()
        assert.equal("", written("print(...)", "--max", "-e", "--", "--max-cost", "1"))
        assert.equal("", written("print(... ~= '--json' and 1 or ...)", "--json"))
        assert.equal("", written([[
            require("ponder.args").script("a", { ... }, { max_cost = { value = "USD" } })
            print(...)]], "--max-cost", "1"))
    end)
end)

describe("a file that is not a program", function()
    it("is named without its control characters", function()
        local dir <close> = shell.directory { ["\27[2Jx"] = "=" }
        local r = status(1, dir:ponder { "\27[2Jx" })
        assert.matches("^ponder: %?%[2Jx:1: unexpected symbol", r.err)
    end)

    it("is said to be for another command", function()
        for code, command in pairs {
            ["return function() end"] = "ponder serve FILE",
            ["return require('ponder.strategy.cot')"] = "ponder ask --strategy FILE",
            ["return { data = {}, policies = {} }"] = "ponder eval FILE" } do
            local r = status(command == "ponder serve FILE" and 0 or 2,
                shell.ponder { "-e", code })
            assert.same("", r.out)
            assert.matches("^ponder run: the script returned an? %l+: [^\n]+\n$", r.err)
            assert.truthy(r.err:find(command, 1, true), r.err)
        end
        assert.equal("", status(0, shell.ponder { "-e", "return {}" }).err)
        local r = status(2, shell.ponder { "run", "scripts/strategies/rsa.lua" })
        assert.truthy(r.err:find("ponder ask --strategy scripts/strategies/rsa.lua", 1, true))
    end)
end)

describe("a deep traceback of ponder", function()
    it("says how many levels it skips", function()
        local found = {}
        for depth = 6, 20 do
            local r = status(1, shell.ponder { "-e", ([[
                local function f(n) if n == 0 then error 'x' end f(n - 1) return 1 end
                f(%d)]]):format(depth) })
            found[#found + 1] = r.err:match "%(skipping (%d+ levels?)%)"
        end
        assert.equal("1 level, 2 levels, 3 levels", table.concat(found, ", ", 1, 3))
    end)
end)

describe("a usage error of ponder", function()
    for _, case in ipairs {
        { "ponder: runn: No such file or directory (did you mean the command run?)", "runn" },
        { "ponder: rpel: No such file or directory (did you mean the command repl?)", "rpel" },
        { "ponder: xyzzyx: No such file or directory (ponder --help lists the commands)",
            "xyzzyx" },
        { "ponder: : No such file or directory", "" },
        { "ponder: /: expected a script (got: Is a directory)", "run", "/" },
        { "ponder run: expected a script: ponder run FILE|- [ARG...]", "run" },
        { "ponder run: expected a script: ponder run FILE|- [ARG...]", "--json" },
        { "ponder run: unknown option --max-memory (did you mean --max-memory-mb?)",
            "run", "--max-memory", "5", "x.lua" },
        { "ponder run: unknown option --model; to name the model of a script without such an "
            .. "option: PONDER_MODEL=NAME ponder run FILE", "run", "--model", "m", "x.lua" },
        { "ponder run: unknown option --verison (did you mean --version?)", "--verison" },
        { "ponder run: unknown option --version", "run", "--version" },
        { "ponder run: --help must come first", "run", "--json", "--help" },
        { "ponder run: unknown option -x", "-x" },
        { "ponder run: -e needs a value: -e CODE", "-e" },
        { "ponder run: --json does not take a value", "--json=1", "x.lua" },
        { 'ponder run: --max-memory-mb must be an integer from 1 to 1073741824 (got "")',
            "--max-memory-mb=", "x.lua" },
        { "ponder repl: expected no argument (got x)", "repl", "x" },
        { "ponder repl: unknown option --json", "repl", "--json" },
    } do
        it("says: " .. case[1], function()
            assert.equal(case[1], usage { table.unpack(case, 2) })
        end)
    end

    -- Each command line, and the flag that would do nothing there.
    for line, message in pairs {
        ["show --search 3"] = "--search needs --tree or --node",
        ["show --calls --search 3"] = "--search has no effect with --calls",
        ["diff --all --json a b"] = "--all has no effect with --json",
        ["export --format json --otlp http://x"] = "--otlp has no effect with --format json",
        ["run --no-log --keep 3 x.lua"] =
            "--keep needs the run's log, which --no-log turns off",
        ["eval --no-log --sync full x.lua"] =
            "--sync needs the run's log, which --no-log turns off",
        ["chat --log new.db --keep 3 ?"] = "--keep is about logs made without --log",
        ["tot --in-flight cancel ?"] =
            "--in-flight needs a limit: --max-calls, --max-total-tokens or --max-cost",
        ["cot --tool-timeout-ms 3s ?"] = "--tool-timeout-ms needs --tools or --mcp",
        ["chat --model script:x --max-tool-round-trips 3 ?"] =
            "--max-tool-round-trips needs --tools or --mcp",
        ["serve --sync full tot"] = "--sync needs --log",
        ["serve --log-max-runs 3 tot"] = "--log-max-runs needs --log",
        ["mcp --reload tot"] = "--reload needs a policy in a file",
        ["queue --watch --json"] = "--watch or --json, not both",
        ["queue --queue q --dead --drop all"] = "--dead or --drop, not both",
        ["queue --queue q --purge --watch"] = "--watch has no effect with --purge",
        ["queue redis://x b"] = "expected at most one URL (got b)",
        ["work redis://x b"] = "expected at most one URL (got b)",
        ["doctor --verbose redis://x"] = "--verbose has no effect with the URL of a Redis",
        ["prompts eject --prompts x"] = "--prompts has no effect with eject",
        ["prompts --force"] = "--force has no effect with list",
        ["doc --all search"] = "--all lists modules: leave out the name",
    } do
        it("is a flag that would do nothing: " .. line, function()
            local words = {}
            for word in line:gmatch "%S+" do
                words[#words + 1] = word
            end
            assert.equal(("ponder %s: %s"):format(words[1], message), usage(words))
        end)
    end

    it("is shown without control characters", function()
        assert.equal("ponder: ?[2Jx: No such file or directory", usage { "\27[2Jx" })
        assert.equal("ponder run: unknown option --?]0;x?", usage { "run", "--\27]0;x\7" })
    end)

    it("is a file that cannot be read", function()
        assert.equal("ponder: /proc/self/mem: expected a script (got: Input/output error)",
            usage { "/proc/self/mem" })
    end)
end)

describe("a script that returns nil or false and a message", function()
    it("fails with the message and the code, whatever the limits and the output", function()
        for _, flags in ipairs { {}, { "--json" }, { "--max-calls", "5" },
            { "--timeout", "20s" } } do
            local arguments = { "run", "--no-log" }
            table.move(flags, 1, #flags, 3, arguments)
            table.move({ "-e", 'return nil, "it failed", "CODE"' }, 1, 2, #arguments + 1, arguments)
            local r = shell.ponder(arguments)
            assert.same({ 1, "", "ponder: it failed [CODE]\n" }, { r.status, r.out, r.err })
        end
        local r = shell.ponder { "-e", "return require('ponder.search').run { initial_state = 1, "
            .. "expand = function() return nil, 'no way', 'LOST' end, evaluate = function() "
            .. "return 1 end, is_terminal = function() return false end }" }
        assert.same({ 1, "" }, { r.status, r.out })
        assert.matches("^ponder: .*no way", r.err)
        for returned, message in pairs { ["false, 'no'"] = "no",
            ["nil, { message = 'no', code = 'A' }"] = "no [A]",
            ["nil, { list = 1 }, 'B'"] = "a table value was returned: { list = 1 } [B]" } do
            r = shell.ponder { "-e", "return " .. returned }
            assert.same({ 1, ("ponder: %s\n"):format(message) }, { r.status, r.err })
        end
        assert.equal(0, shell.ponder({ "-e", "return nil" }).status)
        assert.equal(0, shell.ponder({ "-e", "return 1, 'fine'" }).status)
    end)

    it("has failed in its log, and fails again when it is replayed", function()
        local dir <close> = shell.directory {
            ["m.lua"] = "return function() return { text = 'x' } end",
            ["a.lua"] = "assert(require('ponder.model').open('script:m.lua'):complete('q'))\n"
                .. "return nil, 'it failed', 'CODE'" }
        local r = dir:ponder { "run", "--log", "a.db", "a.lua" }
        assert.same({ 1, "ponder: it failed [CODE]\n" }, { r.status, r.err })
        r = dir:ponder { "show", "a.db" }
        assert.matches("failed.*it failed %[CODE%]", r.out)
        r = dir:ponder { "replay", "a.db" }
        assert.same({ 1, "ponder: it failed [CODE]\n" }, { r.status, r.err })
    end)
end)

describe("a script's error", function()
    -- Runs code that raises; returns standard error.
    local function failure(arguments, opts)
        local r = status(1, shell.ponder(arguments, opts))
        assert.equal("", r.out)
        return r.err
    end

    it("shows message and traceback with the script's own frames first", function()
        local dir <close> = shell.directory { ["a.lua"] = [[
            local function inner() error("boom") end
            local function outer() inner() return 1 end
            outer()]] }
        assert.matches("^ponder: a.lua:1: boom\nstack traceback:\n"
            .. "\ta.lua:1: in upvalue 'inner'\n\ta.lua:2: in local 'outer'\n"
            .. "\ta.lua:3: in main chunk\n\t%[C%]: in function 'error'\n",
            failure({ "a.lua" }, { cwd = dir.path }))
    end)

    it("names its line, or its function, for arguments of a call by `return`", function()
        local wrong = "m:complete('q', { temprature = 1 })"
        for code, place in pairs {
            ["\nreturn require('ponder.search').run {\n k = 0 }"] = "a.lua:2: search.run: ",
            ["return require('ponder.model').open('x', { n = 0 })"] = "a.lua:1: model.open: ",
            ["return require('ponder.eval').run {}"] = "a.lua:1: eval: ",
            ["return require('ponder.strategy.tot').new { n = 0 }"] = "a.lua:1: strategy.tot.new: ",
            ["return require('ponder.ensemble').best_of_n {}"] = "a.lua:1: ensemble.best_of_n: ",
            ["return require('ponder.process').run {}"] = "a.lua:1: process.run: ",
            ["local function f()\n return require('ponder.search').run {}\nend\nf()"] =
                "a.lua:4: search.run: ",
            ["local m = require('ponder.model').open 'script:m.lua'\n"
                .. "require('ponder.task').map({ 1 }, function()\n return " .. wrong .. " end)"] =
                "in the function at a.lua:2: model.complete: ",
            ["local m = require('ponder.model').open 'script:m.lua'\n"
                .. "require('ponder.task').timeout(9, function()\n return " .. wrong .. " end)"] =
                "in the function at a.lua:2: model.complete: ",
        } do
            local dir <close> = shell.directory { ["a.lua"] = code,
                ["m.lua"] = "return function() return 'fine' end" }
            local message = failure({ "a.lua" }, { cwd = dir.path })
            assert.equal("ponder: " .. place, message:sub(1, #"ponder: " + #place))
        end
        local dir <close> = shell.directory { ["m.lua"] = "return function() return 'fine' end",
            ["e.lua"] = "local m = require('ponder.model').open 'script:m.lua'\n"
                .. "return { name = 'e', data = { { id = 'a', question = 'q', target = 't' } },\n"
                .. "policies = { a = function() return " .. wrong .. " end }, score = 'exact' }" }
        local r = dir:ponder { "eval", "--no-log", "e.lua" }
        assert.matches("in the function at e.lua:3: model.complete: ", r.out .. r.err)
        dir:write("s.lua", "return require('ponder.strategy').new { name = 'mine', summary = 's',\n"
            .. "roles = { 'generate' }, prompts = { generate = function() return {} end },\n"
            .. "run = function(thinker)\n return thinker:node {} end }")
        r = dir:ponder { "ask", "--no-log", "--model", "script:m.lua", "--strategy", "s.lua", "q" }
        assert.matches("^ponder: in the function at s.lua:3: thinker:node: ", r.err)
    end)

    it("ends the traceback at the script, not in the program that runs it", function()
        local main = "stack traceback:\n\t%(command line%):1: in main chunk\n"
        assert.matches("^ponder: %(command line%):1: attempt [^\n]*\n" .. main .. "$",
            failure { "-e", "local x = nil; x.y()" })
        assert.matches("^ponder: nil was raised\n" .. main .. "\t%[C%]: in function 'error'\n$",
            failure { "-e", "error()" })
        assert.matches("unknown option[^\n]*\n" .. main .. "\t%[C%]: [^\n]*\n.*"
            .. "\tponder/search.lua:%d+: in function 'ponder.search.run'\n$",
            failure { "-e", "require('ponder.search').run { intial_state = 1 }" })
    end)

    it("has one traceback, however many protected calls it passes", function()
        local dir <close> = shell.directory { ["a.lua"] = [[
            local search, task = require "ponder.search", require "ponder.task"
            local function expand(n) return n.x.y end
            task.map({ 1, 2 }, function() return search.run { initial_state = 1, expand = expand,
                evaluate = function() return 1 end, is_terminal = rawequal,
                concurrency = 2 } end)]] }
        local err = failure({ "a.lua" }, { cwd = dir.path })
        assert.equal(1, select(2, err:gsub("stack traceback:", "")))
        assert.matches("^ponder: search.run: expand raised [^\n]*a.lua:2: attempt [^\n]*\n"
            .. "stack traceback:\n\ta.lua:2: ", err)
    end)

    it("shows where tasks and strategies raised an error table", function()
        local dir <close> = shell.directory { ["model.lua"] = "return function() return '' end",
            ["map.lua"] = [[
            local function inner() error { code = 5 } end
            require("ponder.task").map({ 1, 2 }, function() inner() end)]],
            ["search.lua"] = [[
            local function inner() error { code = 5 } end
            require("ponder.search").run { initial_state = 1, concurrency = tonumber(...),
                expand = function() inner() end, evaluate = function() return 1 end,
                is_terminal = function() return false end }]],
            ["strategy.lua"] = [[
            return require("ponder.strategy").new { name = "odd", roles = { "ask" },
                run = function() error { code = 5 } end }]] }
        local HEAD = "^ponder: a table value was raised: { code = 5 }\nstack traceback:\n"
        assert.matches(HEAD .. "\tmap.lua:1: in upvalue 'inner'\n\tmap.lua:2: ",
            failure({ "map.lua" }, { cwd = dir.path }))
        for _, concurrency in ipairs { "1", "2" } do
            local from = "ponder: search.run: expand raised for node 0 at depth 0: "
            assert.matches(HEAD:gsub("ponder: ", from)
                .. "\tsearch.lua:1: in upvalue 'inner'\n\tsearch.lua:3: ",
                failure({ "search.lua", concurrency }, { cwd = dir.path }))
        end
        assert.matches(HEAD .. "\tstrategy.lua:2: ", failure({ "ask", "--strategy",
            "strategy.lua", "--model", "script:model.lua", "why" }, { cwd = dir.path }))
    end)

    it("keeps lines of the message that look like a traceback", function()
        assert.matches("^ponder: %(command line%):1: a\n\t%[C%]: x\n\tb\nstack traceback:\n",
            failure { "-e", [[error "a\n\t[C]: x\n\tb"]] })
    end)

    it("names file and line of a syntax error, in one line", function()
        local dir <close> = shell.directory { ["a.lua"] = "local x = 1\nx = = 2" }
        assert.equal("ponder: a.lua:2: unexpected symbol near '='\n",
            failure({ "a.lua" }, { cwd = dir.path }))
        assert.equal("ponder: stdin:1: unexpected symbol near '='\n",
            failure({ "-" }, { input = "x = = 1" }))
        assert.equal("ponder: (command line):1: unexpected symbol near '='\n",
            failure { "-e", "x = = 1" })
    end)

    for value, shown in pairs {
        ["12"] = "12", ["nil"] = "nil was raised", ["{}"] = "a table value was raised",
        ["print"] = "a function value was raised",
        ["setmetatable({}, { __tostring = function() return 'mine' end })"] = "mine",
        ["setmetatable({}, { __tostring = function() error 'x' end })"] =
            "a table value was raised",
        ["setmetatable({}, { __tostring = function() return {} end })"] =
            "a table value was raised",
        ["setmetatable({}, { __metatable = 5 })"] = "a table value was raised",
        ["{ code = 5, message = 'no\\nmore', [1] = {}, [true] = print }"] = "a table value was "
            .. "raised: { [1] = a table, [true] = a function, code = 5, message = \"no\\",
    } do
        it(("may be any value: %s"):format(value), function()
            local first = failure({ "-e", "error(" .. value .. ")" }):match("^[^\n]*")
            assert.equal("ponder: " .. shown, first)
        end)
    end

    it("is shown even if the script has changed Lua's library", function()
        assert.matches("^ponder: %(command line%):6: mine\n", failure { "-e", [[
            local raise = error
            for _, library in pairs { string, debug, io, os } do
                for name in pairs(library) do library[name] = nil end
            end
            io, debug, print, xpcall, tostring, type, require = nil
            raise("mine")]] })
        assert.matches("^ponder: %(command line%):1: strict", failure { "-e",
            "setmetatable(_G, { __index = error, __newindex = error }) error 'strict'" })
    end)

    it("may be runaway recursion", function()
        assert.matches("^ponder: %(command line%):1: stack overflow",
            failure { "-e", "local function f() return 1 + f() end f()" })
        assert.matches("C stack overflow", failure { "-e",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) "
            .. "return s[k .. 'x'] end return t.x" })
    end)

    it("is reported once if it is in a task that nobody joined", function()
        local err = failure { "-e", [[
            local task = require "ponder.task"
            task.spawn(function() error("lost") end)
            task.sleep(0.01)]] }
        assert.matches("^ponder: unhandled error in task 2: %(command line%):2: lost\n"
            .. "stack traceback:\n\t%(command line%):2: ", err)
        assert.matches("\nponder: unhandled error in 1 task\n$", err)
        assert.equal(1, select(2, err:gsub("lost", "")))
    end)

    it("names callback, node and depth if it is in a callback of a search", function()
        assert.matches("^ponder: search.run: evaluate raised for node 1 at depth 1: "
            .. "%(command line%):2: bad state\nstack traceback:\n\t%(command line%):2: ",
            failure { "-e", [[require "ponder.search".run { initial_state = 1,
                evaluate = function(n) if n > 1 then error("bad state") end return n end,
                expand = function(n) return { n + 1 } end, is_terminal = rawequal }]] }
                :gsub("%[string[^%]]*%]", ""))
    end)
end)

describe("require in a script", function()
    local files = {
        ["main.lua"] = "print(require 'mod', require 'sub.inner', (require 'pkg'))",
        ["mod.lua"] = "return 'mod'",
        ["sub/inner.lua"] = "return (...)",
        ["pkg/init.lua"] = "return 'pkg'",
        ["syntax.lua"] = "x = = 1",
        ["raises.lua"] = "error 'in module'",
        ["dir.lua/x"] = "",
        ["ponder/search.lua"] = "return 'shadow'",
        ["ponder/mine.lua"] = "return 'shadow'",
        ["ponder.lua"] = "return 'shadow'",
        ["cjson.lua"] = "return 'shadow'",
        ["string.lua"] = "return 'shadow'",
        ["elsewhere/stray.lua"] = "return 'stray'",
        ["binary.lua"] = string.dump(function() end),
    }

    it("finds files beside the script, from wherever it is started", function()
        local dir <close> = shell.directory(files)
        local expected = "mod\tsub.inner\tpkg\n"
        assert.equal(expected, out({ "main.lua" }, { cwd = dir.path }))
        assert.equal(expected, out({ dir.path .. "/main.lua" }, { cwd = "/" }))
        assert.equal(expected, out({ "../main.lua" }, { cwd = dir.path .. "/sub" }))
        shell.run(("ln -s ../main.lua %s/elsewhere/link.lua"):format(dir.path))
        assert.equal(expected, out({ "link.lua" }, { cwd = dir.path .. "/elsewhere" }))
        assert.equal(expected, out { dir.path .. "/elsewhere/link.lua" })
    end)

    it("does not find files of the working directory", function()
        local dir <close> = shell.directory(files)
        dir:write("find.lua", "print(pcall(require, ...))")
        local text = out({ "../find.lua", "stray" }, { cwd = dir.path .. "/elsewhere" })
        assert.matches("^false\tmodule 'stray' not found:", text)
        assert.matches("no file '[^\n]*/stray.lua' beside the script", text)
        for _, name in ipairs { "./stray", "../stray", dir.path .. "/elsewhere/stray" } do
            assert.matches("^false", out({ "../find.lua", name },
                { cwd = dir.path .. "/elsewhere" }))
        end
        for _, arguments in ipairs { { "-e", "require 'stray'" }, { "-" } } do
            local r = status(1, shell.ponder(arguments,
                { cwd = dir.path .. "/elsewhere", input = "require 'stray'" }))
            assert.matches("no script directory to search", r.err)
        end
    end)

    it("cannot be given another ponder, cjson or string", function()
        local dir <close> = shell.directory(files)
        dir:write("main.lua", [[
            print(type(require "ponder.search"), type(require "cjson"), require "string" == string)
            print((pcall(require, "ponder.mine")), (pcall(require, "ponder")))]])
        assert.equal("table\ttable\ttrue\nfalse\tfalse\n", out { dir.path .. "/main.lua" })
    end)

    it("reports errors in a module", function()
        local dir <close> = shell.directory(files)
        dir:write("find.lua", "print(select(2, pcall(require, ...)))")
        for name, expected in pairs {
            syntax = "cannot load module 'syntax': .*/syntax.lua:1: unexpected symbol near '='",
            raises = "/raises.lua:1: in module",
            binary = "cannot load module 'binary': .*attempt to load a binary chunk",
            dir = "cannot load module 'dir': cannot read .*/dir.lua: Is a directory",
        } do
            assert.matches(expected, out { dir.path .. "/find.lua", name })
        end
    end)
end)
