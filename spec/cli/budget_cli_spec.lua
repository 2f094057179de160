-- Budgets and the cache of replies, as flags of the commands.

local json = require "ponder.json"
local shell = require "shell"
local store = require "ponder.core.store"

local STEPS = "script:" .. shell.root .. "/spec/fixtures/models/steps.lua"

local function ponder(arguments, env)
    env = env or {}
    env.OPENAI_BASE_URL = "http://127.0.0.1:1/v1"
    arguments[#arguments + 1] = "--no-log"
    return shell.ponder(arguments, { env = shell.bare(env) })
end

local function last_line(text) return text:match("([^\n]*)\n$") end

-- The line that says how to give a price.
local MISSING = "max_cost needs the price of http://127.0.0.1:1/v1/nobody-knows, which is unknown: "
    .. 'give it in /nonexistent/ponder/prices.lua, as { ["http://127.0.0.1:1/v1/nobody-knows"] = '
    .. "{ input = USD, output = USD } } per million tokens [NO_PRICE]"

-- A model that writes a line to a file for each call.
local COUNTING = [[
local n = 0
return function(request)
    n = n + 1
    local file = assert(io.open(os.getenv "CALLS", "a"))
    file:write(n, "\n")
    file:close()
    require("ponder.task").sleep(0.02)
    return { text = "answer " .. request.sample, usage = { input_tokens = 5, output_tokens = 5 } }
end]]

-- Asks 40 things, 8 at a time, and prints the answers.
local ASKING = [[
local m = require("ponder.model").open((...))
local numbers = {}
for i = 1, 40 do numbers[i] = i end
local answers = require("ponder.task").map(numbers, function(i)
    return assert(m:complete("question " .. i))
end, { concurrency = 8 })
print(#answers, answers[40])]]

local function calls_of(dir)
    local ok, text = pcall(dir.read, dir, "calls")
    return ok and select(2, text:gsub("\n", "\n")) or 0
end

describe("a strategy's command", function()
    for _, name in ipairs { "tot", "got", "trm", "cot" } do
        it(name .. " keeps to its budgets", function()
            for flags, message in pairs {
                [{ "--max-calls", "0" }] = "the budget of 0 calls is spent",
                [{ "--max-total-tokens", "7" }] = "the budget of 7 tokens is spent: 0 used, and",
                [{ "--timeout", "0.05s" }] = "the time budget of 0.05 s is spent",
            } do
                local r = ponder({ name, "--model", STEPS, flags[1], flags[2], "Why?" },
                    { WAIT = "30" })
                assert.equal(flags[1] == "--timeout" and 124 or 1, r.status)
                assert.truthy(last_line(r.err):find(("ponder %s: %s"):format(name, message), 1,
                    true), r.err)
                assert.matches(flags[1] == "--timeout" and "%[TIMEOUT%]\n$"
                    or "%[BUDGET%]\n$", r.err)
            end
        end)

        it(name .. " does not start when dollars are limited and a price is unknown", function()
            local r = ponder { name, "--model", "openai:nobody-knows", "--max-cost", "1", "Why?" }
            assert.same({ 1, "", ("ponder %s: %s\n"):format(name, MISSING) },
                { r.status, r.out, r.err })
        end)
    end

    it("ends when its dollars are spent, at the user's own prices", function()
        local dir <close> = shell.directory { ["ponder/prices.lua"] =
            'return { ["script:*"] = { input = 1000, output = 1000 } }' }
        local arguments = { "tot", "--model", STEPS, "--max-cost", "1.9", "--json", "Why?" }
        local r = ponder(arguments, { XDG_CONFIG_HOME = dir.path })
        local outcome = json.decode(r.out)
        assert.same({ 1, "BUDGET", "budget" }, { r.status, outcome.error.code,
            outcome.stop_reason })
        assert.is_true(outcome.spent.calls >= 2 and outcome.spent.cost <= 1.9)
        assert.equal(outcome.spent.usage.total_tokens / 1000, outcome.spent.cost)
    end)

    it("cancels calls in flight if asked to", function()
        local r = ponder({ "tot", "--model", STEPS, "--max-calls", "1", "--in-flight", "cancel",
            "Why?" }, { LATER = "30" })
        assert.equal(1, r.status)
        assert.truthy(r.err:find("the budget of 1 call is spent [BUDGET]", 1, true), r.err)
    end)
end)

describe("ponder run", function()
    local ASK = ([[local m = require("ponder.model").open(%q)
        for i = 1, 3 do
            local reply, message, code = m:complete("x", { sample = i })
            print(i, code)
            if TELL then assert(reply, message) end
        end]]):format(STEPS)

    it("prints one line when a budget ends the script", function()
        for flags, line in pairs {
            [{ "--max-calls", "1" }] = "the budget of 1 call is spent [BUDGET]",
            [{ "--max-total-tokens", "1100" }] = "^ponder: the budget of 1100 tokens is spent: "
                .. "%d+ used, and the next call may need %d+ %[BUDGET%]\n$",
        } do
            local r = ponder { "-e", "TELL = true; " .. ASK, flags[1], flags[2] }
            assert.equal("1\tnil\n2\tBUDGET\n", r.out)
            assert.equal(1, r.status)
            assert.truthy(r.err == "ponder: " .. line .. "\n" or r.err:find(line), r.err)
        end
    end)

    it("lets a script continue that handles the code", function()
        local r = ponder { "-e", ASK, "--max-calls", "1" }
        assert.same({ 0, "1\tnil\n2\tBUDGET\n3\tBUDGET\n", "" }, { r.status, r.out, r.err })
    end)

    it("says which limit was reached before a script went wrong", function()
        local code = ([[local m = require("ponder.model").open(%q)
            local text = ""
            for i = 1, 3 do text = text .. m:complete("x", { sample = i }) end]]):format(STEPS)
        local r = ponder { "-e", code, "--max-calls", "1" }
        assert.equal(1, r.status)
        assert.matches("^ponder: .*attempt to concatenate a nil value", r.err)
        assert.matches("\nponder: before that, the budget of 1 call is spent %[BUDGET%]\n$", r.err)
    end)

    it("fails if a script ignores that no call has a price", function()
        local r = ponder { "--max-cost", "1", "-e",
            [[print(require("ponder.model").open("openai:nobody-knows"):complete "x" == nil)]] }
        assert.same({ 1, "true\n", "ponder: " .. MISSING .. "\n" }, { r.status, r.out, r.err })
    end)

    it("counts the time of tasks that outlive the script", function()
        local code = [[local task = require "ponder.task"
            task.spawn(function() task.sleep(%s); print "late"; error "unheard" end)
            print "begun"; return { 7 }]]
        local r = ponder { "--timeout", "0.1s", "-e", code:format "30" }
        assert.same({ 124, "begun\n", "ponder: the time budget of 0.1 s is spent [TIMEOUT]\n" },
            { r.status, r.out, r.err })
        r = ponder { "--timeout", "30s", "--json", "-e", code:format "0.01" }
        assert.same({ 1, "begun\nlate\n[7]\n" }, { r.status, r.out })
        assert.truthy(r.err:find("unhandled error in task 3: ", 1, true), r.err)
    end)

    it("can be interrupted within a time limit", function()
        local r = shell.interrupt { "--no-log", "--timeout", "100s", "-e",
            [[print "ready"; io.stdout:flush(); require("ponder.task").sleep(100)]] }
        assert.same({ 130, "ponder: interrupted\n" }, { r.status, r.err })
    end)

    it("reports other errors unchanged", function()
        local r = ponder { "--timeout", "30s", "--max-calls", "1", "-e", "local x = nil + 1" }
        assert.equal(1, r.status)
        assert.truthy(r.err:find("arithmetic on a nil value", 1, true), r.err)
        assert.truthy(r.err:find("stack traceback", 1, true), r.err)
        r = ponder { "--timeout", "30s", "--json", "-e", "return { a = ... }", "b" }
        assert.same({ 0, "b" }, { r.status, json.decode(r.out).a })
        r = ponder { "--timeout", "30s", "-e", "os.exit(5)" }
        assert.equal(5, r.status)
    end)

    it("refuses invalid limits", function()
        for flag, value in pairs { ["--max-calls"] = "-1", ["--max-cost"] = "much",
            ["--timeout"] = "-1s" } do
            local r = ponder { flag, value, "-e", "" }
            assert.same({ 2, "" }, { r.status, r.out })
            assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
        end
    end)
end)

describe("ponder chat", function()
    it("keeps to its limits of dollars and seconds", function()
        local r = ponder { "chat", "--model", "openai:nobody-knows", "--max-cost", "1", "Hi" }
        assert.same({ 1, "ponder chat: " .. MISSING .. "\n" }, { r.status, r.err })
        r = ponder({ "chat", "--model", STEPS, "--timeout", "0.1s", "Hi" }, { WAIT = "30" })
        assert.same({ 124, "ponder chat: the time budget of 0.1 s is spent [TIMEOUT]\n" },
            { r.status, r.err })
    end)
end)

describe("ponder doctor", function()
    it("reports errors in the user's prices", function()
        for text, expected in pairs {
            ["return { ['a:b'] = 3 }"] = '!! prices%s+%S+prices.lua: the price of "a:b" must be a '
                .. "table %(got 3%)\n",
            ["return {}"] = "ok prices%s+%S+prices.lua\n",
        } do
            local dir <close> = shell.directory { ["ponder/prices.lua"] = text }
            local r = shell.ponder({ "doctor", "--timeout-ms", "100" }, { env = {
                XDG_CONFIG_HOME = dir.path, OPENAI_BASE_URL = "",
                OLLAMA_HOST = "127.0.0.1:1" } })
            assert.truthy(r.out:find(expected), r.out)
        end
    end)
end)

describe("--cache", function()
    it("answers repeated requests, in every command", function()
        local dir <close> = shell.directory { ["m.lua"] = COUNTING, ["ask.lua"] = ASKING }
        local env = { CALLS = dir.path .. "/calls" }
        local file, name = dir.path .. "/replies.db", "script:" .. dir.path .. "/m.lua"
        for run = 1, 2 do
            local r = ponder({ "chat", "--cache", file, "--json", "--model", name, "Hi" }, env)
            assert.equal(0, r.status, r.err)
            assert.equal(run == 2 or nil, json.decode(r.out).cached)
        end
        assert.equal(1, calls_of(dir))
        for _ = 1, 2 do
            local r = ponder({ "cot", "--cache", file, "--quiet", "--model", name, "Why?" }, env)
            assert.same({ 0, "answer 1\n", "" }, { r.status, r.out, r.err })
        end
        assert.equal(2, calls_of(dir))
        for _ = 1, 2 do
            local r = shell.ponder({ "--no-log", "--cache", file, dir.path .. "/ask.lua", name },
                { env = env })
            assert.same({ 0, "40\tanswer 1\n", "" }, { r.status, r.out, r.err })
        end
        assert.equal(42, calls_of(dir))
        ponder({ "cot", "--cache", file, "--no-cache", "--quiet", "--model", name, "Why?" }, env)
        assert.equal(43, calls_of(dir))
    end)

    it("serves two processes at once", function()
        local dir <close> = shell.directory { ["m.lua"] = COUNTING, ["ask.lua"] = ASKING }
        for _, name in ipairs { "a", "b", "c" } do
            local r = shell.run(([[
                cd %s; export CALLS=$PWD/calls
                for i in 1 2 3; do
                    %s --no-log --cache %s.db ask.lua script:m.lua >out$i 2>err$i & eval pid$i=$!
                done
                status=0
                for i in 1 2 3; do eval wait \$pid$i || status=$?; done
                cat out1 out2 out3 >$OUT; cat err1 err2 err3 >$ERR; exit $status]]):format(
                shell.quote(dir.path), shell.quote(shell.executable), name))
            assert.same({ 0, ("40\tanswer 1\n"):rep(3), "" }, { r.status, r.out, r.err })
            local db <close> = assert(store.open(dir.path .. "/" .. name .. ".db",
                { mode = "read" }))
            assert.equal(40, (db:row "SELECT count(*) FROM replies"))
            assert.equal(0, (db:row "SELECT count(*) FROM flights"))
            assert.equal(40, calls_of(dir)) -- each was asked once
            os.remove(dir.path .. "/calls")
            assert.equal("ok", (db:row "PRAGMA integrity_check"))
        end
    end)

    it("does not fail a run when the disk is full", function()
        local dir <close> = shell.directory { ["m.lua"] = COUNTING, ["ask.lua"] = ASKING }
        local r = shell.run(([[
            cd %s; export CALLS=$PWD/calls; : >calls
            trap '' XFSZ; ulimit -f 100
            %s --no-log --cache c.db ask.lua script:m.lua >$OUT 2>$ERR]]):format(
            shell.quote(dir.path), shell.quote(shell.executable)))
        assert.same({ 0, "40\tanswer 1\n" }, { r.status, r.out }, r.err)
        assert.truthy(r.err:find("^ponder: c.db: [^\n]*; replies are no longer kept in the "
            .. "cache\n$"), r.err)
        assert.equal(40, calls_of(dir))
    end)

    it("refuses a file that is not a cache", function()
        local dir <close> = shell.directory { ["notes.txt"] = "notes, not a database" }
        local file = dir.path .. "/notes.txt"
        for _, command in ipairs { { "chat", "Hi" }, { "cot", "Why?" }, { "-e", "print(1)" } } do
            local name = command[1] == "-e" and "run" or command[1]
            table.insert(command, "--cache")
            table.insert(command, file)
            if name ~= "run" then
                table.insert(command, "--model")
                table.insert(command, STEPS)
            end
            local r = ponder(command)
            assert.same({ 2, "" }, { r.status, r.out })
            assert.truthy(r.err:find(("^ponder %s: %%-%%-cache: [^\n]*notes.txt: not a response "
                .. "cache[^\n]*\n$"):format(name)), r.err)
        end
        assert.equal("notes, not a database", dir:read "notes.txt")
    end)
end)

it("a limit of steps is named where calls are limited, too", function()
    local r = shell.ponder { "run", "--no-log", "--max-calls", "9", "--max-steps", "1000", "-e",
        "while true do end" }
    assert.same({ 1, "", "ponder: the budget of 1000 steps is spent [BUDGET]\n" },
        { r.status, r.out, r.err })
end)

it("flags of models and batches are what calls of the command find", function()
    assert.equal([[
{"operands":5}
{"model":"a:b","operands":5}
{"batch":{},"concurrency":10000,"operands":5}
{"batch":{"poll_ms":2000},"concurrency":10000,"operands":5}
{"detach":true,"operands":5}
]], shell.printed { "run", "--no-log", "-e", [[
        local json = require "ponder.json"
        local context = require("ponder.run.task.scheduler").context
        local find = require("ponder.cli.shared.limits").with_models(function(_, operands)
            print(json.encode { operands = operands, model = context "default_model",
                batch = context "batch", concurrency = context "concurrency",
                detach = context "detach" })
        end)
        for _, given in ipairs { {}, { model = "a:b" }, { batch = true },
            { batch = true, batch_poll = 2 }, { detach = true } } do
            find(given, 5)
        end]] })
end)
