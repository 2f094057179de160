-- With few descriptors, calls wait for one another; those that find none fail, and are tried again.

local server = require "server"
local shell = require "shell"

-- 1,000 calls of which 300 may go out at once, through the model client and a log.
local CALLS = [[
    local m = require("ponder.model").open("openai:m", { concurrency = 300, max_retries = 0 })
    local task = require "ponder.task"
    local held = {}
    local function hold_all_but(n)
        repeat
            local file = io.open "/dev/null"
            held[#held + 1] = file
        until not file
        for _ = 1, n do table.remove(held):close() end
    end
    local list = {}
    for i = 1, CALLS do list[i] = i end
    local codes = {}
    START
    local replies, errors = task.map(list, function(i)
        return m:chat { messages = { { role = "user", content = "call " .. i } } }
    end, { concurrency = 300 })
    local answered = 0
    for i = 1, #list do
        if replies[i] then answered = answered + 1
        else codes[#codes + 1] = errors[i].code .. ": " .. errors[i].message end
    end
    print(answered, codes[1])]]

local function run(s, limit, start, calls, host)
    local script = CALLS:gsub("START", start):gsub("CALLS", calls)
    local url = s.url:gsub("127%.0%.0%.1", host or "127.0.0.1")
    local dir <close> = shell.directory { ["script.lua"] = script }
    local r = shell.run(("export OPENAI_API_KEY=sk-x OPENAI_BASE_URL=%s/s/delay=5/v1 no_proxy='*' "
        .. "XDG_STATE_HOME=%s; ulimit -n %d; exec %s run %s/script.lua >$OUT 2>$ERR"):format(url,
        dir.path, limit, shell.executable, dir.path))
    assert.equal("", r.err)
    return r.out
end

describe("with 64 descriptors", function()
    local s

    setup(function() s = server.start() end)
    teardown(function() s:stop() end)

    it("all of 1,000 calls, 300 at once, are answered", function()
        assert.equal("1000\tnil\n", run(s, 64, "", 1000))
        assert.is_true(s:counters().max_in_flight > 8)
    end)

    it("the same holds with name look-ups", function()
        assert.equal("200\tnil\n", run(s, 64, "", 200, "localhost"))
    end)

    it("a call is tried again if nearly all are in use elsewhere", function()
        assert.equal("2\tnil\n", run(s, 64, [[
            m = require("ponder.model").open("openai:m", { concurrency = 1, max_retries = 5 })
            m:chat { messages = { { role = 'user', content = 'first' } } }
            m = require("ponder.model").open("openai:m", { concurrency = 1, max_retries = 5,
                base_url = os.getenv("OPENAI_BASE_URL"):gsub("127.0.0.1", "localhost") })
            hold_all_but(0)
            task.spawn(function()
                task.sleep(0.3)
                for _ = 1, 9 do table.remove(held):close() end
            end)]], 2))
    end)

    it("a call without any fails with a clear message", function()
        assert.matches("^0\tCONNECT: .*too many open files %(EMFILE: raise `ulimit %-n`%)",
            run(s, 64, [[
                require("ponder.log").event "begun"
                m:chat { messages = { { role = "user", content = "first" } } }
                m = require("ponder.model").open("openai:m", { max_retries = 0,
                    base_url = os.getenv("OPENAI_BASE_URL"):gsub("127.0.0.1", "127.0.0.2"):gsub(
                        ":%%d+", ":9") })
                hold_all_but(0)]], 3))
    end)
end)

describe("every operation without a descriptor", function()
    it("fails with a clear message", function()
        local dir <close> = shell.directory { ["there.db"] = "", ["model.lua"] = "",
            ["script.lua"] = [[
            local store = require "ponder.core.store"
            local tests = {
                { "store, new", store.open, "new.db", { mode = "create" } },
                { "store, read", store.open, "there.db", { mode = "read" } },
                { "store, asked about", store.in_use, "there.db" },
                { "process", require("ponder.process").run, { command = { "true" } } },
                { "file", require("ponder.run.log.files").read, "model.lua", "model" },
                { "model", require("ponder.model").open, "script:model.lua" },
            }
            local held = {}
            local file
            repeat file = io.open "/dev/null"; held[#held + 1] = file until not file
            local said = {}
            for i, test in ipairs(tests) do
                local ok, value, message = pcall(table.unpack(test, 2))
                said[i] = ("%s: %s"):format(test[1], ok and message or value)
            end
            held = nil
            collectgarbage()
            print(table.concat(said, "\n"))]] }
        local r = shell.run(("cd %s; ulimit -n 40; %s run --no-log script.lua >$OUT 2>$ERR"):format(
            dir.path, shell.executable))
        assert.equal("", r.err)
        local HINT = "Too many open files (EMFILE: raise `ulimit -n`)"
        assert.equal(table.concat({ "store, new: new.db: cannot be created: " .. HINT,
            "store, read: there.db: cannot be read: " .. HINT,
            "store, asked about: there.db: cannot be read: " .. HINT,
            "process: cannot start true: " .. HINT, "file: model.lua: Too many open files",
            "model: model.open: script:model.lua: model.lua: Too many open files\n" },
            "\n"), r.out)
    end)
end)

describe("the limit on descriptors", function()
    it("is raised to the maximum allowed", function()
        local code = [[print(io.open("/proc/self/limits"):read("a"):match "open files%s+(%d+)")]]
        local r = shell.run(("ulimit -Sn 64; %s -e %s >$OUT"):format(shell.executable,
            shell.quote(code)))
        local hard = shell.run("ulimit -Hn >$OUT").out
        assert.equal(hard, r.out)
    end)
end)
