-- Runs that get a signal at random moments, with 8 calls in flight, and are resumed until they are
-- done. Half of the signals are SIGKILL, the others those that end a run in order. In all cases
-- no call whose reply the log holds is made again, and the result is that of an undisturbed
-- run. PONDER_SEED=N chooses the moments.

local json = require "ponder.json"
local server = require "server"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"

local now = require("ponder.core.loop").now

local KILLS = size { test = 96, asan = 24, full = 2000 }
local SEED = math.tointeger(tonumber(os.getenv "PONDER_SEED" or "")) or 20261122

-- The exit status after each signal.
local STATUS = { KILL = 137, INT = 130, TERM = 143, HUP = 129 }
local SIGNALS = { "KILL", "KILL", "KILL", "INT", "TERM", "HUP" }
local KILL = { "KILL" } -- a budget of calls charges for those that the other signals ended
-- As in crash_script.lua: 64 runs with two calls each, else one run.
local IN_FLIGHT = setmetatable({ runs = 128 }, { __index = function() return 8 end })
local SLOWEST_S = 50 -- a run that takes longer has come to a halt

local DIGITS = "######"
local REPLIES = {
    bfs = DIGITS, dfs = DIGITS, beam = DIGITS, best_first = DIGITS,
    tot = [[{"thoughts":["a######","b######","c######"],]]
        .. [["scores":{"t1":0.##,"t2":0.##,"t3":0.##}}]],
    got = "idea ######\nn2: 0.##\nn3: 0.##\nn4: 0.##\nn5: 0.##\nn6: 0.##\nVOTE: n3",
    runs = DIGITS,
    trm = "ISSUE: is ######\nSUGGESTION: do ######\nSCORE: 0.##\n<answer>\n######\n</answer>",
}
local KINDS = { "bfs", "dfs", "beam", "best_first", "tot", "got", "trm", "runs" }

local s, dir, script

-- Runs the executable for a time, then sends it a signal and waits (--foreground) until it has
-- ended. (The shell's message "Killed" is discarded.)
local function run_for(seconds, signal, kind, ...)
    local words = { ("timeout --foreground --preserve-status -s %s %.4f"):format(signal, seconds),
        shell.quote(shell.executable) }
    for _, word in ipairs { ... } do
        words[#words + 1] = shell.quote(word)
    end
    local url = ("%s/s/delay=3&jitter=4&mix=1&text=%s/v1"):format(s.url,
        server.encode(REPLIES[kind]))
    return shell.run(("export OPENAI_API_KEY=sk-0123456789abcdefghij PONDER_MODEL=openai:m "
        .. "no_proxy=127.0.0.1 OPENAI_BASE_URL=%s; exec 2>/dev/null; %s >$OUT 2>$ERR; exit $?")
        :format(shell.quote(url), table.concat(words, " ")))
end

local function copy_file(from, to)
    local file = io.open(from, "rb")
    if file then
        local out <close> = assert(io.open(to, "wb"))
        out:write(file:read "a")
        file:close()
    end
    return file ~= nil
end

-- The content of a log left by a process: replies by call, and the number of each body. Reads a
-- copy, so as to leave no trace.
local function read_log(log)
    local copy = dir.path .. "/copy.db"
    os.remove(copy .. "-wal")
    os.remove(copy .. "-shm")
    if not copy_file(log, copy) then
        return nil
    end
    copy_file(log .. "-wal", copy .. "-wal")
    local db = store.open(copy, { mode = "write" })
    if not db then
        return nil
    end
    assert.equal("ok", (db:row "PRAGMA integrity_check"))
    if not db:row "SELECT id FROM runs" then
        db:close()
        return nil
    end
    local seen = { replies = {}, answered = {}, asked = {} }
    for id, request, reply in db:rows "SELECT run || '.' || id, request, reply FROM calls" do
        local body = server.hash(request)
        seen.asked[body] = (seen.asked[body] or 0) + 1
        if reply then
            seen.replies[id] = request .. "\n" .. reply
            seen.answered[body] = (seen.answered[body] or 0) + 1
        end
    end
    seen.status = db:row "SELECT status FROM runs WHERE id = 1"
    db:close()
    return seen
end

-- The searches of a finished log and their trees, without times and what depends on them.
local function trees_in(log)
    local db = assert(store.open(log, { mode = "read" }))
    local lines = {}
    for _, sql in ipairs {
        "SELECT id, kind, status, reason, best, score, answer FROM searches ORDER BY id",
        "SELECT search, id, parent, depth, score, terminal, text, best FROM nodes ORDER BY 1, 2",
        "SELECT search, source, target, kind, score FROM edges ORDER BY 1, 2, 3",
        "SELECT name, status, answer, error, seed FROM runs WHERE id > 1 ORDER BY name",
        [[SELECT runs.name, events.id, events.name AS event, data FROM events
            JOIN runs ON runs.id = run WHERE parent IS NOT NULL ORDER BY 1, 2]],
    } do
        for row in db:columns(sql) do
            lines[#lines + 1] = json.encode(row)
        end
    end
    db:close()
    return table.concat(lines, "\n")
end

-- What the log had when its process was killed is still there.
local function check_stored(before, after)
    for id, reply in pairs(before.replies) do
        assert.equal(reply, after.replies[id])
    end
end

-- How often a body may arrive after a kill: once for each call that the log lacked then, and again
-- for each further kill before it has it.
local function allowed_after(kills, i, body, calls)
    local allowed = 0
    for k = i, #kills do
        allowed = allowed + calls - (kills[k].answered[body] or 0)
    end
    local late = calls - (kills[i].answered[body] or 0) -- sent before, but not seen by the server
    return allowed + late
end

-- A waiting call keeps its slot until the log has the reply: a kill loses no more.
local function check_counts(kills, final, counts, total, in_flight)
    local calls_of_all = 0
    for _, calls in pairs(final.asked) do
        calls_of_all = calls_of_all + calls
    end
    assert.is_true(total <= calls_of_all + in_flight * #kills,
        ("%d requests, %d calls, %d kills"):format(total, calls_of_all, #kills))
    for body, count in pairs(counts) do
        local calls = final.asked[body] or 1 -- one made ahead, that was not needed in the end
        assert.is_true(count <= calls * (1 + #kills))
        for i, kill in ipairs(kills) do
            local again = count - (kill.counts[body] or 0)
            if again > allowed_after(kills, i, body, calls) then
                error(("made again after the kill number %d: %d times, %d calls, %d answered")
                    :format(i, again, calls, kill.answered[body] or 0))
            end
        end
    end
end

-- A call that a signal ended, or that was in flight for long when its process was killed, is sent
-- and counted again. A run with a budget of its own may then end early.
local COUNTED = "^ponder resume: %d+ calls? had no reply[^\n]*\n"

local function without_counts(kind)
    return kind == "runs" and type or function(text)
        return (text:gsub('"calls":%d+', ""))
    end
end

-- Kills a run until it is done; returns how often, at most `limit` times.
local function kill_and_resume(kind, reference, span, limit)
    local log, kills, number = dir.path .. "/killed.db", {}, 0
    for _, ending in ipairs { "", "-wal", "-shm" } do
        os.remove(log .. ending)
    end
    s:reset()
    local begun, form, result = false, tostring
    while true do
        local seconds = number < limit and math.random() * span or SLOWEST_S
        local signals = kind == "runs" and KILL or SIGNALS
        local signal = signals[math.random(#signals)]
        if begun then
            result = run_for(seconds, signal, kind, "resume", log)
        else
            result = run_for(seconds, signal, kind, "run", "--json", "--log", log, script, kind)
        end
        local counted
        result.err, counted = result.err:gsub(COUNTED, "")
        local ended = result.status ~= STATUS[signal]
        if counted > 0 or not ended and signal ~= "KILL" then
            form = without_counts(kind)
        end
        if ended then
            break
        end
        number = number + 1
        local seen = read_log(log)
        if seen then
            begun = true
            if kills[#kills] then
                check_stored(kills[#kills], seen)
            end
            seen.counts = s:bodies()
            kills[#kills + 1] = seen
        else
            assert.equal(0, s:counters().requests, "no call is made before there is a log")
            os.remove(log)
        end
    end
    assert.same({ 0, "" }, { result.status, result.err })
    assert.equal(form(reference.out), form(result.out))
    local final = read_log(log)
    assert.equal("completed", final.status)
    assert.equal(form(reference.trees), form(trees_in(log)))
    if kills[#kills] then
        check_stored(kills[#kills], final)
    end
    check_counts(kills, final, s:bodies(), s:counters().requests, IN_FLIGHT[kind])
    return number
end

describe("a run that is killed", function()
    setup(function()
        s = server.start()
        dir = shell.directory()
        script = shell.root .. "/spec/support/crash_script.lua"
        math.randomseed(SEED)
        print(("%d kills, PONDER_SEED=%d"):format(KILLS, SEED))
    end)
    teardown(function()
        s:stop()
        dir:__close()
    end)

    for i, kind in ipairs(KINDS) do
        local kills = KILLS * i // #KINDS - KILLS * (i - 1) // #KINDS
        it(("has the same outcome: %s, %d times"):format(kind, kills), function()
            local whole = run_for(SLOWEST_S, "KILL", kind, "run", "--no-log", "--json", script,
                kind)
            assert.same({ 0, "" }, { whole.status, whole.err })
            local began = now()
            local logged = ("%s/%s.db"):format(dir.path, kind)
            local again = run_for(SLOWEST_S, "KILL", kind, "run", "--json", "--log", logged,
                script, kind)
            local took = now() - began
            assert.same({ whole.out, 0, "" }, { again.out, again.status, again.err })
            local reference = { out = whole.out, trees = trees_in(logged) }
            local done = 0
            while done < kills do
                done = done + kill_and_resume(kind, reference, took, kills - done)
            end
        end)
    end
end)
