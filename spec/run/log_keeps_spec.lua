-- What a log has and must not have: no keys, in any way; events before the first call; values that
-- JSON does not have; runs that are too long to replay.
local help = require "log_help"
local shell = require "shell"

local SECRET = "sk-secret-0123456789-abcdefghij"

-- Puts the key of a model that a script opens wherever a script can put it.
local EVERYWHERE = [[
    local KEY = %s
    local own = require("ponder.model").open("openai:m", { api_key = KEY })
    log.event("key", { key = KEY })
    say(log.record("echo", { key = KEY }, function() return "it is " .. KEY end))
    say(pcall(log.record, "fails", {}, error, "bad " .. KEY))
    say(log.tool("shown", { KEY }, function() return { KEY } end)[1])
    own:chat { messages = { { role = "user", content = "my key: " .. KEY } },
        metadata = { key = KEY } }
    require("ponder.search").run { initial_state = KEY, max_depth = 1,
        expand = function(state) own:chat { messages = { { role = "user", content = "next" } } }
            return { state .. "!" } end,
        evaluate = function() return 1 end, is_terminal = function(state) return state ~= KEY end }
    require("ponder.strategy.cot").new({ model = own }):run("what is " .. KEY)
    if arg[1] then error("died of " .. KEY) end
    return { key = KEY }
]]

describe("a log", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    for from, case in pairs {
        ["an option"] = { SECRET, ("%q"):format(SECRET) },
        ["the environment"] = { help.KEY, "os.getenv 'OPENAI_API_KEY'" },
    } do
        it("has no key that is from " .. from .. ", and replays without it", function()
            local secret, script = case[1], EVERYWHERE:format(case[2])
            w:begin(script)
            local first = w:run()
            assert.equal(0, first.status, first.err)
            assert.is_nil(first.err:find(secret, 1, true))
            assert.is_nil(w:bytes():find(secret, 1, true))
            assert.equal('{"key":"[redacted]"}', w:row "SELECT answer FROM runs")
            assert.equal(("it is %s\n"):format(secret), first.out:match "^[^\n]*\n")
            local again = w:replay()
            assert.same({ 0, first.out:gsub(secret:gsub("%-", "%%-"), "[redacted]"), first.err },
                { again.status, again.out, again.err })
            w:begin(script)
            assert.equal(1, w:run("die").status)
            assert.is_nil(w:bytes():find(secret, 1, true))
            assert.truthy(w:row("SELECT error FROM runs"):find("died of [redacted]", 1, true))
        end)
    end

    it("has no key of a script that is killed before it opens its model", function()
        w:begin(([[
            local KEY = "%s"
            say(log.record("page", {}, function() return "a page" end))
            os.execute "kill -KILL $PPID"
            say(KEY)]]):format(SECRET))
        assert.equal(137, w:run().status)
        assert.is_nil(w:bytes():find(SECRET, 1, true))
        assert.truthy(w:bytes():find("a page", 1, true))
    end)

    it("has no key of the command line", function()
        w:begin ""
        local url = w:environment().OPENAI_BASE_URL:gsub("//", "//me:pw@")
        local words = { "cot", "--log", w.log, "--headers", ('{ "x-api-key": "%s", "x-team": '
            .. '"blue-team-2", "accept": "text/event-stream" }'):format(SECRET), "--base-url="
            .. url .. "?sig=S1gnature%2F&api-version=1&token=" .. SECRET, "why" }
        assert.equal(0, w:ponder(words).status)
        for _, secret in ipairs { SECRET, "me:pw", "blue-team-2", "S1gnature%2F" } do
            assert.is_nil(w:bytes():find(secret, 1, true), secret)
        end
        assert.matches("text/event-stream", w:bytes(), 1, true)
        assert.matches("api-version=1", w:bytes(), 1, true)
        local result = w:resume()
        assert.same({ 1, "" }, { result.status, result.out })
        assert.equal(("ponder resume: %s: its command line had a key, which a log does not "
            .. "store; give it again: ponder fork -o headers=... %s\n"):format(w.log, w.log),
            result.err)
        assert.equal(0, w:replay().status)
    end)

    it("has no userinfo of addresses in the environment", function()
        w:begin "say(1)"
        w:ponder({ "run", "--log", w.log, w.script }, { env = {
            OPENAI_BASE_URL = "https://me:pw@127.0.0.1:1/v1?key=" .. SECRET,
            OLLAMA_HOST = "me:pw@127.0.0.1:1" } })
        local options = w:row "SELECT options FROM runs"
        assert.truthy(options:find("127.0.0.1:1", 1, true))
        assert.is_nil(w:bytes():find("me:pw", 1, true))
        assert.is_nil(w:bytes():find(SECRET, 1, true))
    end)

    it("beside a cache has no key there", function()
        w:begin(EVERYWHERE:format(("%q"):format(SECRET)))
        local file = w.dir.path .. "/cache.db"
        assert.equal(0, w:ponder({ "run", "--cache", file, w.script }).status)
        assert.is_true(w:row("SELECT count(*) FROM replies", file) > 0)
        assert.is_nil(w:bytes(file):find(SECRET, 1, true))
    end)

    it("is forked and resumed from any directory", function()
        w:begin 'say(ask "one")'
        w.dir:write("other/x", "")
        assert.equal(0, w:ponder({ "run", "--log", w.log, "script.lua" }).status)
        local other = { cwd = w.dir.path .. "/other" }
        assert.equal(0, w:ponder({ "resume", "../run.db" }, other).status)
        local result = w:ponder({ "fork", "--log", "new.db", "../run.db" }, other)
        assert.equal(0, result.status)
        assert.truthy(result.err:find("the log is " .. w.dir.path .. "/other/new.db", 1, true))
    end)

    it("of a fork that ends with os.exit has what it saved", function()
        w:begin 'ask "one" os.exit(3)'
        assert.equal(3, w:run().status)
        local result = w:ponder { "fork", "--log", w.dir.path .. "/new.db", w.log }
        assert.equal(3, result.status)
        assert.truthy(result.err:find("1 of 1 call was answered from ", 1, true))
    end)

    it("has no other reason for the end of a search than the error that ended it", function()
        w:begin [[require("ponder.search").run { initial_state = 1, is_terminal = function() end,
            evaluate = function() return 1 end,
            expand = function() ask "one" error "no more" end }]]
        assert.equal(1, w:run().status)
        assert.same({ "error" }, { w:row "SELECT status, reason FROM searches" })
    end)
end)

