-- ponder.model.cache: what it answers, what it stores, and its file.

local cache = require "ponder.model.cache"
local flights = require "ponder.model.cache.flight"
local help = require "task_help"
local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local shell = require "shell"
local store = require "ponder.core.store"
local task = require "ponder.task"
local within = require "within"

local HELLO = { { role = "user", content = "Hello" } }

-- A client whose models answer as `player` says; each request is counted in `sent`.
local function open_client(player)
    local sent = {}
    local client = model.client { env = function() return nil end, config = {}, transport = {},
        prices = { ["play:*"] = { input = 10, output = 10 } } }
    client.register("play", { call = function(request)
        sent[#sent + 1] = request.sample
        return player(request)
    end })
    return client, sent
end

local function yes(request)
    task.sleep(1)
    return { text = "yes " .. request.sample, usage = { input_tokens = 3, output_tokens = 4 } }
end

local function ask(m, opts) return m:chat(merge({ messages = HELLO }, opts)) end

-- Runs f(m, sent, path) with a cache of its own around model "play:m".
local function with_cache(player, f)
    local dir <close> = shell.directory()
    local path = dir.path .. "/replies.db"
    help.run(function()
        local client, sent = open_client(player or yes)
        local warnings = {}
        local replies <close> = assert(cache.open(path, function(line)
            warnings[#warnings + 1] = line
        end))
        replies:use(client.use)
        f(client.open("play:m"), sent, path, client, replies, warnings)
    end)
end
local in_cache = within(with_cache)

describe("a repeated request", function()
    it("is answered from the cache", in_cache(nil, function(m, sent)
        local first, second = ask(m), ask(m)
        assert.same({ 1, 1 }, { #sent, task.now() })
        assert.same({ "yes 1", "yes 1" }, { first.text, second.text })
        assert.same({ nil, true }, { first.cached, second.cached })
        assert.same({ 70 / 1e6, 0, 0, 0 },
            { first.cost, second.cost, second.attempts, second.latency_ms })
        assert.same(first.usage, second.usage)
        assert.is_true(task.with_context("outside", true, ask, m).cached) -- and no run has a tape
    end))

    it("gets a reply of its own, which it may change", function()
        with_cache(function() return { text = "a", tool_calls = { { name = "f",
            arguments = { x = 1 } } } } end, function(m)
            local replies = { ask(m), ask(m), ask(m) }
            replies[2].samples[1].tool_calls[1].arguments.x = 2
            replies[2].texts[1] = "b"
            assert.equal(1, replies[3].tool_calls[1].arguments.x)
            assert.equal(1, ask(m).tool_calls[1].arguments.x)
        end)
    end)

    it("is answered in later runs", function()
        local dir <close> = shell.directory()
        for run = 1, 3 do
            help.run(function()
                local client, sent = open_client(yes)
                local replies <close> = assert(cache.open(dir.path .. "/replies.db"))
                replies:use(client.use)
                assert.equal("yes 1", ask(client.open("play:m")).text)
                assert.equal(run == 1 and 1 or 0, #sent)
            end)
        end
    end)

    it("is not one with another sample, model or option", in_cache(nil, function(m, sent, _, client)
        ask(m)
        assert.equal("yes 2", ask(m, { sample = 2 }).text)
        ask(m, { temperature = 0.5 })
        ask(client.open("play:other"))
        ask(m, { messages = { { role = "user", content = "Hello!" } } })
        assert.equal(5, #sent)
        ask(m, { sample = 2 })
        ask(m, { temperature = 0.5, metadata = { any = 1 } })
        assert.equal(5, #sent)
    end))

    it("gets a stream if it asks for one", in_cache(nil, function(m, sent)
        ask(m)
        local heard = {}
        ask(m, { on_delta = function(text) heard[#heard + 1] = text end })
        assert.same({ "yes 1" }, heard)
        assert.equal(1, #sent)
    end))

    it("is sent again with cache = false, which stores nothing", in_cache(nil, function(m, sent)
        ask(m, { cache = false })
        ask(m)
        ask(m, { cache = false })
        ask(m)
        assert.equal(3, #sent)
    end))

    it("gets the other fields of the reply as the server sent them", function()
        local dir <close> = shell.directory()
        local draft = { samples = { { text = "a" } }, usage = { input_tokens = 1 }, id = "x",
            raw = { n = 1e300, list = {}, missing = require("ponder.json").null } }
        help.run(function()
            local replies <close> = assert(cache.open(dir.path .. "/c.db"))
            local request = require("ponder.model.call").request { sample = 1, provider = "p",
                model = "m", cache = true, target = { provider = {} } }
            local first = replies:answer(request, function() return draft end)
            assert.equal(draft, first)
            local second = replies:answer(request, error)
            assert.same({ draft.samples, draft.usage, "x", draft.raw, "cache" },
                { second.samples, second.usage, second.id, second.raw, second.origin })
            draft.raw.n = math.huge
            request.sample = 2
            replies:answer(request, function() return draft end)
            second = replies:answer(request, error)
            assert.same({ draft.samples, nil }, { second.samples, second.raw })
        end)
    end)
end)

describe("a failed or incomplete reply", function()
    it("is asked for again", function()
        local cases = {
            { nil, "no", "SERVER" },
            { { samples = { { text = "cut" } }, truncated = true } },
            { { samples = { { finish_reason = "content_filter" } } } },
            { { samples = { { refusal = "I will not" } } } },
            { { samples = { { text = "a" }, { refusal = "I will not" } } } },
            { { samples = {} } },
        }
        for _, case in ipairs(cases) do
            local dir <close> = shell.directory()
            help.run(function()
                local client = open_client(yes)
                local replies <close> = assert(cache.open(dir.path .. "/c.db"))
                replies:use(client.use)
                local asked = 0
                client.use(function()
                    asked = asked + 1
                    return table.unpack(case, 1, 3)
                end)
                ask(client.open("play:m"))
                local once = asked
                ask(client.open("play:m"))
                assert.equal(2 * once, asked)
            end)
        end
    end)
end)

describe("equal requests in flight", function()
    it("are sent once", in_cache(nil, function(m, sent)
        local replies = task.map({ 1, 2, 3, 4 }, function() return ask(m) end)
        assert.same({ 1, 1 }, { #sent, task.now() })
        for i = 1, 4 do
            assert.same({ "yes 1", i > 1 or nil }, { replies[i].text, replies[i].cached })
        end
    end))

    it("are sent one after the other if the first fails", function()
        local tries = 0
        with_cache(function(request)
            tries = tries + 1
            task.sleep(1)
            if tries < 3 then return nil, "broken", "SERVER" end
            return "yes " .. request.sample
        end, function(m)
            local replies, errors = task.map({ 1, 2, 3, 4, 5 }, function() return ask(m) end)
            assert.same({ 3, 3 }, { tries, task.now() })
            assert.same({ "SERVER", "SERVER" }, { errors[1].code, errors[2].code })
            for i = 3, 5 do
                assert.equal("yes 1", replies[i].text)
            end
        end)
    end)

    it("are sent again if the first is cancelled or raises an error",
        in_cache(nil, function(m, sent, _, client)
            client.use(function(request, next)
                if request.metadata then error "on purpose" end
                return next(request)
            end)
            local first = task.spawn(ask, m)
            local second = task.spawn(ask, m, { metadata = { raise = true } })
            local third = task.spawn(ask, m)
            task.sleep(0.5)
            assert.equal(1, #sent)
            first:cancel()
            local _, message = second:join()
            assert.truthy(message:find "on purpose")
            assert.equal("yes 1", third:join().text)
            assert.equal(2, #sent)
        end))

    it("continue when a waiting one is cancelled", in_cache(nil, function(m, sent)
        local handles = {}
        for i = 1, 4 do handles[i] = task.spawn(ask, m) end
        task.sleep(0.5)
        handles[2]:cancel()
        handles[3]:cancel()
        assert.equal("yes 1", handles[1]:join().text)
        assert.equal("yes 1", handles[4]:join().text)
        assert.equal(1, #sent)
    end))

    it("continue whichever is cancelled at any time", function()
        local random = math.random
        for seed = 1, 200 do
            math.randomseed(seed)
            with_cache(function(request)
                task.sleep(random(0, 4))
                if random(3) == 1 then return nil, "broken", "SERVER" end
                return "yes " .. request.sample
            end, function(m)
                local handles = {}
                for i = 1, 12 do
                    local sample = random(2)
                    handles[i] = task.spawn(function()
                        task.sleep(random(0, 3))
                        return sample, ask(m, { sample = sample })
                    end)
                end
                for _ = 1, 4 do
                    task.sleep(random(0, 2))
                    handles[random(12)]:cancel()
                end
                for i = 1, 12 do
                    local sample, reply, _, code = handles[i]:join()
                    if sample then
                        assert.equal(reply and "yes " .. sample, reply and reply.text)
                        assert.equal(not reply and "SERVER" or nil, code)
                    end
                end
            end)
        end
    end)

    it("count as one call in a budget", in_cache(nil, function(m)
        task.with_budget({ max_calls = 1 }, function()
            local replies = task.map({ 1, 2, 3 }, function() return ask(m) end)
            assert.equal("yes 1", replies[3].text)
            assert.same({ 1, 7, 70 / 1e6 }, { task.spent().calls, task.spent().tokens,
                task.spent().cost })
        end)
    end))
end)

describe("the file", function()
    it("stores its contents in plain columns", in_cache(nil, function(m, _, path)
        ask(m, { sample = 3 })
        local db <close> = assert(store.open(path, { mode = "read" }))
        local identity, provider, name, sample, request, input, output, cost, at = db:row(
            "SELECT identity, provider, model, sample, request, input_tokens, output_tokens,"
            .. " cost, created_at FROM replies")
        assert.truthy(identity:find "^%x+$")
        assert.same({ 64, "play", "m", 3, 3, 4, 70 / 1e6 },
            { #identity, provider, name, sample, input, output, cost })
        assert.truthy(request:find("Hello", 1, true))
        assert.is_true(math.abs(at - os.time()) < 100)
        assert.equal(1, (db:row "PRAGMA user_version"))
    end))

    it("is refused and left alone if it is not a cache", function()
        local dir <close> = shell.directory { ["notes.txt"] = "these are notes, and no database" }
        assert(store.open(dir.path .. "/log.db", { mode = "create",
            application_id = 7 })):close()
        assert(store.open(dir.path .. "/new.db", { mode = "create",
            application_id = 0x706e6463, version = 99 })):close()
        for name, code in pairs { ["notes.txt"] = "NOT_A_LOG", ["log.db"] = "NOT_A_LOG",
            ["new.db"] = "NEWER", ["no/such/dir.db"] = "NOT_FOUND" } do
            local path = dir.path .. "/" .. name
            local none, message, why = cache.open(path)
            assert.same({ nil, code }, { none, why }, message)
            assert.equal(path, message:sub(1, #path))
        end
        assert.equal("these are notes, and no database", dir:read("notes.txt"))
        assert(os.execute("mkfifo " .. dir.path .. "/pipe"))
        local result = dir:ponder { "run", "--cache", "pipe", "-e", "" }
        assert.same({ 2, "ponder run: --cache: pipe: is not a regular file\n" },
            { result.status, result.err })
    end)

    it("is awaited while another process makes it of an empty file", function()
        local dir <close> = shell.directory { ["new.db"] = "" }
        task.run(function()
            task.spawn(function() task.sleep(0.1) os.remove(dir.path .. "/new.db") end)
            assert(cache.open(dir.path .. "/new.db")):close()
        end)
    end)

    it("is done without if its disk or memory fails, not if it is another's", function()
        local _ <close> = setmetatable({ store.open }, { __close = function(of)
            store.open = of[1]
        end })
        for code, passes in pairs { EXISTS = true, FULL = true, IO = true, LOCKED = true,
            MEMORY = true, READ_ONLY = true, DAMAGED = false, NEWER = false } do
            store.open = function() return nil, "x.db: no", code end
            local warning
            local opened = cache.open("x.db", function(line) warning = line end)
            assert.equal(passes, opened ~= nil, code)
            assert.equal(passes and "x.db: no; replies are no longer kept in the cache", warning or
                false)
        end
    end)

    it("does not wait for itself where a request could not be released", function()
        local dir <close> = shell.directory()
        local db <close> = assert(store.open(dir.path .. "/x.db", { mode = "create",
            application_id = 7 }))
        assert(db:execute(flights.SCHEMA))
        local holder = flights.holder()
        for _ = 1, 2 do assert.is_nil(flights.claim(db, "key", holder, print)) end
    end)

    it("is only read if it cannot be written, with one warning",
        in_cache(nil, function(m, sent, path, _, _, warnings)
            local blocker = assert(store.open(path, { mode = "write", lock = false }))
            ask(m)
            blocker:begin()
            assert.equal("yes 2", ask(m, { sample = 2 }).text)
            assert.equal("yes 3", ask(m, { sample = 3 }).text)
            assert.equal(1, #warnings)
            assert.truthy(warnings[1]:find("^/[^\n]*/replies.db: [^\n]*; "
                .. "replies are no longer kept in the cache$"), warnings[1])
            assert.is_true(ask(m).cached)
            assert.equal(3, #sent)
            blocker:rollback()
            ask(m, { sample = 2 })
            assert.equal(1, (blocker:row "SELECT count(*) FROM replies"))
            blocker:close()
        end))

    it("is said to have lost what cannot be written when it is closed",
        in_cache(nil, function(_, _, _, _, replies, warnings)
            replies.backend.db:close()
            replies.backend.db = { close = function() return nil, "the disk is full" end }
            replies:close()
            assert.same({ "the disk is full; replies are no longer kept in the cache" }, warnings)
        end))

    it("does not end a run if it is damaged while it is read",
        in_cache(nil, function(m, _, _, _, replies, warnings)
            ask(m)
            replies.backend.db:script("DROP TABLE replies")
            assert.equal("yes 1", ask(m).text)
            assert.equal("yes 1", ask(m).text)
            assert.equal(1, #warnings)
        end))

    it("may be closed during calls", in_cache(nil, function(m, sent, _, _, replies)
        local handle = task.spawn(ask, m)
        task.sleep(0.5)
        replies:close()
        assert.equal("yes 1", handle:join().text)
        ask(m)
        assert.equal(2, #sent)
    end))
end)

it("must be named in cache.open", function()
    help.raises("^spec/[%w/_]+.lua:%d+: cache.open: path must be a path or URL %(got nil%)",
        function() cache.open() end)
    help.raises('cache.open: path must be a path or URL %(got ""%)', cache.open, "")
    help.raises("cache.open: path must be a path or URL", cache.open, "a\0b")
end)

describe("two caches of one file", function()
    it("send a request once: the second waits for the first", in_cache(nil, function(m, sent, path)
        local client, sent_by_other = open_client(yes)
        local other <close> = assert(cache.open(path))
        other:use(client.use)
        local replies = task.all {
            function() return ask(m) end, function() return ask(client.open "play:m") end }
        assert.same({ "yes 1", "yes 1" }, { replies[1].text, replies[2].text })
        assert.same({ 1, 0 }, { #sent, #sent_by_other })
        assert.is_true(replies[2].cached)
    end))

    it("send it twice if the first got no reply", function()
        with_cache(function() task.sleep(1) return nil, "no", "SERVER" end,
            function(m, sent, path)
                local client, sent_by_other = open_client(yes)
                local other <close> = assert(cache.open(path))
                other:use(client.use)
                local replies = task.all {
                    function() return ask(m) end, function() return ask(client.open "play:m") end }
                assert.same({ 1, 1 }, { #sent, #sent_by_other })
                assert.equal("yes 1", (replies[2] or replies[1]).text)
            end)
    end)

    it("do not wait for a process that was killed", function()
        local own = flights.holder()
        local here = own:match "%S+$"
        assert.equal(shell.read "/proc/sys/kernel/hostname":match "%S+", here)
        for _, holder in ipairs { "1 0 x 1 " .. here, "4194305 5 x 1 " .. here, "nonsense",
            own:gsub("^(%d+) %d+", "%1 5"), own:gsub("^(%d+ %d+) %S+", "%1 -"),
            "7 7 x 1 elsewhere" } do
            with_cache(nil, function(m, sent, path)
                local db <close> = assert(store.open(path, { mode = "write", lock = false }))
                ask(m)
                db:execute("INSERT OR REPLACE INTO flights SELECT identity, ?, 0 FROM replies",
                    holder)
                db:execute "DELETE FROM replies"
                assert.equal("yes 1", ask(m).text)
                assert.equal(2, #sent)
                assert.equal(2, task.now())
                assert.equal(0, (db:row "SELECT count(*) FROM flights"))
            end)
        end
    end)

    it("wait for a process that may still be asking: on another machine a quarter of an hour",
        function()
            local dir <close> = shell.directory()
            local db <close> = assert(store.open(dir.path .. "/x.db", { mode = "create",
                application_id = 7 }))
            assert(db:execute(flights.SCHEMA))
            local own = flights.holder()
            local beside = own:gsub("%d+ (%S+)$", "99 %1")
            for _, case in ipairs { { "7 7 x 1 elsewhere", 0, true },
                { "7 7 x 1 elsewhere", 890, true }, { "7 7 x 1 elsewhere", 910, false },
                { beside, 0, true }, { beside, 5000, true } } do
                local other, age, waits = table.unpack(case)
                db:execute("INSERT OR REPLACE INTO flights VALUES ('k', ?, ?)", other,
                    os.time() - age)
                help.run(function()
                    local looked = 0
                    local reply = flights.claim(db, "k", own, function()
                        looked = looked + 1
                        return looked == 2 and "its reply" or nil
                    end)
                    assert.equal(waits and "its reply" or nil, reply)
                end)
                assert.equal(waits and other or own, (db:row "SELECT holder FROM flights"))
            end
        end)
end)

describe("the samples of an evaluation", function()
    local dir

    before_each(function()
        dir = shell.directory()
        dir:write("model.lua", [[return function(request)
            local file <close> = assert(io.open("asked", "a+"))
            local count = select(2, file:read "a":gsub("\n", ""))
            file:write "\n"
            return { text = tostring(count) }
        end]])
        dir:write("e.lua", [[
            local ensemble, model = require "ponder.ensemble", require "ponder.model"
            local flags, data = ..., {}
            for i = 1, 4 do data[i] = { id = "i" .. i, question = "the same" } end
            local m = model.open("script:model.lua", { cache = os.getenv "SHARED" and "shared" })
            local function vote(n)
                local texts = {}
                for i, sample in ipairs(ensemble.self_consistency { model = m, n = n,
                    prompt = "the same" }.samples) do texts[i] = sample.text end
                return table.concat(texts, " ")
            end
            return { data = data, score = function() return true end, policies = {
                once = { model = m },
                all = function()
                    return m:complete "the same" .. " " .. vote(2) .. " " .. vote(2) .. " "
                        .. m:complete "the same"
                end,
            } }]])
    end)

    after_each(function() dir:__close() end)

    -- The answers by policy, item and epoch, and the number of requests so far.
    local function play(arguments, env)
        local result = dir:ponder(arguments, { env = env })
        assert.equal(0, result.status, result.err)
        local answers = {}
        for _, record in ipairs(json.decode(result.out).records) do
            answers[("%s %s %d"):format(record.policy, record.id, record.epoch)] = record.answer
        end
        return answers, select(2, dir:read "asked":gsub("\n", ""))
    end

    local CACHED = { "eval", "--no-log", "--json", "--cache", "c.db", "--epochs", "3", "e.lua" }

    it("are different by item, epoch and number, with a cache, too", function()
        local answers, asked = play(CACHED)
        local seen, count = {}, 0
        for key, answer in pairs(answers) do
            for text in answer:gmatch "%d+" do
                count = count + (key:find "^all" and not seen[text] and 1 or 0)
                seen[text] = seen[text] or key:find "^all"
            end
        end
        assert.same({ 72, 72 }, { count, asked }) -- six for each of four items and three epochs
        for item = 1, 4 do -- the first is that of the other policy
            for epoch = 1, 3 do
                local key = ("i%d %d"):format(item, epoch)
                assert.equal(answers["once " .. key], answers["all " .. key]:match "%d+")
            end
        end
        local again, asked_again = play(CACHED)
        assert.same(answers, again)
        assert.equal(asked, asked_again)
    end)

    it("are one sample if the call says so", function()
        local _, asked = play(CACHED, { SHARED = "1" })
        assert.equal(2, asked)
    end)

    it("in the first epoch are those of a forked log without further ones", function()
        local before, asked = play { "eval", "--json", "--log", "a.db", "e.lua" }
        local after, asked_after = play { "fork", "-o", "policy=once,all,epochs=3", "--log",
            "b.db", "a.db" }
        assert.equal(3 * asked, asked_after)
        for key, answer in pairs(before) do
            assert.equal(answer, after[key], key)
        end
    end)

    it("cost what was asked, whoever answers", function()
        dir:write("model.lua", [[return function(request)
            return { text = "1", usage = { input_tokens = 10, output_tokens = 1 } }
        end]])
        local function figures(...)
            local result = dir:ponder { ... }
            assert.equal(0, result.status, result.err)
            local object, list, paid = json.decode(result.out), {}, 0
            for i, policy in ipairs(object.policies) do
                list[i] = { policy.samples, policy.calls, policy.tokens, policy.cost }
                paid = paid + policy.paid.calls.total
            end
            list.samples, list.tokens = object.curves.samples, object.curves.tokens
            return list, math.tointeger(paid)
        end
        local asked, paid = figures("eval", "--json", "--log", "a.db", "e.lua")
        assert.same({ 6, 28 }, { asked[1][1].mean, paid })
        for _, case in ipairs { { 24, "eval", "--cache", "c.db", "--no-log", "--json", "e.lua" },
            { 0, "eval", "--cache", "c.db", "--no-log", "--json", "e.lua" },
            { 0, "fork", "--log", "b.db", "a.db" } } do
            local again, paid_again = figures(table.unpack(case, 2))
            assert.same(asked, again)
            assert.equal(case[1], paid_again)
        end
    end)
end)

it("a cache asks a scripted model again whose file has changed", function()
    local dir <close> = shell.directory { ["p.lua"] =
        'print(require("ponder.model").open("script:m.lua"):complete "Hello")' }
    for _, text in ipairs { "one", "one", "two" } do
        dir:write("m.lua", ("return function() return '%s' end"):format(text))
        assert.equal(text .. "\n", dir:ponder { "run", "--no-log", "--cache", "c.db", "p.lua" }.out)
    end
end)
