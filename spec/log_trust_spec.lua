-- Only logs that this user's ponder wrote are resumed and forked. Where keys are sent.

local help = require "log_help"
local store = require "ponder.core.store"
local trust = require "ponder.log.trust"

describe("a log that is resumed or forked", function()
    local w

    before_each(function()
        w = help.open()
        w:begin 'say(..., ask(...))'
        assert.equal(0, w:run("a").status)
    end)
    after_each(function() w:close() end)

    local function change(sql, ...)
        local db <close> = assert(store.open(w.log, { mode = "write" }))
        assert(db:execute(sql, ...))
    end

    local function check_refused(what)
        local before = w:requests()
        for _, command in ipairs { "resume", "fork" } do
            local result = w:ponder { command, w.log }
            assert.same({ 1, "" }, { result.status, result.out }, what)
            assert.matches(("^ponder %s: %s: you did not write this log[^\n]*%%-%%-trust runs it\n$"
                ):format(command, w.log:gsub("%p", "%%%0")), result.err)
            assert.matches('it runs "ponder run [^"]*" in [^,]+, with [^,]*script.lua %(script%)',
                result.err)
            assert.matches(w.server.url, result.err, 1, true)
        end
        assert.equal(0, w:replay().status, what)
        assert.equal(before, w:requests())
    end

    it("runs unchanged for the user who wrote it", function()
        assert.equal(0, w:resume().status)
        assert.equal(0, w:ponder({ "fork", "--log", w.log .. ".2.db", w.log }).status)
        assert.equal(0, w:ponder({ "resume", w.log .. ".2.db" }).status)
        assert.equal("600\n", w:sh("stat -c %a state/ponder/.log.key").out)
    end)

    it("does not run once anything that decides what runs has changed", function()
        for _, sql in ipairs { "UPDATE files SET path = path || 'x'",
            "UPDATE files SET text = text || ' ', hash = '%s'",
            "UPDATE files SET absolute = '/etc/passwd'", "UPDATE files SET kind = 'module'",
            "UPDATE files SET mac = NULL", "UPDATE runs SET mac = NULL",
            "UPDATE runs SET uid = '00'", "UPDATE runs SET command = 'tot'",
            [[UPDATE runs SET arguments = '["x"]']], "UPDATE runs SET directory = '/'",
            "UPDATE runs SET script = 'y'", "UPDATE runs SET input = 'typed'",
            "UPDATE runs SET seed = seed + 1",
            "INSERT INTO files (path, kind, hash, text) VALUES ('x.lua', 'module', "
                .. "'" .. store.sha256 "" .. "', '')" } do
            w:sh "cp run.db saved.db"
            local text = w:row "SELECT text FROM files"
            change(sql:format(store.sha256(text .. " ")))
            local result = w:resume()
            assert.equal(1, result.status, sql)
            assert.matches("you did not write this log", result.err, 1, true)
            w:sh "cp saved.db run.db"
        end
        assert.equal(0, w:resume().status)
    end)

    it("does not run with another key, without a key, or with an inserted address", function()
        change([[UPDATE runs SET options = '{"PONDER_MODEL":"openai:m",
            "OPENAI_BASE_URL":"]] .. w.server.url .. [[/evil"}']])
        check_refused "an address"
        w:begin 'say(..., ask(...))'
        w:run("a")
        w:sh "echo 00 > state/ponder/.log.key"
        check_refused "another key"
        w:sh "rm state/ponder/.log.key"
        check_refused "no key"
    end)

    it("runs with --trust, which signs it", function()
        w:sh "rm -rf state"
        check_refused "a new state directory"
        assert.equal(0, w:ponder({ "resume", "--trust", w.log }).status)
        assert.equal(0, w:resume().status)
        w:sh "rm -rf state"
        assert.equal(0, w:ponder({ "fork", "--trust", w.log }).status)
        assert.equal(0, w:ponder({ "fork", w.log }).status)
    end)

    it("never sends a key to an address that only the log names", function()
        local url = w.server.url .. "/v1"
        w:begin 'say(ask "one"); error "stop"'
        w:ponder({ "run", "--log", w.log, w.script }, { env = { OPENAI_BASE_URL = url } })
        local before = w:requests()
        for _, command in ipairs { "resume", "fork" } do
            local result = w:ponder({ command, w.log }, { env = { OPENAI_BASE_URL = "" } })
            assert.same({ 1, "" }, { result.status, result.out })
            assert.matches("only this log names the server " .. w.server.url, result.err, 1, true)
            assert.matches(("; to send it your key: ponder %s --base-url %s %s\n"):format(command,
                url, w.log), result.err, 1, true)
        end
        for _, config in ipairs { 'providers = { openai = { api_key = "k-0123456789" } }',
            'providers = { openai = { headers = { ["x-team-key"] = "k-0123456789" } } }',
            'aliases = { mine = { model = "openai:m", api_key = "k-0123456789" } }',
            'aliases = { mine = { model = "openai:m", headers = { authorization = "k-012" } } }',
            'defaults = { headers = { ["x-team-key"] = "k-0123456789" } }' } do
            w.dir:write("config/ponder/config.lua", "return { " .. config .. " }")
            local result = w:ponder({ "resume", "--trust", w.log }, { env = { OPENAI_BASE_URL = "",
                OPENAI_API_KEY = "", XDG_CONFIG_HOME = w.dir.path .. "/config" } })
            assert.matches("only this log names the server", result.err, 1, true)
        end
        assert.equal(before, w:requests())
        -- Without a key there is nothing to lose, nor with another provider's; and a named address
        -- may get it.
        w.dir:write("config/ponder/config.lua",
            'return { providers = { anthropic = { api_key = "k-0123456789" } } }')
        local result
        for _, config in ipairs { "/none", "/config" } do
            result = w:ponder({ "resume", w.log }, { env = { OPENAI_BASE_URL = "",
                OPENAI_API_KEY = "", XDG_CONFIG_HOME = w.dir.path .. config } })
            assert.matches("stop", result.err, 1, true)
        end
        w.dir:write("config/ponder/config.lua", ('return { providers = { openai = { '
            .. 'api_key = "k-0123456789", base_url = %q } } }'):format(url))
        result = w:ponder({ "resume", w.log }, { env = { OPENAI_BASE_URL = "",
            OPENAI_API_KEY = "", XDG_CONFIG_HOME = w.dir.path .. "/config" } })
        assert.matches("stop", result.err, 1, true)
    end)

    it("never sends a key to an address that only the log's command line names", function()
        local url = w.server.url .. "/v1"
        local env = { OPENAI_BASE_URL = "", PONDER_MODEL = "" }
        w:ponder({ "cot", "--log", w.log .. "2", "--model", "openai:m", "--base-url", url,
            "--max-calls", "1", "Why?" }, { env = env })
        local before = w:requests()
        assert.is_true(before > 1)
        for _, command in ipairs { "resume", "fork" } do
            local result = w:ponder({ command, w.log .. "2" }, { env = env })
            assert.same({ 1, "" }, { result.status, result.out })
            assert.equal(("ponder %s: %s2: only this log names the server %s; to send it "
                .. "your key: ponder %s --base-url %s %s2\n"):format(command, w.log, url,
                command, url, w.log), result.err)
            result = w:ponder({ command, "--trust", "--base-url", url .. "/x", w.log .. "2" },
                { env = env })
            assert.matches("only this log names the server", result.err, 1, true)
        end
        assert.equal(before, w:requests())
        -- It is named: on this command line, in the environment, in the configuration.
        w.dir:write("config/ponder/config.lua",
            ('return { aliases = { here = { base_url = %q } } }'):format(url))
        for _, now in ipairs { { arguments = { "--base-url", url } }, { OPENAI_BASE_URL = url },
            { XDG_CONFIG_HOME = w.dir.path .. "/config" }, { OPENAI_API_KEY = "" } } do
            local words = { "fork", w.log .. "2" }
            table.move(now.arguments or {}, 1, 2, 3, words)
            now.arguments = nil
            for name, value in pairs(env) do now[name] = now[name] or value end
            local result = w:ponder(words, { env = now })
            assert.not_matches("only this log", result.err)
        end
        -- Nor where the log has only a part of it.
        local masked = url:gsub("//", "//u:pass@")
        w:ponder({ "cot", "--log", w.log .. "3", "--model", "openai:m", "--base-url", masked,
            "--max-calls", "1", "Why?" }, { env = env })
        before = w:requests()
        local result = w:ponder({ "fork", w.log .. "3" }, { env = env })
        assert.matches("only this log names the server", result.err, 1, true)
        assert.equal(before, w:requests())
        -- A replaced address is not used.
        result = w:ponder({ "fork", "-o", "base-url=" .. url .. "/other", w.log .. "2" },
            { env = env })
        assert.not_matches("only this log", result.err)
    end)

    it("runs no command that logs nothing", function()
        change "UPDATE runs SET command = 'doctor', arguments = '[]'"
        for _, arguments in ipairs { { "replay" }, { "resume", "--trust" }, { "fork" } } do
            arguments[#arguments + 1] = w.log
            local result = w:ponder(arguments)
            assert.is_true(result.status ~= 0 and result.out == "", result.out)
            assert.matches("the log is damaged: it names the command", result.err, 1, true)
        end
    end)
end)

it("the command that resumes a run names its servers", function()
    local command = trust.resume_command
    assert.equal("ponder resume", command({ "Why?" }))
    assert.equal("ponder resume --base-url http://a/v1 --base-url http://b/v1 '/a b.db'",
        command({ "--base-url", "http://a/v1", "--base-url=http://b/v1", "Why?" }, "/a b.db"))
end)

describe("HMAC-SHA256", function()
    it("is that of RFC 4231", function()
        assert.equal("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            trust.hmac(("\x0b"):rep(20), "Hi There"))
        assert.equal("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            trust.hmac("Jefe", "what do ya want for nothing?"))
    end)
end)