describe("a run without --log", function()
    local w

    before_each(function() w = help.open() end)
    after_each(function() w:close() end)

    it("keeps the events from before its first call", function()
        w:begin 'log.event("before", { n = 1 }) ask "one" log.event("after")'
        assert.equal(0, w:ponder({ "run", w.script }).status)
        local path = w:kept()[1]
        assert.same({ "before", '{"n":1}' }, { w:row("SELECT name, data FROM events WHERE id = 1",
            path) })
        assert.equal(2, (w:row("SELECT count(*) FROM events", path)))
    end)

    it("keeps the events of a machine from before its first call", function()
        local code = [[require("ponder.strategy.tot").new({ model = m,
            budget = { max_calls = 2 } }):run "why"]]
        w:begin(code)
        assert.equal(0, w:ponder({ "run", w.script }).status)
        assert.equal(0, w:run().status)
        local sql = "SELECT group_concat(search || name) FROM (SELECT * FROM events ORDER BY id)"
        assert.equal(w:row(sql), (w:row(sql, w:kept()[1])))
        assert.truthy(w:row(sql):find("^1[%w.]+,1[%w.]+"))
    end)

    it("says when too much happened before its first call to be logged", function()
        w:begin [[
            local text = ("x"):rep(1 << 20)
            for _ = 1, 65 do log.event("x", { text = text }) end say(ask "one" ~= nil)]]
        assert.equal(0, w:ponder({ "run", w.script }).status)
        local path = w:kept()[1]
        for _, command in ipairs { "resume", "replay" } do
            local result = w:ponder { command, path }
            assert.same({ 1, "", ("ponder %s: %s: too much happened before its first call to be "
                .. "logged; ponder fork reruns it\n"):format(command, path) },
                { result.status, result.out, result.err })
        end
        local forked = w:ponder { "fork", path }
        assert.same({ 0, "true\n" }, { forked.status, forked.out })
    end)
end)

describe("a value that JSON does not have", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    it("is refused where it is given, and again in a replay", function()
        w:begin [[
            local loop = {}
            loop.loop = loop
            say(pcall(log.event, "loop", loop))
            say(pcall(log.event, "nan", { 0 / 0 }))
            say(pcall(log.event, "note", "text"))
            say(pcall(log.event, "note", { "text" }))
            say(pcall(log.record, "key", { say }, say))
            say(pcall(log.record, "f", 1))
            say(pcall(log.record, "value", 1, function() return 1, 0 / 0 end))
            say(pcall(log.tool, "value", 1, function() return loop end))
            say(log.record("several", 1, function() return nil, false, 1, nil end))
            say(ask "one" ~= nil)
        ]]
        local result = w:run()
        local lines = shell.lines(result.out)
        assert.same({
            "false\tlog.event: data: value.loop: a table that contains itself cannot be JSON",
            "false\tlog.event: data: value[1]: NaN cannot be JSON",
            'false\tlog.event: data must be a table with names, such as { text = "text" } '
                .. '(got "text")',
            'false\tlog.event: data must be a table with names, such as { text = "..." } '
                .. "(got a table)",
            "false\tlog.record: key: value[1]: a function cannot be JSON",
            "false\tlog.record: f must be a function (got nil)",
            "false\tlog.record: what the function returned: value[2]: NaN cannot be JSON",
            "false\tlog.tool: what the function returned: value[1].loop: a table that contains "
                .. "itself cannot be JSON",
            "nil\tfalse\t1\tnil", "true" }, lines)
        assert.equal("[null,false,1,null]", w:row "SELECT value FROM effects WHERE status = 'ok'")
        assert.equal(result.out, w:replay().out)
    end)
end)
