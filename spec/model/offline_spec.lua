-- A replay runs no program, writes no file and opens no socket: except for results in its log.

local help = require "log_help"

-- Tries each, and prints the result: its number, whether it succeeded, the message.
local TRY = [=[
local tries = { %s }
assert(ask "one")
for i, try in ipairs(os.getenv "TRY" and tries or {}) do
    local ok, message = pcall(try)
    say(i, ok, (tostring(message):match "NOT_IN_REPLAY: (.-): ") or message)
end
]=]

describe("a replay", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    -- The result of each in a replay; checks that nothing was written.
    local function replayed(tries)
        w:begin(TRY:format(table.concat(tries, ", ")))
        assert.equal(0, w:run().status)
        local before = w:sh("find . -newer run.db -o -name HARM | sort").out
        w.server:reset()
        local r = w:ponder({ "replay", w.log }, { env = { TRY = "1" } })
        assert.equal(0, r.status, r.err)
        assert.equal(before, w:sh("find . -newer run.db -o -name HARM | sort").out)
        assert.equal(0, w:requests())
        local calls = {}
        for i, ok, call in r.out:gmatch "(%d+)\t(%l+)\t([^\n]*)" do
            assert.equal("false", ok, tries[tonumber(i)])
            calls[tonumber(i)] = call
        end
        return calls
    end

    local function check_refused(name, codes)
        local tries = {}
        for i, code in ipairs(codes) do
            tries[i] = ("function() %s end"):format(code)
        end
        local calls = replayed(tries)
        assert.equal(#codes, #calls)
        for i, call in ipairs(calls) do
            assert.equal(type(name) == "table" and name[i] or name, call, codes[i])
        end
    end

    it("refuses, by name, what has no result in the log", function()
        check_refused({ "os.execute", "io.popen", "io.open for writing", "io.open for writing",
            "io.open for writing", "io.output", "io.tmpfile", "os.remove", "os.rename",
            "os.tmpname", "package.loadlib", "store.open for writing", "private.write",
            "private.open", "private.make_directory", "private.tighten", "line.save_history",
            "net.submit", "process.start", "http.listen" }, {
            "os.execute 'touch HARM'", "io.popen 'touch HARM'",
            "io.open('HARM', 'w')", "io.open('HARM', 'a+')", "io.open('script.lua', 'r+')",
            "io.output 'HARM'", "io.tmpfile()", "os.remove 'script.lua'",
            "os.rename('script.lua', 'HARM')", "os.tmpname()", "package.loadlib('HARM', '*')",
            "require('ponder.core.store').open('HARM', { mode = 'create' })",
            "require('ponder.core.private').write('HARM', '')",
            "require('ponder.core.private').open('HARM')",
            "require('ponder.core.private').make_directory('HARM')",
            "require('ponder.core.private').tighten('script.lua')",
            "require('ponder.core.line').save_history('HARM')",
            "require('ponder.core.net').open():submit { url = os.getenv 'OPENAI_BASE_URL' }",
            "require('ponder.core.process').start({ 'touch', 'HARM' }, {}, nil, 1)",
            "require('ponder.core.http').listen {}" })
    end)

    it("cannot be circumvented", function()
        check_refused("os.execute", {
            "debug.getregistry()._LOADED.os.execute 'touch HARM'",
            "package.loaded.os.execute 'touch HARM'", "require('os').execute 'touch HARM'",
            "_G.os.execute 'touch HARM'",
            "local n, f = debug.getupvalue(os.execute, 1); (f or os.execute) 'touch HARM'",
            "coroutine.wrap(function() os.execute 'touch HARM' end)()",
            "load('os.execute [[touch HARM]]', 'x', 't', { os = os })()",
            "string.gsub('x', 'x', function() os.execute 'touch HARM' end)",
            "setmetatable({}, { __index = os }).execute 'touch HARM'",
            -- the function of any frame below
            [[local seen = {}
              debug.sethook(function()
                  local info = debug.getinfo(2, "f")
                  if info then seen[info.func] = true end
              end, "c")
              pcall(os.execute, "touch HARM")
              debug.sethook()
              seen[pcall], seen[debug.sethook] = nil, nil
              for f in pairs(seen) do f "touch HARM" end]],
        })
    end)

    it("reads files, and writes to the standard streams", function()
        w:begin [[
            assert(ask "one")
            local file = assert(io.open(arg[0]))
            say(#file:read "a" > 0, #io.lines(arg[0])() > 0)
            io.stderr:write "and this\n"
        ]]
        assert.equal(0, w:run().status)
        local r = w:replay()
        assert.same({ 0, "true\ttrue\n", "and this\n" }, { r.status, r.out, r.err })
    end)

    it("is the only one: a new or resumed run may do all this", function()
        w:begin [[
            os.execute "echo program"
            local file = assert(io.open("written", "w"))
            file:close()
            assert(os.remove "written")
            assert(ask "one")
            error "stop"
        ]]
        assert.matches("^program\n", w:run().out)
        assert.matches("^program\n", w:resume().out)
    end)
end)

describe("the functions behind the guards", function()
    it("cannot be reached with the debug library", function()
        local r = require("shell").ponder { "-e", [[
            local binary, found = string.dump(function() end), false
            local function try(f)
                found = found or type(f) == "function" and load ~= f and pcall(f, binary)
                    and f(binary) ~= nil
            end
            for i = 1, 5 do try((select(2, debug.getupvalue(load, i)))) end
            load(function()
                for level = 1, 5 do
                    local info = debug.getinfo(level, "fS")
                    if info and info.what == "C" then try(info.func) end
                end
            end)
            print(found)]] }
        assert.same({ "false\n", "" }, { r.out, r.err })
    end)
end)
