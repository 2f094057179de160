-- Calls in batches: against a service that is a process of its own (batch_server.lua), whose state
-- says what was paid.

local mock = require "batch_mock"
local shell = require "shell"

local MODELS = { "openai:gpt-6-luna", "anthropic:claude-haiku-4-5", "gemini:gemini-3.8-flash" }

local s, dir
setup(function() s = mock.start() end)
teardown(function() s:stop() end)
before_each(function()
    s:reset()
    dir = shell.directory {}
end)
after_each(function() dir:__close() end)

-- Asks all prompts at once; prints for each its reply and attempts, or its code and message.
local ASK = [[
local model, task = require "ponder.model", require "ponder.task"
local m = model.open(arg[1], { batch = true, batch_poll_ms = 5, max_retries = 0 })
local prompts = { table.unpack(arg, 2) }
local out, errors = task.map(prompts, function(prompt)
    local reply, why, code = m:chat { messages = { { role = "user", content = prompt } } }
    return reply and ("%s (%d)"):format(reply.text, reply.attempts), why, code
end)
for i = 1, #prompts do
    print(out[i] or ("%s: %s"):format(errors[i].code, errors[i].message:match ": (.*)"))
end
]]

-- What ASK prints, line by line.
local function ask(model, ...)
    dir:write("ask.lua", ASK)
    local r = s:ponder(dir, { "run", "--log", "ask.db", "ask.lua", model, ... })
    assert.equal(0, r.status, r.err)
    return shell.lines(r.out), r
end

-- How many lines each batch has, the newest first.
local function sizes()
    local list = {}
    for i, batch in ipairs(s:state().batches) do list[i] = batch.lines end
    return list
end

describe("a call in a batch", function()
    for _, model in ipairs(MODELS) do
        it("of " .. model .. " has its own fate, and one more try if that may help", function()
            local lines = ask(model, "plain", "a twice", "a 500 once", "a 429 once",
                "a expire once", "a miss once", "a cancel always", "a 500 always", "a 429 always",
                "a 400 always", "a garbage once")
            assert.same({ "re: plain (1)", "re: a twice (1)", "re: a 500 once (2)",
                "re: a 429 once (2)", "re: a expire once (2)", "re: a miss once (2)" },
                table.move(lines, 1, 6, 1, {}))
            for i, wanted in ipairs { "^EXPIRED: .* %(in a batch, 2 attempts%)",
                "^SERVER: it is 500 %(.*, 2 attempts%)",
                "^RATE_LIMITED: it is 429 %(.*, 2 attempts%)",
                "^BAD_REQUEST: it is 400 %(.*, 1 attempt%)",
                "^BAD_REPLY: .*, 1 attempt%)" } do
                assert.matches(wanted, lines[6 + i])
            end
            assert.same({ ["plain"] = 1, ["a twice"] = 1, ["a 500 once"] = 1, ["a 429 once"] = 1,
                ["a expire once"] = 1, ["a miss once"] = 1 }, s:state().paid)
            assert.same({ 7, 11 }, sizes())
        end)
    end
end)

