-- Only logs that this user's ponder wrote are run again.

local help = require "log_help"
local store = require "ponder.core.store"
local trust = require "ponder.run.log.trust"

describe("a log that is run again", function()
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
        for _, command in ipairs { "resume", "replay", "fork" } do
            local result = w:ponder { command, w.log }
            assert.same({ 1, "" }, { result.status, result.out }, what)
            assert.matches(("^ponder %s: %s: you did not write this log[^\n]*%%-%%-trust runs it\n$"
                ):format(command, w.log:gsub("%p", "%%%0")), result.err)
            assert.matches('it runs "ponder run [^"]*" in [^,]+, with [^,]*script.lua %(script%)',
                result.err)
            assert.matches(w.server.url, result.err, 1, true)
        end
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
            "UPDATE runs SET mac = NULL", "DELETE FROM files",
            "UPDATE runs SET uid = '00'", "UPDATE runs SET command = 'tot'",
            [[UPDATE runs SET arguments = '["x"]']], "UPDATE runs SET directory = '/'",
            "UPDATE runs SET script = 'y'", "UPDATE runs SET input = 'typed'",
            "UPDATE runs SET input = 'nil'", -- it is NULL
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
        w:begin 'say(..., ask(...))'
        w:run("a")
        check_refused "a key that is none, which is not replaced: another process may have made it"
        w:sh "rm state/ponder/.log.key"
        check_refused "no key"
    end)

    it("runs with --trust; one that is resumed is this user's from then on", function()
        w:sh "rm -rf state"
        check_refused "a new state directory"
        for _, command in ipairs { "replay", "fork" } do
            assert.equal(0, w:ponder({ command, "--trust", w.log }).status)
            assert.equal(1, w:ponder({ command, w.log }).status)
        end
        assert.equal(0, w:ponder({ "resume", "--trust", w.log }).status)
        assert.equal(0, w:resume().status)
        assert.equal(0, w:replay().status)
    end)

    it("runs no command that logs nothing", function()
        change "UPDATE runs SET command = 'doctor', arguments = '[]'"
        for _, arguments in ipairs { { "replay" }, { "resume" }, { "fork" } } do
            arguments[2], arguments[3] = "--trust", w.log
            local result = w:ponder(arguments)
            assert.is_true(result.status ~= 0 and result.out == "", result.out)
            assert.matches("ponder doctor is not run again from its log", result.err, 1, true)
        end
    end)
end)

describe("what a log would run", function()
    it("is described with its files, and the servers of its options and arguments", function()
        local run = { command = "eval", arguments = { "a.lua", "redis://b/1", "http://c" },
            directory = "/d", options = { OPENAI_BASE_URL = "https://e", OLLAMA_HOST = 1 } }
        assert.equal('it runs "ponder eval a.lua redis://b/1 http://c" in /d, with a.lua (script), '
            .. "f.lua (module), and asks https://e (OPENAI_BASE_URL), redis://b/1, http://c",
            trust.describe(run, { ["f.lua"] = { kind = "module" },
                ["a.lua"] = { kind = "script" } }))
        assert.equal('it runs "ponder run "',
            trust.describe({ command = "run", arguments = {}, options = {} }, {}))
    end)
end)

describe("HMAC-SHA256", function()
    it("is that of RFC 4231", function()
        assert.equal("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            trust.hmac(("\x0b"):rep(20), "Hi There"))
        assert.equal("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            trust.hmac("Jefe", "what do ya want for nothing?"))
    end)
end)
