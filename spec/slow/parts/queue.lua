-- A storm of kills over workers, the coordinator and redis-server, while jobs of two paid calls go
-- through a queue: each job has one result, none is lost, and only calls in flight are paid twice.
-- And what a week of jobs leaves in Redis: nothing.

local moves = require "ponder.serve.queue.moves"
local redis = require "ponder.redis"
local redis_server = require "redis_server"
local task = require "ponder.task"
local workers = require "workers"

local MODEL = [[
local task = require "ponder.task"
return function(request)
    local text = request.messages[1].content
    local file <close> = io.open("calls", "a")
    file:write(text, "\n")
    file:close()
    task.sleep(0.1)
    return { text = text .. "!", usage = { input_tokens = 1, output_tokens = 1 } }
end]]

local JOB = [[
local model = require "ponder.model"
local m
local function ask(text)
    m = m or model.open "script:model.lua"
    return assert(m:chat { messages = { { role = "user", content = text } } }).text
end
return { two = function(x) return ask("a" .. x) .. ask("b" .. x) end }]]

local MAIN = [[
local items = {}
for i = 1, %d do items[i] = i end
local results, errors = q:map(items, "two", { concurrency = 100, max_attempts = 1000 })
local right = 0
for i = 1, #items do
    right = right + (results[i] == ("a%%d!b%%d!"):format(i, i) and 1 or 0)
end
print(right, (next(errors)))]]

local PREFIX = "ponder:1:{t}:"
local WORKERS, AT_ONCE = 4, 4
local JOBS_A_KILL = 25
local ARGUMENTS = { "--concurrency", tostring(AT_ONCE), "--lease", "1s" }
local REDIS = { "--appendonly", "yes", "--appendfsync", "always" }

-- Who is killed next: workers most often.
local function victim_of(random)
    local draw = random(10)
    return draw <= 7 and "worker" or draw == 8 and "coordinator" or "redis"
end

-- Kills and restarts one victim at a time until all jobs are done. -> the coordinator that ended
-- well, kills by victim
local function storm(lab, coordinator, kills, random)
    local crew, count = {}, { worker = 0, coordinator = 0, redis = 0 }
    for i = 1, WORKERS do
        crew[i] = lab:worker(ARGUMENTS)
    end
    for _ = 1, kills do
        os.execute(("sleep %.2f"):format(0.1 + random() * 0.3))
        if not coordinator:runs() then
            break
        end
        local victim = victim_of(random)
        count[victim] = count[victim] + 1
        if victim == "worker" then
            local i = random(WORKERS)
            crew[i]:kill()
            crew[i] = lab:worker(ARGUMENTS)
        elseif victim == "redis" then
            lab.server:kill()
            lab.server:again()
        else
            coordinator:kill()
            workers.eventually("it is gone", function() return not coordinator:runs() end)
            coordinator = lab:resume()
        end
    end
    return coordinator, count
end

local BATCH = 200

-- Passes jobs through a queue with the scripts that coordinators and workers call.
local function pass_through(client, jobs)
    local function key(name)
        return PREFIX .. name
    end
    local function eval(script, names, ...)
        local keys = {}
        for i, name in ipairs(names) do
            keys[i] = key(name)
        end
        return assert(client:eval(script, keys, ...))
    end
    client:call("XGROUP", "CREATE", key "jobs:c", moves.GROUP, "0", "MKSTREAM")
    local last, count, memory = "0", 0, {}
    while count < jobs do
        local words = { "map", "{}", "c", "{}" }
        for i = 1, BATCH do
            table.move({ ("%032x"):format(count + i), "{}", tostring(i) }, 1, 3, #words + 1, words)
        end
        eval(moves.ENQUEUE, { "jobs:c", "state", "maps", "open", "codes", "stats" },
            table.unpack(words))
        local read = assert(client:call("XREADGROUP", "GROUP", moves.GROUP, "w/60000", "COUNT",
            BATCH, "STREAMS", key "jobs:c", ">"))[1][2]
        for _, entry in ipairs(read) do
            eval(moves.FINISH, { "jobs:c", "state", "errors", "stats" }, entry[1],
                moves.fields(entry[2]).id, "map", "ok", "a result")
        end
        words = { "map" }
        local results = assert(client:call("XREAD", "COUNT", BATCH, "STREAMS", key "results:map",
            last))[1][2]
        for _, entry in ipairs(results) do
            last = entry[1]
            table.move({ moves.fields(entry[2]).id, last }, 1, 2, #words + 1, words)
        end
        eval(moves.TAKE, { "state", "results:map", "open", "maps", "jobs:c", "dead" },
            table.unpack(words))
        count = count + #results
        local tenth = count * 10 // jobs
        memory[tenth] = memory[tenth]
            or tonumber(client:call("INFO", "memory"):match "used_memory:(%d+)")
    end
    return (memory[10] - memory[1]) / 1024
end

return {
    size = 5000,
    in_test = true,
    steps = {
        { "kills", function(s)
            math.randomseed(s.seed)
            local lab <close> = workers.lab({ ["model.lua"] = MODEL, ["job.lua"] = JOB }, REDIS)
            local kills = math.max(s.size // JOBS_A_KILL, 1)
            local coordinator, count = storm(lab, lab:begin(MAIN:format(s.size)), kills,
                math.random)
            local status = coordinator:wait(60 + s.size // 10)
            assert(status == "0", coordinator:output())
            local killed = count.worker + count.coordinator + count.redis
            s.print(("  killed: %d workers, %d coordinators, %d servers"):format(count.worker,
                count.coordinator, count.redis))
            local printed = lab:lines(coordinator.err:match "[^/]+$" .. ".out")
            local right = tonumber(printed[1] and printed[1]:match "^%d+")
            s:report("kills", killed, ">=", kills)
            s:report("right results", right or 0, ">=", s.size)
            local runs = tonumber(lab:sql("SELECT count(*) FROM runs WHERE parent = 1 AND "
                .. "status = 'completed'"))
            s:report("completed runs of jobs in the log", runs, ">=", s.size)
            s:report("and no more", runs, "<=", s.size)
            local answered = tonumber(lab:sql "SELECT count(*) FROM calls WHERE status = 'ok'")
            s:report("answered calls in the log", answered, ">=", 2 * s.size)
            local paid = #lab:lines "calls"
            s:report("calls paid twice", paid - 2 * s.size, "<=",
                (count.worker + count.redis * WORKERS) * AT_ONCE)
            local left = lab.server:cli(("EXISTS %sstate %sopen %smaps"):gsub("%%s", PREFIX))
                .. lab.server:cli(("--raw KEYS '%sjournal:*'"):format(PREFIX))
            s:report("keys left of jobs", left == "0" and 0 or #left, "<=", 0)
        end },
        { "growth", function(s)
            local server <close> = redis_server.start()
            local grown = task.run(function()
                local client <close> = assert(redis.open(server.url))
                return pass_through(client, s.size * (s.full and 1000 or 40))
            end)
            s:report("Redis' memory after all jobs, more than after a tenth", grown, "<=", 256,
                "KiB")
        end },
    },
}
