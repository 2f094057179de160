-- Where logs of runs are stored, and what they never contain.

local help = require "log_help"
local json = require "ponder.json"
local server = require "server"
local store = require "ponder.core.store"

describe("the log of a run", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    local ASK = [[say(ask "one")]]

    describe("without --log", function()
        before_each(function() w:sh "rm -rf state" end)

        local function run(...)
            local words = table.pack("run", ...)
            words[#words + 1] = w.script
            return w:ponder(words)
        end

        it("is created at the first call", function()
            w:begin [[say(os.time(), math.random(1 << 30), os.getenv "NOTHING"); say(ask "one")]]
            local first = run "--json"
            assert.same({ 0, "" }, { first.status, first.err })
            local kept = w:kept()
            assert.equal(1, #kept)
            assert.matches("/state/ponder/%d+%-%d+%-script%-%x+%.db$", kept[1])
            local replayed = w:ponder { "replay" }
            assert.same({ first.out, 0, "" }, { replayed.out, replayed.status, replayed.err })
            assert.equal(1, w:requests())
        end)

        it("is not created by a run without calls or with --no-log", function()
            w:begin "say(os.time(), task.now()); task.sleep(0.001)"
            assert.equal(0, run().status)
            w:begin(ASK)
            assert.equal(0, run("--no-log").status)
            assert.same({}, w:kept())
        end)

        it("removes the oldest logs beyond --keep", function()
            w:begin(ASK)
            for i = 1, 4 do
                assert.equal(0, run("--keep", "3").status)
                assert.equal(math.min(i, 3), #w:kept())
            end
            w.dir:write("state/ponder/notes.db", "not a log")
            assert.equal(0, run("--keep", "1").status)
            local kept = w:kept()
            assert.equal(2, #kept)
            assert.matches("notes.db$", kept[2])
        end)

        it("may fail: the run continues with a one-line warning", function()
            w:begin [[
                say(table.unpack((task.all {
                    function() return log.record("x", 1, function() return 41 end) end,
                    function() return (ask "one") ~= nil end,
                })))
                log.event("still", {})
                say(log.record("y", 1, function() return 42 end), ask("two") ~= nil)
            ]]
            local file = w.dir:write("file", "")
            for home, why in pairs { ["/dev/null"] = "", ["/proc/self/nothing"] = "",
                [file] = file .. "/ponder: cannot create this directory: Not a directory",
                relative = "" } do
                local first = w:ponder({ "run", w.script }, { env = { XDG_STATE_HOME = home,
                    HOME = "" } })
                assert.same({ 0, "41\ttrue\n42\ttrue\n" }, { first.status, first.out })
                assert.matches("^ponder: [^\n]*; this run is not logged\n$", first.err)
                assert.matches(why, first.err, 1, true)
            end
            assert.equal(8, w:requests())
        end)
    end)

    describe("with --log", function()
        local function refused(path, pattern)
            local before = w:bytes(path)
            local result = w:ponder { "run", "--log", path, w.script }
            assert.same({ 2, "" }, { result.status, result.out })
            assert.matches("^ponder run: [^\n]*" .. pattern .. "[^\n]*\n$", result.err)
            assert.equal(before, w:bytes(path))
            assert.equal(0, w:requests())
        end

        it("must be a new file in a writable directory", function()
            w:begin(ASK)
            refused(w.dir:write("other.db", "some text"),
                "file already exists; %-%-log takes a new file")
            refused(w.dir:write("empty.db", ""), "file already exists")
            refused(w.dir.path, "file already exists")
            refused("/dev/null", "file already exists")
            refused("/proc/run.db", "no such file or directory")
            refused(w.dir.path .. "/a/run.db", "no such file or directory")
            refused("", "must be a path")
            assert.equal(0, w:run().status)
            w.server:reset()
            refused(w.log, "file already exists; to continue it: ponder resume " .. w.log)
        end)

        it("is created even without a call", function()
            w:begin "say(1)"
            assert.equal(0, w:run().status)
            assert.equal("completed", w:row "SELECT status FROM runs")
        end)

        it("is one file when the run has ended", function()
            w:begin(ASK)
            w:run()
            assert.equal("", w:sh("ls run.db-* 2>/dev/null").out)
        end)

        it("cannot be combined with --no-log", function()
            w:begin(ASK)
            local result = w:ponder { "run", "--log", w.log, "--no-log", w.script }
            assert.same({ 2, "ponder run: --log or --no-log, not both\n" },
                { result.status, result.err })
        end)
    end)

    describe("never holds a key", function()
        local KEY, OTHER = help.KEY, "sk-other/9876543210zyxwvu"

        -- The run is killed, so that its WAL is there too.
        local function check(arguments, ...)
            local result = w:run(table.unpack(arguments))
            assert.equal(137, result.status, result.err)
            local bytes = w:bytes()
            assert.matches("-wal:", bytes, 1, true)
            assert.matches("what was asked", bytes, 1, true)
            for _, key in ipairs { ... } do
                assert.is_nil(bytes:find(key, 1, true))
                assert.is_nil(bytes:find(key:gsub("/", "\\/"), 1, true))
            end
        end

        local KILL = "\nio.popen('kill -9 ' .. io.open('/proc/self/stat'):read('n')):close()\n"
            .. "task.sleep(5)\n"

        it("of the environment, the script, the arguments or requests", function()
            w:begin(([[
                local other = require("ponder.model").open("openai:o", { api_key = %q })
                local url = "http://user:%s@host/"
                say(ask("what was asked with " .. ... .. " and %s"))
                say(other:chat({ messages = { { role = "user", content = "with %s" } } }).text)
            ]]):format(OTHER, KEY, KEY, OTHER) .. KILL)
            check({ KEY }, KEY, OTHER)
        end)

        it("that a server echoes in its reply or in an error", function()
            for _, steer in ipairs { "text=" .. server.encode("your key: " .. KEY),
                "status=400&body=" .. server.encode(json.encode { error = {
                    message = "bad key " .. KEY, type = "x" } }),
                "status=500&h=retry-after-ms:1&body=" .. server.encode("no " .. KEY),
                "body=" .. server.encode(json.encode { more = { [KEY] = KEY },
                    choices = { { message = { content = "x" } } } }) } do
                w:begin([[ask("what was asked", { max_retries = 1 }); ask "then"]] .. KILL)
                w.server:next(steer, steer)
                check({}, KEY)
            end
        end)
    end)

    describe("holds replies as the script gets them", function()
        local function body(content, more)
            return '{"choices":[{"message":{"content":"' .. content
                .. '"},"finish_reason":"stop"}]' .. (more or "") .. "}"
        end

        for name, bytes in pairs {
            ["bytes that are not UTF-8"] = body("a\xFF\xC3(\xED\xA0\x80z"),
            ["a lone surrogate"] = body [[a\ud800z]],
            ["NUL and control characters"] = body [[a\u0000\u0001\u001fz]],
            ["numbers beyond all bounds"] = body("x",
                ',"usage":{"prompt_tokens":1e999,"completion_tokens":-1e999},"more":[1e400,NaN]'),
            ["huge integers and -0"] = body("x", ',"created":123456789012345678901234,"z":-0.0'),
            ["a name that is not UTF-8"] = body("x", ',"\xFE\xFF":"\xFE\xFF"'),
            ["other characters"] = body "å\u{1F600}\u{FFFD}\u{2028}",
        } do
            it(name, function()
                w:begin [[
                    local json = require "ponder.json"
                    local function show(value)
                        local ok, text = pcall(json.encode, value)
                        return ok and text or "no JSON"
                    end
                    local reply, message, code = call "one"
                    if reply then
                        say(("%q"):format(reply.text), show(reply.usage), show(reply.raw))
                    else
                        say(message, code)
                    end
                ]]
                w.server:next("body=" .. server.encode(bytes))
                local first = w:run()
                assert.same({ 0, "" }, { first.status, first.err })
                w:repeats(first)
                local db = assert(store.open(w.log, { mode = "read" }))
                for reply, kind in db:rows "SELECT reply, typeof(reply) FROM calls" do
                    assert.equal("text", kind)
                    assert.is_truthy(json.decode(reply))
                end
                db:close()
            end)
        end
    end)
end)
