-- Logs with changed bytes and values: every command reads one, or reports in one line that it is
-- damaged. PONDER_SEED=N tries others.

local sample_log = require "sample_log"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"

local read = shell.read

local COUNT = size { test = 75, asan = 40, full = 2500 } -- two kinds, two commands each
local SEED = tonumber(os.getenv "PONDER_SEED") or 20261122

local SCRIPT = [[
local log, task, search = require "ponder.log", require "ponder.task", require "ponder.search"
local m = require("ponder.model").open("script:model.lua")
local function ask(text)
    local reply, _, code = m:chat { messages = { { role = "user", content = text } } }
    return reply and reply.text or code
end
ask "one" ask "one" ask "fail"
task.map({ 1, 2, 3 }, function(i) return ask("item " .. i) end)
log.record("page", { url = "http://x/" }, function() task.sleep(0.001) return "a page", nil, 7 end)
log.event("half", { n = os.time() })
local found = search.run { initial_state = 1, k = 2, max_depth = 3, search = "beam",
    expand = function(n) ask("expand " .. n) return { n * 2, n * 3 } end,
    evaluate = function(n) return n / 10 end, is_terminal = function(n) return n == 12 end }
return { answer = found.best_node.state }
]]

local MODEL = [[
return function(request)
    local last = request.messages[#request.messages].content
    if last == "fail" then return nil, "no answer to that", "BAD_REQUEST" end
    return { text = last .. "!", usage = { input_tokens = 10, output_tokens = 5 } }
end
]]

local COMMANDS = { { "show" }, { "show", "--json" }, { "show", "--calls" },
    { "show", "--calls", "--json" }, { "show", "--call", "1" },
    { "show", "--call", "7", "--json" }, { "show", "--tree" },
    { "show", "--events" }, { "show", "--node", "1" }, { "replay" }, { "resume", "--trust" },
    { "fork", "--trust", "--log", "forked.db" }, { "export", "--format", "dot" },
    { "export", "--format", "html" }, { "export", "--format", "json" },
    { "export", "--format", "mermaid" }, { "export", "--format", "otlp", "--content" }, { "log" },
    { "diff", "whole.db" } }

-- Values that no column has.
local VALUES = { "NULL", "-1", "0", "9223372036854775807", "-9223372036854775807", "1e308",
    "-1e308", "1e999", "''", "'x'", "'{}'", "'[]'", "'[1,{}]'", "'{\"a\":[]}'", "'null'",
    "'5'", "'\"x\"'", "x'ff00'", "3.5", "zeroblob(70000)", "'" .. ("y"):rep(3000) .. "'",
    "rowid", "-rowid" }

describe("a log that was changed", function()
    local dir, logs
    local found -- errors of ours

    local function ponder(arguments)
        return dir:ponder(arguments,
            { env = { XDG_STATE_HOME = dir.path .. "/state", TZ = "UTC" } })
    end

    setup(function()
        dir = shell.directory { ["script.lua"] = SCRIPT, ["model.lua"] = MODEL }
        local first = ponder { "run", "--log", "whole.db", "script.lua" }
        assert.same({ 0, "" }, { first.status, first.err })
        sample_log.write(dir.path .. "/sample.db")
        dir:write("state/ponder/20261122-000000-a-00000001.db", read(dir.path .. "/whole.db"))
        logs = { read(dir.path .. "/whole.db"), read(dir.path .. "/sample.db") }
    end)
    teardown(function() dir:__close() end)

    -- Changes a copy of the log as these statements say; returns its path.
    local function changed(...)
        local path = dir:write("changed.db", logs[1])
        local db <close> = assert(store.open(path, { mode = "write" }))
        for _, sql in ipairs { ... } do
            assert.is_true(assert(db:execute("UPDATE OR IGNORE " .. sql)) > 0)
        end
        return path
    end

    -- An error in ponder's code, rather than a line about the log.
    local function is_internal(result)
        if result.status > 2 and result.status ~= 124 and result.status ~= 130 then
            return true
        end
        local first = result.err:match "^[^\n]*" or ""
        return first:find ": damaged: " and result.err:find "\nstack traceback:"
            or first:find "ponder/[%w_/]+%.lua:%d" or first:find "store: "
            or first:find "%f[%w]prompts/[%w_/]+%.lua:%d"
    end

    local function check(path, what, command)
        os.remove(dir.path .. "/forked.db")
        local arguments = table.move(command, 1, #command, 1, {})
        if command[1] ~= "log" then
            arguments[#arguments + 1] = path
        end
        local result = ponder(arguments)
        if is_internal(result) then
            found[#found + 1] = ("%s, ponder %s: %d: %s"):format(what,
                table.concat(arguments, " "), result.status, result.err)
        end
    end

    -- Several commands, each on a fresh copy of the changed log.
    local function try(bytes, what, random)
        local path = dir.path .. "/state/ponder/20261122-000001-b-00000002.db"
        for _ = 1, 2 do
            for _, ending in ipairs { "-wal", "-shm", "-journal" } do
                os.remove(path .. ending)
            end
            dir:write("state/ponder/20261122-000001-b-00000002.db", bytes)
            check(path, what, COMMANDS[random(#COMMANDS)])
        end
    end

    it("in the form of a reply is reported as damaged, in one line", function()
        for _, reply in ipairs { '{}', '{"samples":1}', '{"samples":[1]}',
            '{"samples":[{"text":1}]}', '{"samples":[{"tool_calls":[1]}]}',
            '{"samples":[{"text":"x"}],"usage":1}' } do
            local path = changed(("calls SET reply = '%s' WHERE id = 1"):format(reply))
            local result = ponder { "replay", path }
            assert.equal(("ponder: %s: damaged: the answer of call 1 cannot be read"):format(path),
                result.err:match "^[^\n]*")
            assert.is_falsy(is_internal(result), result.err)
        end
    end)

    for _, one in ipairs {
        { "tape SET kind = 9223372036854775807", "replay", "tape %d+ is invalid" },
        { "tape SET kind = 1e999", "resume --trust", "tape %d+ is invalid" },
        { "tape SET what = printf('%.*c', 3000, 'y')", "replay", "tape %d+ is invalid" },
        { "tape SET kind = 'timers', what = 1e999 WHERE seq = 2", "replay",
            "tape %d+ is invalid" },
        { "calls SET id = -1", "replay", "tape %d+ names a call that does not exist" },
        { "readings SET readings = 7", "replay",
            "readings of readings %d+ is of type integer, not string" },
        { "readings SET readings = 3.5", "resume --trust",
            "readings of readings %d+ is of type float, not string" },
        { "readings SET readings = x'000000000000f07f'", "replay",
            "readings of the clock %l+ are out of range" },
        { "runs SET arguments = '[1,{}]'", "replay", "its run cannot be read" },
        { "runs SET started_at = 1e999", "show", "started_at of runs 1 is out of range" },
        { "calls SET cost = -1", "show --calls", "cost of calls %d+ is out of range" },
        { "calls SET asked_at = 1e999", "show", "asked_at of calls is out of range" },
        { "calls SET model = 1e999", "show", "model of calls is of type float, not string" },
        { "calls SET message = 1e999 WHERE id = 3", "show",
            "message of calls is of type float, not string" },
    } do
        it(("by UPDATE %s is reported as damaged, in one line"):format(one[1]), function()
            local command = {}
            for word in one[2]:gmatch "%S+" do
                command[#command + 1] = word
            end
            command[#command + 1] = changed(one[1])
            local result = ponder(command)
            assert.equal(1, result.status)
            assert.matches("^ponder: [^\n]*changed%.db: damaged: " .. one[3] .. "\n$",
                (result.err:gsub("^ponder %l+", "ponder")))
        end)
    end

    it("with infinite scores is read: they are the largest numbers in JSON", function()
        local path = changed("nodes SET score = -1e999", "searches SET score = -1e999")
        for _, command in ipairs { { "show", "--json", path }, { "show", "--tree", "--json", path },
            { "show", "--node", "1", "--json", path },
            { "export", "--format", "json", path } } do
            assert.matches('"score":-1.7976931348623157e+308', dir:printed(command), 1, true)
        end
        local result = ponder { "diff", "whole.db", path }
        assert.equal("", result.err)
        assert.matches("-inf", result.out, 1, true)
    end)

    it("in some bytes is read, or reported as damaged", function()
        math.randomseed(SEED)
        found = {}
        for i = 1, COUNT do
            local bytes = logs[math.random(#logs)]
            local places = {}
            for _ = 1, math.random(3) do
                local at = math.random(#bytes)
                local byte = math.random(2) == 1 and math.random(0, 255)
                    or bytes:byte(at) ~ (1 << math.random(0, 7))
                bytes = bytes:sub(1, at - 1) .. string.char(byte) .. bytes:sub(at + 1)
                places[#places + 1] = ("%d=%d"):format(at, byte)
            end
            try(bytes, ("mutation %d: %s"):format(i, table.concat(places, ",")), math.random)
        end
        assert.same({}, found, SEED)
    end)

    it("in some values is read, or reported as damaged", function()
        math.randomseed(SEED)
        found = {}
        local columns = {}
        do
            local db <close> = assert(store.open(dir.path .. "/whole.db"))
            for name, column in db:rows "SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite%' ORDER BY 1, 2" do -- luacheck: ignore 631
                columns[#columns + 1] = { name, column }
            end
        end
        for i = 1, COUNT do
            local path = dir:write("changed.db", logs[math.random(#logs)])
            local where, value = columns[math.random(#columns)], VALUES[math.random(#VALUES)]
            local sql = ("UPDATE OR IGNORE %s SET %s = %s"):format(where[1], where[2], value)
            local db = assert(store.open(path, { mode = "write" }))
            pcall(db.execute, db, sql)
            db:close()
            try(read(path), ("change %d: %s"):format(i, sql), math.random)
        end
        assert.same({}, found, SEED)
    end)
end)