describe("a batch", function()
    it("that the service refuses fails its calls at once, and is paid by none", function()
        for _, case in ipairs { { fail = "token_limit_exceeded", "QUOTA" },
            { fail = "duplicate_custom_id", "BAD_REQUEST" }, { refuse = 400, "BAD_REQUEST" },
            { refuse = 401, "AUTH" } } do
            s:reset()
            s:set { fail = case.fail, refuse = case.refuse }
            local lines = ask("openai:gpt-6-luna", "one", "two")
            assert.matches("^" .. case[1] .. ": .*1 attempt", lines[2])
            assert.same({}, s:state().paid)
            local rows = shell.output(("sqlite3 %s/ask.db 'SELECT count(*) FROM batches'"):format(
                dir.path))
            assert.equal("0", rows) -- nothing to look for when it is resumed
            os.remove(dir.path .. "/ask.db")
        end
    end)

    for _, model in ipairs(MODELS) do
        it("of " .. model .. " whose creation was not answered is looked for, not repeated",
            function()
            ask(model, "other one", "other two")
            os.remove(dir.path .. "/ask.db")
            s:set { lose = 1, polls = 2, page = 1 }
            assert.same({ "re: one (1)", "re: two (1)" }, (ask(model, "one", "two")))
            local state = s:state()
            assert.same({ { one = 1, two = 1, ["other one"] = 1, ["other two"] = 1 }, 2 },
                { state.paid, #state.batches })
        end)

        it("of " .. model .. " that was turned away for now is sent again", function()
            for _, status in ipairs { 429, 503 } do
                s:reset()
                s:set { refuse = status }
                assert.same({ "re: one (1)" }, (ask(model, "one")))
                assert.same({ one = 1 }, s:state().paid)
                os.remove(dir.path .. "/ask.db")
            end
        end)
    end
end)

---------------------------------------------------------------------------------------------------

-- Three levels of a hundred calls each; a level needs the answers of the one before. Kills itself
-- when it has got the answer KILL_AT.
local LEVELS = [[
local model, task = require "ponder.model", require "ponder.task"
local m = model.open(..., { batch = true, batch_poll_ms = 5 })
local count, sum, kill_at = 0, 0, tonumber(os.getenv "KILL_AT")
for level = 1, 3 do
    local prompts = {}
    for i = 1, 100 do prompts[i] = ("level %d.%d after %d"):format(level, i, sum) end
    task.map(prompts, function(prompt)
        local text = assert(m:complete(prompt))
        assert(text == "re: " .. prompt)
        count = count + 1
        sum = sum + #text
        if count == kill_at then os.execute "kill -9 $PPID" end
    end, { concurrency = 100 })
end
print(count, sum)
]]

-- What a process is killed at: an event of the service, or an answer. Each is at another step of
-- a batch, or within another level.
local KILLS = { "upload", "create", "created", "list", "poll", "results", 50, "created", "poll",
    150, "results", 250 }

describe("300 calls whose process is killed ten times", function()
    for _, model in ipairs(MODELS) do
        it("are paid once each: " .. model, function()
            dir:write("levels.lua", LEVELS)
            local words, killed = { "run", "--log", "levels.db", "levels.lua", model }, 0
            for _, kill in ipairs(KILLS) do
                local is_event = type(kill) == "string"
                local events = s:state().events
                if is_event and (kill ~= "upload" or not model:find "^anthropic") then
                    s:set { kill = { [kill] = (events[kill] or 0) + 1 } }
                end
                if not is_event or kill ~= "upload" or not model:find "^anthropic" then
                    local r = s:ponder(dir, words, not is_event and "KILL_AT=" .. kill or nil)
                    assert.equal(137, r.status, kill .. r.err .. r.out)
                    words, killed = { "resume", "levels.db" }, killed + 1
                end
            end
            assert.is_true(killed >= 10)
            local r = s:ponder(dir, words)
            assert.equal(0, r.status, r.err)
            local state, calls = s:state(), 0
            for prompt, times in pairs(state.paid) do
                assert.equal(1, times, prompt)
                calls = calls + 1
            end
            assert.equal(300, calls)
            assert.matches("^300\t", r.out)
            -- Without a ~: nothing counts that was not paid.
            assert.matches("resume: 300 calls, 33k tokens", r.closing)
        end)
    end
end)

---------------------------------------------------------------------------------------------------

describe("a run that leaves its batch", function()
    -- Ends while its batch is in progress, by flags or by a signal of the service; resumes it.
    local function leave(status, flags, told)
        s:set { polls = 1000 }
        dir:write("ask.lua", ASK)
        local words = { "run", "--log", "ask.db", "ask.lua", "openai:gpt-6-luna", "one", "two" }
        for i, flag in ipairs(flags) do table.insert(words, 1 + i, flag) end
        local r = s:ponder(dir, words)
        assert.equal(status, r.status, r.err)
        assert.matches(told, r.err .. (r.closing or ""))
        s:set { polls = 1 }
        local again = s:ponder(dir, { "resume", "ask.db" })
        assert.same({ 0, "re: one (1)\nre: two (1)\n" }, { again.status, again.out })
        assert.same({ { one = 1, two = 1 }, 1 }, { s:state().paid, #s:state().batches })
    end

    it("ends with 75 and the line to type: --detach", function()
        leave(75, { "--detach" }, "detached: .*to continue: ponder resume ask%.db")
    end)

    it("ends with 124: --timeout", function() leave(124, { "--timeout", "300ms" }, "time") end)

    it("ends with 130: Ctrl-C", function()
        s:set { kill = { poll = 3 }, signal = "INT" }
        leave(130, {}, "interrupted")
    end)

    it("failed, since its key was refused meanwhile, pays nothing again", function()
        s:set { poll_status = 401 }
        dir:write("one.lua", "local m = require('ponder.model').open(..., { batch = true, "
            .. "batch_poll_ms = 5 })\nprint(assert(m:complete 'one'))")
        local r = s:ponder(dir, { "run", "--log", "ask.db", "one.lua", MODELS[1] })
        assert.equal(1, r.status)
        assert.matches("the batch cannot be read: poll %(status 401", r.err)
        r = s:ponder(dir, { "resume", "ask.db" })
        assert.same({ 0, "re: one\n" }, { r.status, r.out }, r.err)
        assert.same({ { one = 1 }, 1 }, { s:state().paid, #s:state().batches })
    end)

    it("detaches only with a log", function()
        local r = s:ponder(dir, { "run", "--no-log", "--detach", "-e", "" })
        assert.same({ 2, "ponder run: --detach needs a log (not --no-log)\n" }, { r.status, r.err })
    end)

    it("looks at its batch once: resume --detach", function()
        s:set { polls = 3 }
        dir:write("ask.lua", ASK)
        s:ponder(dir, { "run", "--log", "ask.db", "--detach", "ask.lua", MODELS[1], "one" })
        for _, status in ipairs { 75, 75, 0 } do
            assert.equal(status, s:ponder(dir, { "resume", "--detach", "ask.db" }).status)
        end
        assert.same({ one = 1 }, s:state().paid)
    end)
end)

describe("a tree search", function()
    it("sends each level as one batch, and is the same tree as without", function()
        local words = { shell.root .. "/scripts/batched_levels.lua", "--model", MODELS[1], "--keep",
            "3", "--k", "3", "--lines", "3", "the sea" }
        local plain = s:ponder(dir, { "run", "--no-log", table.unpack(words) })
        assert.equal(0, plain.status, plain.err)
        s:reset()
        local r = s:ponder(dir, { "run", "--log", "levels.db", "--batch", "--batch-poll", "5ms",
            "--detach", table.unpack(words) })
        local left = 0
        while r.status == 75 and left < 10 do
            left, r = left + 1, s:ponder(dir, { "resume", "--detach", "levels.db" })
        end
        assert.equal(0, r.status, r.err)
        assert.equal(plain.out:match "^(.-calls: %d+)", r.out:match "^(.-calls: %d+)")
        assert.same({ 9, 3, 9, 3, 3, 1 }, sizes()) -- the newest first: next lines, then grades
    end)
end)

describe("the flags", function()
    it("have every call of tot and eval sent in batches", function()
        dir:write("check.lua", [[local flags = ...
            return { data = { { question = "a" }, { question = "b" } },
                score = function() return 1 end, policies = { ask = { model = flags.model } } }]])
        local r = s:ponder(dir, { "eval", "--log", "eval.db", "--batch", "--batch-poll", "5ms",
            "--model", MODELS[1], "check.lua" })
        assert.equal(0, r.status, r.err)
        assert.equal(2, s:state().batches[1].lines)
    end)

    it("tell the old --batch N of tot from the new one", function()
        local r = s:ponder(dir, { "tot", "--batch", "4", "--model", MODELS[1], "Why?" })
        assert.equal(2, r.status)
        assert.matches("%-%-batch takes no number: .*%-%-round%-size 4 expands", r.err)
        assert.same({}, s:state().events)
    end)

    it("send the calls of other models as usual, and say so once", function()
        dir:write("echo.lua", "return function() return 'yes' end")
        local r = s:ponder(dir, { "run", "--no-log", "--batch", "-e",
            "local m = require('ponder.model').open 'script:echo.lua'; "
            .. "print(m:complete 'one', m:complete 'two')" })
        assert.same({ 0, "yes\tyes\n" }, { r.status, r.out })
        assert.matches("^ponder: script:echo%.lua has no batches: [^\n]*\n$", r.err)
    end)
end)

-- Runs code with `m`, a model with these options; returns what it prints.
local function run(code, opts, flags)
    dir:write("code.lua", ("local model, task = require 'ponder.model', require 'ponder.task'\n"
        .. "local m = model.open('openai:gpt-6-luna', { batch = true, batch_poll_ms = 5, %s })\n")
        :format(opts) .. code)
    dir:write("config/ponder/prices.lua",
        ("return { [%q] = { input = 0, output = 1000 } }"):format(s.url .. "/v1/gpt-6-luna"))
    local words = { "run", "--no-log" }
    table.move(flags or {}, 1, #(flags or {}), 3, words)
    words[#words + 1] = "code.lua"
    local r = s:ponder(dir, words, "XDG_CONFIG_HOME=" .. dir.path .. "/config")
    assert.equal(0, r.status, r.err)
    return r.out
end

local MANY = "local list = {} for i = 1, N do list[i] = 'p' .. i end "
    .. "task.map(list, function(p) return assert(m:complete(p)) end)"

describe("calls of a model with batches", function()
    it("reserve, and cost, half the price", function()
        -- 1,024 tokens of a reply are $0.512: ten at once fit, five wait for their room.
        assert.equal("0.005\n", run(MANY:gsub("N", "15") .. [[
            print(m:chat { messages = { { role = "user", content = "x" } } }.cost)]], "",
            { "--max-cost", "5.2" }))
        assert.same({ 1, 5, 10 }, sizes())
    end)

    it("go out at the provider's limit", function()
        run("require('ponder.model.openai').batch.max_lines = 2\n" .. MANY:gsub("N", "5"), "")
        local all = sizes()
        table.sort(all)
        assert.same({ 1, 2, 2 }, all)
    end)

    it("go out batch_wait_ms after the last one, though a task has something else to do", function()
        run([[
            local is_done
            task.spawn(function() while not is_done do task.sleep(0.01) end end)
            assert(m:complete "one")
            is_done = true]], "batch_wait_ms = 20")
        assert.same({ 1 }, sizes())
    end)

    it("give on_delta the whole text, and have no timeout_ms of their own", function()
        s:set { polls = 3 }
        assert.equal("re: one\ttext\n", run([[m:complete("one", { timeout_ms = 1,
            on_delta = function(text, kind) print(text, kind) end })]], ""))
    end)

    it("have n samples in one line, and vectors in batches of their own", function()
        assert.equal("4\t2\n", run([[
            local texts, vectors
            task.all { function() texts = m:complete("one", { n = 4 }) end,
                function() vectors = m:embed { "a", "b" } end }
            print(#texts, #vectors)]], ""))
        assert.same({ 1, 1 }, sizes())
    end)

    it("leave a batch that is still open when they are cancelled", function()
        run([[
            local is_done
            task.spawn(function() while not is_done do task.sleep(0.01) end end)
            local first = task.spawn(m.complete, m, "one")
            local second = task.spawn(m.complete, m, "two")
            task.sleep(0.05)
            first:cancel()
            assert(second:join())
            is_done = true]], "batch_wait_ms = 200")
        assert.same({ { 1 }, { two = 1 } }, { sizes(), s:state().paid })
    end)
end)
