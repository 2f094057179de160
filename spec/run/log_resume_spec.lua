-- Resuming and replaying logged runs that failed, were interrupted, are finished, or
-- diverge.

local help = require "log_help"
local server = require "server"
local shell = require "shell"
local store = require "ponder.core.store"

local BAD = "status=400&body={}"

describe("a logged run", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    describe("with calls that fail", function()
        local CODE = [[
            say("a", ask "a")
            say("b", select(3, ask "b"))
            say("c", ask "c")
            say("d", assert(ask "d"))
        ]]

        it("retries those at its end, and plays those before", function()
            w:begin(CODE)
            w.server:next("", BAD, "", BAD)
            local first = w:run()
            assert.equal(1, first.status)
            assert.equal("failed", w:row "SELECT status FROM runs")
            local replayed = w:replay()
            assert.same({ first.out, 1 }, { replayed.out, replayed.status })
            assert.equal(first.err, replayed.err)
            assert.equal(4, w:requests())
            local resumed = w:resume()
            assert.same({ 0, "" }, { resumed.status, resumed.err })
            assert.equal(5, w:requests())
            assert.equal(first.out, resumed.out:sub(1, #first.out))
            assert.matches("b\tBAD_REQUEST\n", resumed.out, 1, true)
            assert.matches("\nd\t%d+\n$", resumed.out)
            assert.same({ "completed", 0 }, { w:row "SELECT status, exit_status FROM runs" })
            assert.same({ 2, "ok" }, { w:row "SELECT session, status FROM calls WHERE id = 4" })
            assert.equal("BAD_REQUEST", w:row "SELECT code FROM attempts WHERE call = 4")
            local again = w:resume()
            assert.same({ resumed.out, 0, "" }, { again.out, again.status, again.err })
            assert.equal(5, w:requests())
        end)

        it("retries them at each resume", function()
            w:begin(CODE)
            w.server:next("", BAD, "", BAD, BAD, BAD)
            w:run()
            assert.equal(1, w:resume().status)
            assert.equal(1, w:resume().status)
            assert.equal(6, w:requests())
            assert.equal(0, w:resume().status)
            assert.equal(7, w:requests())
        end)

        it("keeps the failures of a finished run", function()
            w:begin [[say(ask "a"); say(select(3, ask "b"))]]
            w.server:next("", BAD)
            w:repeats(w:run())
            assert.equal(2, w:requests())
        end)

        it("retries all that failed together", function()
            w:begin [[
                local results = task.map({ 1, 2, 3, 4 }, function(i) return ask("item " .. i) end)
                assert(#results == 4 and results[1] and results[2], "not all came")
                say(table.concat(results, " "))
            ]]
            w.server:next(BAD, BAD, BAD, BAD)
            assert.equal(1, w:run().status)
            local resumed = w:resume()
            assert.same({ 0, "" }, { resumed.status, resumed.err })
            assert.equal(8, w:requests())
        end)
    end)

    describe("that was killed while calls were in flight", function()
        -- Runs it until the log has so many calls of this session in flight, and the server so many
        -- requests of all (any number unless given), then kills it.
        local function run_and_kill(how, calls, session, requests)
            local pid = w:sh(how .. " >out.txt 2>err.txt & echo $!").out:match "%d+"
            local found
            repeat
                shell.run "sleep 0.05"
                local db = store.open(w.log, { mode = "read" })
                local ok, n = pcall(function()
                    return db:row("SELECT count(*) FROM calls WHERE status IS NULL "
                        .. "AND session = ?", session)
                end)
                found = ok and n or 0
                if db then db:close() end
            until found == calls and w:requests() >= (requests or 0)
                or shell.run("exec 2>/dev/null; kill -0 " .. pid).status ~= 0
            shell.run(("exec 2>/dev/null; kill -9 %s; while grep -q 'State:.[^Z]' /proc/%s/status; "
                .. "do sleep 0.01; done"):format(pid, pid)) -- who reaps it may take seconds
            assert.equal(calls, found)
        end

        local CODE = [[
            local texts = task.map({ 1, 2, 3 }, function(i) return ask("item " .. i) end)
            local n = 0
            for i = 1, 3 do n = n + (texts[i] and 1 or 0) end
            say(n, task.spent().calls, task.spent().spent)
        ]]
        local LATE = "delay=60000"

        -- For ten seconds neither the scheduler nor any Lua code runs.
        for how, busy in pairs {
            ["is in a pattern"] = "local n = 40 "
                .. "string.rep('a', n):find(string.rep('a?', n) .. string.rep('a', n))",
            ["has a hook of its own"] = "debug.sethook(function() end, '', 1000) "
                .. "while os.clock() < 10 do end",
            ["computes"] = "while os.clock() < 10 do end",
            ["catches all errors"] = "while os.clock() < 10 do pcall(error) end",
            ["computes in a coroutine"] =
                "coroutine.wrap(function() while os.clock() < 10 do end end)()",
            ["computes in a callback"] = [[
                table.sort({ 2, 1 }, function() while os.clock() < 10 do end end)]],
            ["searches"] = [[require("ponder.search").run { initial_state = 1,
                expand = function() while os.clock() < 10 do end end,
                evaluate = function() return 1 end, is_terminal = function() return false end }]],
            ["runs a program"] = "os.execute 'exec sleep 10'",
            ["reads a pipe"] = "io.popen('exec sleep 10'):read 'a'",
            ["reads lines"] = "for _ in io.popen('exec sleep 10'):lines() do end",
            ["waits for a program"] = "io.popen('exec sleep 10'):close()",
            ["runs a sandbox"] = [[
                require("ponder.sandbox").run("while true do end", { timeout_ms = 10000 })]],
        } do
            it("has its rows on disk where the script " .. how, function()
                w:begin("task.spawn(ask, 'a') task.sleep(0.001) " .. busy)
                w.server:next(LATE, LATE)
                run_and_kill("$PONDER run --log run.db script.lua", 1, 1)
            end)
        end

        it("counts calls that were in flight while the script computed", function()
            w:begin [[
                local asked = task.spawn(ask, "a")
                task.sleep(0.001)
                if not os.getenv "RESUMED" then while os.clock() < 20 do end end
                say(asked:join())
                say(task.spent().calls, select(3, ask "b"))
            ]]
            w.server:next(LATE)
            run_and_kill("$PONDER run --max-calls 2 --log run.db script.lua", 1, 1)
            local resumed = w:ponder({ "resume", w.log }, { env = { RESUMED = "1" } })
            assert.matches("^%x+\n2\tBUDGET\n$", resumed.out)
            assert.matches("^ponder resume: 1 call had no reply", resumed.err)
        end)

        it("sends the same request again even if it contains the time", function()
            w:begin [[
                local asked = task.spawn(ask, "it is " .. os.clock())
                task.sleep(0.001)
                if not os.getenv "RESUMED" then os.execute "exec sleep 20" end
                asked:join()
                say(task.spent().calls)
            ]]
            w.server:next(LATE)
            run_and_kill("$PONDER run --max-calls 9 --log run.db script.lua", 1, 1)
            assert.equal("2\n", w:ponder({ "resume", w.log }, { env = { RESUMED = "1" } }).out)
            assert.equal(1, (w:row "SELECT count(*) FROM calls"))
        end)

        it("has the inner run of the call too", function()
            w:begin [[
                require("ponder.run").new({ name = "inner" }):call(function()
                    task.spawn(ask, "a")
                    task.sleep(0.001)
                    if not os.getenv "RESUMED" then os.execute "exec sleep 20" end
                end)
                say(task.spent().calls)
            ]]
            w.server:next(LATE)
            run_and_kill("$PONDER run --max-calls 9 --log run.db script.lua", 1, 1)
            assert.equal("inner",
                (w:row "SELECT name FROM runs WHERE id = (SELECT run FROM calls)"))
            local resumed = w:ponder({ "resume", w.log }, { env = { RESUMED = "1" } })
            assert.matches("^ponder resume: 1 call had no reply", resumed.err)
        end)

        it("counts those that were asked inside a tool", function()
            w:begin [[
                say(log.record("tool", {}, function() return (ask "a") end))
                say(task.spent().calls)
            ]]
            w.server:next(LATE)
            run_and_kill("$PONDER run --max-calls 9 --log run.db script.lua", 1, 1)
            assert.matches("\n2\n$", w:resume().out)
        end)

        it("has them on disk even if nothing else happens, and charges and counts them", function()
            w:begin(CODE)
            w.server:next(LATE, LATE, LATE)
            run_and_kill("$PONDER run --max-calls 5 --log run.db script.lua", 3, 1, 3)
            local resumed = w:ponder { "resume", w.log }
            assert.equal("2\t5\tthe budget of 5 calls is spent\n", resumed.out)
            assert.equal("ponder resume: 3 calls had no reply when the run ended; those that "
                .. "were sent are sent again and count twice in the budget\n", resumed.err)
            assert.equal(5, w:requests())
        end)

        it("sends no more than its budget allows, however often it is killed", function()
            w:begin(CODE)
            w.server:next(LATE, LATE, LATE, LATE, LATE, LATE)
            run_and_kill("$PONDER run --max-calls 6 --log run.db script.lua", 3, 1, 3)
            run_and_kill("$PONDER resume run.db", 3, 2, 6)
            assert.equal(3, (w:row "SELECT count(*) FROM attempts WHERE code = 'KILLED'"))
            assert.equal("0\t6\tthe budget of 6 calls is spent\n", w:resume().out)
            assert.equal(6, w:requests())
        end)

        it("counts calls that only its cache recorded", function()
            w:begin [[
                say(ask "a", ask "a")
                say(task.spent().calls, task.spent().tokens, task.spent().cost)
            ]]
            local cached = w.dir.path .. "/replies.db"
            local first = w:ponder { "run", "--max-calls", "9", "--cache", cached, "--log", w.log,
                w.script }
            assert.same({ 0, 1 }, { first.status, w:requests() })
            do -- as if it had been killed when the cache had the reply, and the log had not
                local db <close> = assert(store.open(w.log, { mode = "write" }))
                for _, sql in ipairs { "DELETE FROM tape", "DELETE FROM calls",
                    "UPDATE runs SET ended_at = NULL, status = NULL" } do
                    assert(db:execute(sql))
                end
            end
            local resumed = w:resume()
            assert.same({ 0, first.out }, { resumed.status, resumed.out }, resumed.err)
            assert.equal(1, w:requests())
            assert.same({ "live", 1 }, { w:row "SELECT origin, attempts FROM calls WHERE id = 1" })
            assert.equal("cache", (w:row "SELECT origin FROM calls WHERE id = 2"))
        end)

        it("charges replies that were cut off before it was resumed", function()
            w:begin [[
                say(select(3, ask("a")))
                say(task.spent().calls, task.spent().tokens > 2000)
                assert(ask "b")
                assert(ask "c")
                say(task.spent().calls)
            ]]
            w.server:next("cut=20", "cut=20", "cut=20", "", BAD)
            local first = w:ponder { "run", "--max-calls", "9", "--log", w.log, w.script }
            assert.equal("CONNECT\n1\ttrue\n", first.out)
            assert.equal("CONNECT\n1\ttrue\n3\n", w:resume().out)
            assert.equal(6, w:requests())
        end)
    end)

    it("asks once for a typed answer that had to be repaired, also from a cache", function()
        w:begin [[
            local reply, message = m:chat { messages = { { role = "user", content = "n?" } },
                returns = { n = "integer" } }
            say(reply and reply.value.n or message, reply and reply.usage.total_tokens)
            say(table.concat(m:complete("list", { n = 2 }), " "))
        ]]
        local function replies()
            w.server:next("text=no", "text=" .. server.encode '{"n":4}', "text=a", "text=b")
        end
        replies()
        local first = w:run()
        assert.matches("^4\t%d+\n%S+ %S+\n$", first.out, first.err)
        w:repeats(first)
        local asked = w:requests()
        w.server:reset()
        replies()
        local arguments = { "run", "--no-log", "--cache", w.dir.path .. "/cache.db", w.script }
        local cached = w:ponder(arguments)
        assert.same({ cached.out, asked }, { w:ponder(arguments).out, w:requests() })
    end)

    describe("that diverges", function()
        local EACH_WORD = "for word in io.lines(arg[1]) do say(word, ask(word)) end "

        local function write(text)
            return w.dir:write("what.txt", text)
        end

        it("fails offline with the call that the log does not have", function()
            w:begin(EACH_WORD)
            local first = w:run(write "one\ntwo\nthree\n")
            assert.equal(0, first.status)
            write "one\nzwei\nthree\n"
            local replayed = w:replay()
            assert.equal(1, replayed.status)
            assert.equal(first.out:match "^[^\n]*\n", replayed.out)
            assert.matches("NOT_IN_REPLAY: the call to openai:m (zwei) is not in the log",
                replayed.err, 1, true)
            assert.matches("script.lua:%d+: in main chunk", replayed.err)
            assert.equal(3, w:requests())
        end)

        it("is told which answers it left unused, and still gets the others", function()
            w:begin(EACH_WORD)
            local first = w:run(write "one\ntwo\nthree\n")
            write "one\nthree\n"
            local replayed = w:replay()
            assert.equal(first.out:gsub("two[^\n]*\n", ""), replayed.out)
            assert.equal("ponder replay: the script did not do what it did before: it left "
                .. "call 2 to openai:m unused\n", replayed.err)
            write "one\n"
            replayed = w:replay()
            assert.equal(first.out:match "^[^\n]*\n", replayed.out)
            assert.matches("it left call 2 to openai:m and 1 more unused\n$",
                replayed.err)
            assert.equal(3, w:requests())
        end)

        it("sends new requests when it is resumed", function()
            w:begin(EACH_WORD .. "error 'stop'")
            local first = w:run(write "one\ntwo\n")
            write "one\nzwei\ntwo\n"
            local resumed = w:resume()
            assert.equal(first.out, (resumed.out:gsub("zwei[^\n]*\n", "")))
            assert.equal(3, w:requests())
        end)

        it("gets its answers in whatever order it asks", function()
            w:begin [[
                local names = {}
                for i = 1, 20 do names["name " .. i] = true end
                for name in pairs(names) do say(name, ask(name)) end
                task.map({ 1, 2, 3 }, function(i)
                    for name in pairs(names) do ask(i .. name) end
                end)
            ]]
            local first = w:run()
            for _, again in ipairs { w:replay(), w:resume(), w:replay() } do
                assert.same({ 0, "" }, { again.status, again.err })
                assert.same(help.sorted_lines(first.out), help.sorted_lines(again.out))
            end
            assert.equal(80, w:requests())
        end)
    end)

    describe("in two processes", function()
        it("continues in only one of them", function()
            w:begin [[say(ask "one"); say(ask "two")]]
            w.server:next("", "delay=400")
            local both = w:sh([[
                : >first; $PONDER run --log run.db script.lua >first & pid=$!
                until grep -q . first; do sleep 0.01; done
                $PONDER resume run.db; echo "resume: $?"
                $PONDER run --log run.db script.lua; echo "run: $?"
                wait $pid; echo "first: $?"
            ]])
            assert.equal("resume: 1\nrun: 2\nfirst: 0\n", both.out)
            local resume, run = both.err:match "^([^\n]*)\n([^\n]*)\n$"
            assert.equal(("ponder resume: %s: another run is writing it"):format(w.log),
                resume)
            assert.matches("^ponder run: run.db: ", run)
            assert.equal(2, w:requests())
            assert.equal(0, w:resume().status)
            assert.equal(2, w:requests())
        end)
    end)

    describe("that is interrupted", function()
        it("continues when it is resumed", function()
            w:begin [[
                say(ask "one")
                local done <close> = setmetatable({}, { __close = function() say "closed" end })
                say(ask "two")
                return "whole"
            ]]
            w.server:next("", "delay=5000")
            local first = w:sh [[
                $PONDER run --log run.db script.lua & pid=$!
                until grep -q . $OUT; do sleep 0.01; done
                sleep 0.05; kill -INT $pid
                wait $pid
            ]]
            assert.equal(130, first.status)
            assert.same({ "interrupted", 130 }, { w:row "SELECT status, exit_status FROM runs" })
            assert.equal("cancelled", w:row "SELECT status FROM calls WHERE id = 2")
            local resumed = w:resume()
            assert.same({ 0, "" }, { resumed.status, resumed.err })
            assert.equal(first.out:match "^[^\n]*\n", resumed.out:match "^[^\n]*\n")
            assert.equal(3, w:requests())
            assert.same({ "completed", 0, '"whole"' },
                { w:row "SELECT status, exit_status, answer FROM runs" })
        end)
    end)

    it("that exits by itself is finished with its status", function()
        w:begin [[say(ask "one"); os.exit(3)]]
        local first = w:run()
        assert.equal(3, first.status)
        assert.same({ "failed", 3 }, { w:row "SELECT status, exit_status FROM runs" })
        w:repeats(first)
        w:begin [[say(ask "one"); os.exit(true, true)]]
        assert.equal(0, w:run().status)
        assert.same({ "completed", 0 }, { w:row "SELECT status, exit_status FROM runs" })
        assert.equal(1, w:requests())
    end)

    it("may also be one of -e code or of a piped script", function()
        for _, run in ipairs {
            [[$PONDER --log run.db -e "$(cat script.lua)" what]],
            "$PONDER run --log run.db - what <script.lua",
            "mkfifo pipe; cat script.lua >pipe & $PONDER run --log run.db pipe what",
        } do
            w:begin "say(..., ask(...), math.random())"
            local first = w:sh(run)
            assert.same({ 0, "" }, { first.status, first.err }, run)
            w:repeats(first)
        end
    end)

    it("has what the script needs: modules, its arguments, its directory", function()
        w:begin [[say(require("words").hello, arg[0], arg[1], ask(arg[1]))]]
        w.dir:write("words.lua", "return { hello = 'hello' }")
        local first = w:ponder { "run", "--log", "run.db", "script.lua", "an argument" }
        assert.same({ 0, "" }, { first.status, first.err })
        local resumed = w:ponder({ "resume", w.log }, { cwd = "/" })
        assert.same({ first.out, 0, "" }, { resumed.out, resumed.status, resumed.err })
        os.remove(w.dir.path .. "/words.lua")
        resumed = w:ponder({ "resume", w.log }, { cwd = "/" })
        assert.same({ 1, ("ponder resume: %s: words.lua is gone; put it back, or replay what the "
            .. "log holds\n")
            :format(w.log) }, { resumed.status, (resumed.err:gsub("[^ ]*/words", "words")) })
        os.remove(w.script)
        local replayed = w:ponder({ "replay", w.log }, { cwd = "/" })
        assert.same({ first.out, 0, "" }, { replayed.out, replayed.status, replayed.err })
    end)

    it("has each recorded file by its path, as what it was", function()
        w:begin [[
            assert(require("ponder.prompt").load "tot")
            say(require "util", require "a.util", require "b.util", require "c.util",
                pcall(require, "tot") and "ran", ask "x")]]
        w.dir:write("util.lua", "return 'top'")
        for _, name in ipairs { "a", "b", "c" } do
            w.dir:write(name .. "/util.lua", ("return %q"):format(name))
        end
        w.dir:write("p/tot.lua", "return {}")
        local first = w:ponder({ "run", "--log", "run.db", "script.lua" },
            { env = { PONDER_PROMPTS = "p" } })
        assert.equal(0, first.status, first.err)
        assert.matches("top\ta\tb\tc\tfalse\t", first.out)
        w:sh "rm -r util.lua a b c p script.lua"
        local replayed = w:ponder { "replay", w.log }
        assert.same({ first.out, 0 }, { replayed.out, replayed.status }, replayed.err)
    end)
end)
