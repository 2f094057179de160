-- How a run of ponder ends: exit statuses, lost output, memory, --timeout, --max-steps, signals.

local disk = require "failing_disk"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"

local function ends(expected, r)
    assert.equal(expected, r.status, r.out .. r.err)
    return r
end

-- A pattern that backtracks forever within one C function.
local STUCK = "string.find(('a'):rep(40), ('a-'):rep(40) .. 'b')"

-- Scripts that compute forever, and what they print when they are stopped.
local ENDLESS = {
    ["a loop"] = "while true do end",
    ["a loop that catches errors"] = "while true do pcall(function() while true do end end) end",
    ["a coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["a coroutine that catches errors"] = "local spin = function() while true do end end "
        .. "while true do coroutine.resume(coroutine.create(spin)) end",
    ["short coroutines"] = "while true do coroutine.wrap(function() end)() end",
    ["a task"] = "require('ponder.task').spawn(function() while true do pcall(error) end end) "
        .. "require('ponder.task').sleep(50)",
    ["tasks that take turns"] = "local task = require 'ponder.task' for _ = 1, 2 do "
        .. "task.spawn(function() while true do task.sleep(0) end end) end",
    ["a callback of C"] = "table.sort({ 3, 1, 2 }, function() while true do end end)",
    ["a search"] = "require('ponder.search').run { initial_state = 1, evaluate = math.abs, "
        .. "expand = function() while true do pcall(error) end end, is_terminal = rawequal }",
    ["a tool within its time"] = "local function spin() while true do end end "
        .. "require('ponder.strategy.tools').run({ { name = 'x', run = spin } }, "
        .. "{ name = 'x', arguments = {} }, { tool_timeout_ms = 1e9, tool_max_retries = 0 })",
}

describe("os.exit", function()
    for code, expected in pairs {
        ["os.exit()"] = 0, ["os.exit(true)"] = 0, ["os.exit(false)"] = 1, ["os.exit(3)"] = 3,
        ["os.exit(3, true)"] = 3,
        ["local task = require 'ponder.task' task.spawn(os.exit, 4) task.sleep(50)"] = 4,
        ["local task = require 'ponder.task' task.spawn(os.exit, 4, true) task.sleep(50)"] = 4,
        ["coroutine.wrap(os.exit)(5, true)"] = 5,
        ["setmetatable({}, { __gc = function() os.exit(6, true) end })"] = 6,
        ["local s = require 'ponder.search' local function f() os.exit(7, true) end s.run { "
            .. "initial_state = 1, expand = f, evaluate = f, is_terminal = f }"] = 7,
    } do
        it(("ends the process: %s"):format(code), function()
            local r = ends(expected, shell.ponder { "-e", "io.write('before') " .. code })
            assert.equal("before", r.out)
            assert.equal("", r.err)
        end)
    end
end)

describe("a failure has one status in all commands:", function()
    local SCRIPTS = "run %s|eval %s|serve %s|mcp %s|ask --strategy %s ?|chat --tools %s ?|"
        .. "cot --tools %s ?|work redis://127.0.0.1:1 --script %s|"
        .. "run --untrusted --allow-tool %s ok.lua|prompts list --strategy %s"
    local LOGS = "show %s|show --calls %s|view --no-open %s|diff %s %s|export --format json %s|"
        .. "resume %s|replay %s|fork %s|log %s|eval --rescore %s ok.lua|eval --compare %s %s"
    local MODELS = "chat --model %s ?|cot --model %s ?|serve chat --model %s|mcp tot --model %s"
    local dir
    setup(function()
        dir = shell.directory { ["ok.lua"] = "return 1", ["syntax.lua"] = "return (",
            ["raise.lua"] = "error 'boom'", ["dir/x"] = "",
            ["model.lua"] = "return function() return 'yes' end" }
        ends(0, dir:ponder { "chat", "--model", "script:model.lua", "--log", "run.db", "?" })
    end)
    teardown(function() dir:__close() end)

    for _, case in ipairs {
        { 2, "a run that its log lacks", LOGS, "run.db#9" },
        { 2, "a file that cannot be written", "run --log %s ok.lua|run --cache %s ok.lua|"
            .. "chat --log %s ?|tot --log %s ?|chat --cache %s ?|serve --log %s chat|"
            .. "mcp --log %s chat|eval --log %s ok.lua|eval --html %s ok.lua|"
            .. "eval --csv %s ok.lua|eval --junit %s ok.lua|fork --log %s run.db|"
            .. "export --format html --output %s run.db", "gone/x" },
        { 2, "a missing script", SCRIPTS, "gone.lua" }, { 2, "a directory", SCRIPTS, "dir" },
        { 1, "a script that cannot be compiled", SCRIPTS, "syntax.lua" },
        { 1, "a script that raises", SCRIPTS, "raise.lua" },
        { 2, "neither a file nor a run", LOGS, "gone" },
        { 2, "a directory as a log", LOGS, "dir" }, { 2, "not a run log", LOGS, "ok.lua" },
        { 1, "a model that cannot be opened", MODELS, "foo:bar" },
        { 1, "a missing scripted model", MODELS, "script:gone.lua" },
        { 2, "a missing directory of prompts", "cot --prompts %s ?|prompts list --prompts %s|"
            .. "trust %s", "gone" },
        { 2, "a log that exists", "run --log %s ok.lua|chat --log %s ?|serve --log %s chat",
            "ok.lua" },
        { 2, "a wrong Redis URL",
            "work %s --script ok.lua|queue %s|run --cache redis://%s/x ok.lua", ":" },
    } do
        it(case[2], function()
            for line in case[3]:gmatch "[^|]+" do
                local words = {}
                for word in line:gsub("%%s", case[4]):gmatch "%S+" do
                    words[#words + 1] = word
                end
                local r = shell.ponder(words, { cwd = dir.path, limit_s = 20,
                    env = { PONDER_MODEL = "script:model.lua" } })
                assert.same({ case[1], "" }, { r.status, r.out }, line .. ": " .. r.err)
                assert.matches("^ponder[ a-z]*: %S", r.err)
            end
        end)
    end
end)

describe("the end of a script", function()
    it("survives a finalizer that continues a search", function()
        local r = ends(0, shell.ponder { "-e", [[
            kept = setmetatable({}, { __gc = function()
                print(select(2, coroutine.resume(co, 1)))
            end })
            co = coroutine.create(require("ponder.search").run)
            coroutine.resume(co, { initial_state = 1, expand = function(n) return { n } end,
                evaluate = coroutine.yield, is_terminal = rawequal })]] })
        assert.matches("^search.run: the search is closed", r.out)
    end)
end)

describe("output that cannot be written", function()
    local NO_SPACE = "ponder: cannot write to standard output: No space left on device\n"
    local CANNOT = "^ponder: cannot write to standard output"

    for _, arguments in ipairs {
        { "--help" }, { "--version" }, { "-e", "print(1)" }, { "--json", "-e", "return {}" },
        { "-e", "io.write 'x' os.exit(0)" }, { "-e", "io.write 'x' os.exit(0, true)" },
        { "-e", "io.write(('x'):rep(1e6))" }, { "-e", "print(1) error 'too'" },
        { "-e", "io.stdout:setvbuf 'no' print(1)" },
    } do
        it("fails the run: " .. table.concat(arguments, " "), function()
            for _, to in ipairs { "/dev/full", "&-" } do
                local r = ends(1, shell.ponder(arguments, { to = to }))
                assert.matches("ponder: cannot write to standard output", r.err)
                assert.equal(1, select(2, r.err:gsub("cannot write", "")))
            end
        end)
    end

    it("is reported with the reason", function()
        assert.equal(NO_SPACE, shell.ponder({ "-e", "io.write(1)" }, { to = "/dev/full" }).err)
        assert.matches(CANNOT, shell.ponder({ "-e", "print(1)" }, { to = "&-" }).err)
    end)

    it("does not fail a run that prints nothing", function()
        ends(0, shell.ponder({ "-e", "return 1" }, { to = "/dev/full" }))
        ends(0, shell.ponder({ "-e", "return 1" }, { to = "&-" }))
    end)

    it("does not end up in a file that the script opens", function()
        local dir <close> = shell.directory()
        ends(1, shell.ponder({ "-e", [[
            local file = assert(io.open(..., "w"))
            print("for standard output")
            file:write("kept")]], dir.path .. "/file" }, { to = "&-" }))
        assert.equal("kept", dir:read("file"))
    end)

    it("ends a run if nothing reads its output any more", function()
        local r = shell.run(shell.quote(shell.executable)
            .. " -e 'while true do print(1) end' 2>$ERR | head -n 1 >$OUT")
        assert.same({ status = 0, out = "1\n", err = "" }, r)
        r = shell.run("{ trap '' PIPE; " .. shell.quote(shell.executable)
            .. " -e 'for i = 1, 1e6 do print(i) end'; echo $? >$OUT; } 2>$ERR "
            .. "| head -n 1 >/dev/null")
        assert.equal("1\n", r.out)
        assert.matches(CANNOT, r.err)
    end)

    it("and standard error may both be closed", function()
        ends(1, shell.run(shell.quote(shell.executable) .. " -e 'error(1)' >&- 2>&- <&-"))
        ends(0, shell.run(shell.quote(shell.executable)
            .. " -e 'assert(not io.read()) io.stderr:write(1)' >&- 2>&- <&-"))
    end)
end)

describe("--max-memory-mb", function()
    for _, code in ipairs {
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "('x'):rep(1 << 30)",
        "require('ponder.task').map({ 1, 2 }, function() return ('x'):rep(1 << 30) end)",
        "require('ponder.json').decode('[' .. ('1,'):rep(4e6) .. '1]')",
        "require('ponder.search').run { initial_state = 1, k = 2, max_depth = 100, evaluate = "
            .. "function(n) return n end, expand = function(n) return { n, n } end, "
            .. "is_terminal = function() return false end }",
    } do
        it("ends the script with a clear message: " .. code, function()
            local r = ends(1, shell.ponder { "--max-memory-mb", "20", "-e", code })
            assert.matches("not enough memory", r.err)
            assert.matches("20 MiB", r.err)
        end)
    end

    it("lets a script continue that handles it", function()
        local r = ends(0, shell.ponder { "--max-memory-mb=20", "-e", [[
            print(pcall(string.rep, "x", 1 << 30))
            print(#("x"):rep(1 << 20))]] })
        assert.equal("false\tnot enough memory\n1048576\n", r.out)
    end)
end)

describe("Ctrl-C", function()
    local READY = "io.stdout:setvbuf 'line' print 'ready' "

    local function interrupted(code, opts)
        local r = ends(130, shell.interrupt({ "-e", READY .. code }, opts))
        return r.err, (r.out:gsub("^ready\n", ""))
    end

    for what, code in pairs {
        ["a sleep in a coroutine"] =
            "coroutine.wrap(function() require('ponder.task').sleep(50) end)()",
        ["tasks"] = "local task = require 'ponder.task' for i = 1, 99 do "
            .. "task.spawn(function() while true do task.sleep(0.001) end end) end",
        ["a wait for standard input"] = "io.read()",
    } do
        it("ends " .. what, function()
            assert.equal("ponder: interrupted\n", (interrupted(code)))
        end)
    end

    -- A command that reads a pipe, which has begun and does not end.
    local READS = [[
        cd %s; mkfifo fifo; exec 3<>fifo; echo "-- begun" >&3
        PONDER_MODEL=ollama:x %s %s <fifo >$OUT 2>$ERR & pid=$!
        until grep -q '^SigCgt:.*[2367abef]$' /proc/$pid/status; do sleep 0.01; done
        sleep 0.1; kill -INT $pid; wait $pid]]

    for _, arguments in ipairs {
        "run -", "run --untrusted -", "run fifo", "tot", "tot --model script:fifo ?", "chat -",
        "chat --model script:fifo ?", "chat --schema fifo ?", "chat --attach fifo ?", "eval fifo",
        "ask --strategy fifo ?",
        "scripts/sorting.lua --model script:fifo",
    } do
        it("ends a wait for a file: " .. arguments, function()
            local dir <close> = shell.directory()
            local r = ends(130, shell.run(READS:format(dir.path, shell.quote(shell.executable),
                arguments:gsub("scripts", shell.root .. "/%0"))))
            assert.equal("", r.out)
            assert.matches("^ponder[ a-z]*: interrupted\n$", r.err)
        end)
    end

    it("ends a wait for a file that begins after it", function()
        local dir <close> = shell.directory { ["script.lua"] = [[
            local close = { __close = function() -- in which nothing is raised
                io.popen("kill -INT $PPID"):close()
                require("ponder.base.file").read "fifo"
            end }
            local co = coroutine.create(function()
                local _ <close> = setmetatable({}, close)
                coroutine.yield()
            end)
            coroutine.resume(co)
            print(select(2, coroutine.close(co)))]] }
        local r = ends(0, shell.run(("cd %s; mkfifo fifo; exec 3<>fifo; exec %s run script.lua"
            .. " >$OUT 2>$ERR"):format(dir.path, shell.quote(shell.executable))))
        assert.matches("interrupted!\n$", r.out)
    end)

    it("ends a search for a log that is a pipe", function()
        local dir <close> = shell.directory()
        local r = ends(2, shell.run(("mkfifo %s/fifo; %s log %s/fifo 2>$ERR"):format(dir.path,
            shell.quote(shell.executable), dir.path)))
        assert.matches("is not a regular file", r.err)
    end)

    it("lets variables be closed", function()
        local _, out = interrupted([[
            local v <close> = setmetatable({}, { __close = function() print "closed" end })
            require("ponder.task").sleep(50)]])
        assert.equal("closed\n", out)
    end)

    local SEARCH = [[require("ponder.search").run {
        initial_state = 1, search = %q, concurrency = %d, k = 2, max_depth = 1000000,
        expand = function(n) %s return { n + 1, n + 2 } end,
        evaluate = function(n) return -n end, is_terminal = function() return false end }]]

    for concurrency, waits in pairs { [1] = "", [8] = "require('ponder.task').sleep(0.001)" } do
        it("stops a search and reports its progress, concurrency " .. concurrency, function()
            assert.matches("^ponder: interrupted\nsearch.run %(dfs%) had %d+ nodes, %d+ expanded; "
                .. "best score %-1 at node 0, depth 0\n$",
                (interrupted(SEARCH:format("dfs", concurrency, waits))))
        end)
    end

    it("leaves no processes or files behind", function()
        local dir <close> = shell.directory()
        local r = shell.run(("cd %s && export TMPDIR=%s; %s -e %s >$OUT 2>$ERR & pid=$!; "
            .. "until grep -q ready $OUT; do sleep 0.01; done; kill -INT $pid; wait $pid; "
            .. "{ kill -0 $pid && echo alive; ls -A %s; } >>$OUT 2>/dev/null"):format(dir.path,
            dir.path, shell.quote(shell.executable), shell.quote(READY
                .. SEARCH:format("dfs", 8, "require('ponder.task').sleep(0.001)")), dir.path))
        assert.equal("ready\n", r.out)
        assert.matches("interrupted", r.err)
    end)
end)

describe("--timeout", function()
    for what, code in pairs(ENDLESS) do
        it("ends " .. what, function()
            local r = ends(124, shell.ponder { "--no-log", "--timeout", "50ms", "-e",
                "local _ <close> = setmetatable({}, { __close = function() print 'closed' end }) "
                .. code })
            assert.equal("closed\n", r.out)
            assert.equal("ponder: the time budget of 0.05 s is spent [TIMEOUT]\n", r.err)
        end)
    end

    for what, code in pairs {
        ["a call of C"] = STUCK,
        ["a finalizer"] = "setmetatable({}, { __gc = function() while true do end end }) "
            .. "collectgarbage()",
        ["clean-up"] = "local _ <close> = setmetatable({}, { __close = function() "
            .. STUCK .. " end }) while true do end",
    } do
        it("ends the process if " .. what .. " does not return", function()
            local r = ends(124, shell.ponder { "--no-log", "--timeout", "10ms", "-e", code })
            assert.equal("ponder: the run did not stop in time; exiting\n", r.err)
        end)
    end

    it("of a task cannot be caught", function()
        local r = ends(0, shell.ponder { "--no-log", "-e", [[
            local task = require "ponder.task"
            local function spin() while true do end end
            for _, catch in ipairs { pcall, function(f) return xpcall(f, print) end,
                function(f) return coroutine.resume(coroutine.create(f)) end } do
                print(select(3, task.timeout(0.02, function()
                    print(catch(spin))
                end)))
            end
            print(pcall(error, "own"))]] })
        assert.equal("TIMEOUT\nTIMEOUT\nTIMEOUT\nfalse\town\n",
            (r.out:gsub("[^\n]*time is up\n", "")))
    end)

    it("leaves a log that can be resumed", function()
        local dir <close> = shell.directory { ["a.lua"] = [[
            local m = require("ponder.model").open "script:m.lua"
            print(m:complete("x"))
            if not os.getenv "GO_ON" then ]] .. STUCK .. [[ end
            print(m:complete("y"))]], ["m.lua"] = "return function(r) "
            .. "io.stderr:write('asked ', r.messages[1].content, '\\n') return 'fine' end" }
        local r = ends(124, dir:ponder { "run", "--log", "a.db", "--timeout", "500ms", "a.lua" })
        assert.equal("asked x\nponder: the run did not stop in time; exiting\n", r.err)
        r = ends(0, shell.ponder({ "resume", "a.db" }, { cwd = dir.path, env = { GO_ON = "1" } }))
        assert.equal("fine\nfine\n", r.out)
        assert.equal("asked y\n", r.err)
    end)

    it("accepts times with units, and asks for the unit of a bare number", function()
        for text, seconds in pairs { ["20ms"] = 0.02, ["0.02s"] = 0.02, ["0.0005m"] = 0.03 } do
            local r = ends(124, shell.ponder { "--no-log", "--timeout", text, "-e",
                "while true do end" })
            assert.equal(("ponder: the time budget of %g s is spent [TIMEOUT]\n"):format(seconds),
                r.err)
        end
        local r = ends(0, shell.ponder { "--no-log", "--timeout", "20", "-e", "" })
        assert.equal("ponder: --timeout 20 is in seconds; say so: --timeout 20s\n", r.err)
        for _, text in ipairs { "x", "1x", "ms", "-1s", "1 s", "1s1", "" } do
            r = ends(2, shell.ponder { "--no-log", "--timeout", text, "-e", "" })
            assert.matches("%-%-timeout must be a time such as 30s, 500ms or 2m", r.err)
        end
    end)

    it("ends a strategy whose model computes, with the best so far", function()
        local dir <close> = shell.directory { ["m.lua"] =
            "return function() while true do pcall(error) end end" }
        local r = ends(124, dir:ponder { "tot", "--no-log", "--json", "--timeout", "50ms",
            "--model", "script:m.lua", "Why?" })
        assert.matches('"code":"TIMEOUT"', r.out)
        assert.matches("the time budget of 0.05 s is spent %[TIMEOUT%]\n$", r.err)
    end)
end)

describe("--max-steps", function()
    for what, code in pairs(ENDLESS) do
        it("ends " .. what, function()
            local r = ends(1, shell.ponder { "--no-log", "--max-steps", "100000", "-e",
                "local _ <close> = setmetatable({}, { __close = function() print 'closed' end }) "
                .. code })
            assert.equal("closed\n", r.out)
            assert.equal("ponder: the budget of 100000 steps is spent [BUDGET]\n", r.err)
        end)
    end

    it("ends at the same step each time", function()
        local code = "local n = 0 local _ <close> = setmetatable({}, { __close = function() "
            .. "print(n) end }) while true do n = n + 1 end"
        local first = ends(1, shell.ponder { "--no-log", "--max-steps", "50000", "-e", code }).out
        assert.is_true(tonumber(first) > 5000 and tonumber(first) < 50000, first)
        assert.equal(first, shell.ponder({ "--no-log", "--max-steps", "50000", "-e", code }).out)
    end)

    it("does not affect a run that takes fewer", function()
        assert.equal("1\n", ends(0, shell.ponder { "--no-log", "--max-steps", "100000", "-e",
            "print(1)" }).out)
    end)

    it("cannot be removed with debug.sethook", function()
        for _, call in ipairs { "debug.sethook()", "debug.sethook(print, 'c')",
            "debug.sethook(coroutine.create(print))" } do
            local r = ends(1, shell.ponder { "--no-log", "--max-steps", "100000", "-e",
                "print(pcall(debug.sethook)) " .. call })
            assert.matches("^false\tno hook can be set while a limit of the run is watched", r.out)
        end
    end)

    it("stops a strategy wherever it is", function()
        for _, steps in ipairs { 0, 100, 1000 } do
            local r = ends(1, shell.ponder { "tot", "--no-log", "--max-steps", tostring(steps),
                "--model", "script:scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24" })
            assert.equal(("ponder tot: the budget of %d steps is spent [BUDGET]\n"):format(steps),
                r.err)
        end
    end)
end)

describe("a signal", function()
    -- Runs a script until it is ready, sends signals, and returns its status and output.
    local function signal(signals, code)
        return shell.run(([[
            %s --no-log -e %s >$OUT 2>$ERR & pid=$!
            until grep -q ready $OUT; do sleep 0.01; done
            for signal in %s; do sleep 0.1; kill -$signal $pid; done
            wait $pid]]):format(shell.quote(shell.executable),
            shell.quote("print 'ready' io.stdout:flush() " .. code), signals))
    end

    local STATUS = { INT = 130, TERM = 143, HUP = 129 }
    local SAID = { INT = "interrupted", TERM = "terminated", HUP = "hung up" }

    for name, status in pairs(STATUS) do
        it(name .. " ends a run, whether it computes or waits", function()
            for _, code in ipairs { "while true do pcall(error) end",
                "require('ponder.task').sleep(50)",
                "while true do pcall(require('ponder.task').sleep, 50) end" } do
                assert.equal("ponder: " .. SAID[name] .. "\n", ends(status, signal(name, code)).err)
            end
        end)
    end

    it("is what the log says of a run that it ends while a scripted model replies", function()
        local dir <close> = shell.directory { ["m.lua"] = "return function() print 'ready' "
            .. "io.stdout:flush() require('ponder.task').sleep(50) end",
            ["a.lua"] = "require('ponder.model').open('script:m.lua'):complete 'x'" }
        local r = shell.run(([[
            cd %s; %s run --log a.db a.lua >$OUT 2>$ERR & pid=$!
            until grep -q ready $OUT; do sleep 0.01; done
            kill -TERM $pid; wait $pid]]):format(dir.path, shell.quote(shell.executable)))
        ends(143, r)
        assert.equal("ponder: terminated\n", r.err)
        assert.not_matches("failed", r.closing)
        local db <close> = assert(store.open(dir.path .. "/a.db", { mode = "read" }))
        assert.same({ "terminated", "cancelled" }, { db:row [[SELECT runs.error, calls.status
            FROM runs JOIN calls ON calls.run = runs.id]] })
    end)

    it("ends the process if a C function does not return: at the second Ctrl-C, at once for "
        .. "SIGTERM and at the third signal", function()
        for signals, status in pairs { ["INT INT"] = 130, TERM = 143 } do
            local r = ends(status, signal(signals, STUCK))
            assert.equal("ponder: the run did not stop in time; exiting\n", r.err)
        end
        ends(130, signal("INT INT INT", STUCK))
    end)

    it("that nobody waits for any more does not count against the next one", function()
        local r = shell.ponder { "--no-log", "-e", [[
            local loop = require "ponder.core.loop"
            local function signal()
                local port = loop.signal "terminate"
                os.execute "kill -TERM $PPID"
                return port
            end
            signal():close()
            local ends = loop.now() + 0.6 -- "stuck" is half a second
            while loop.now() < ends do end
            local port, ports = signal(), {}
            loop.wait(20, ports)
            print(ports[1] == port:number())]] }
        assert.same({ 0, "true\n", "" }, { r.status, r.out, r.err })
    end)

    it("is ignored as SIGHUP under nohup", function()
        local r = shell.run(([[
            trap '' HUP; %s --no-log -e %s >$OUT 2>$ERR & pid=$!
            until grep -q ready $OUT; do sleep 0.01; done
            kill -HUP $pid; wait $pid]]):format(shell.quote(shell.executable), shell.quote(
            "print 'ready' io.stdout:flush() require('ponder.task').sleep(0.2) print 'done'")))
        assert.same({ 0, "ready\ndone\n" }, { r.status, r.out })
    end)

    -- 8 calls, 3 at a time, then 2 more.
    local SMALL = [[
        local m = require("ponder.model").open "script:m.lua"
        local numbers = { 1, 2, 3, 4, 5, 6, 7, 8 }
        local out = require("ponder.task").map(numbers, function(i)
            return (assert(m:complete("q" .. i)))
        end, { concurrency = 3 })
        for i = 1, 2 do out[#out + 1] = assert(m:complete("z" .. i)) end
        return table.concat(out, ",")]]

    for name, status in pairs(STATUS) do
        it(name .. " at any write to the log leaves it intact and the run resumable", function()
            local dir <close> = shell.directory { ["a.lua"] = SMALL, ["m.lua"] =
                "return function(r) require('ponder.task').sleep(0.002) "
                .. "return r.messages[1].content end" }
            local arguments = { "run", "--json", "--log", "a.db", "a.lua" }
            local where = { cwd = dir.path, env = { XDG_STATE_HOME = dir.path .. "/state" } }
            local all = '"q1,q2,q3,q4,q5,q6,q7,q8,z1,z2"\n'
            local writes = disk.ponder(arguments, {}, where).writes
            assert.is_true(writes > 10)
            local step = size { test = name == "INT" and 5 or 9, asan = 17, full = 1 }
            for at = 1, writes, step do
                shell.run("rm -f " .. dir.path .. "/a.db*")
                local r = disk.ponder(arguments, { at = at, times = 1, error = name },
                    where)
                if not (r.status == 0 and r.out == all) then
                    assert.equal(status, r.status, at .. r.err)
                end
                assert.is_nil(r.err:find("stack traceback", 1, true), r.err)
                local db = store.open(dir.path .. "/a.db", { mode = "read" })
                if db then
                    assert.equal(r.status == 0 and "completed" or "interrupted",
                        (db:row "SELECT status FROM runs"), at)
                    db:close()
                    r = ends(0, shell.ponder({ "resume", "a.db" }, where))
                    assert.equal(all, r.out)
                end
            end
        end)
    end
end)
