-- `ponder queue`: figures and dead letters; `ponder work`: its errors.

local json = require "ponder.json"
local redis_server = require "redis_server"
local screen = require "screen"
local shell = require "shell"
local store = require "ponder.core.store"
local workers = require "workers"

local JOB = [[
return {
    echo = function(x) return x end,
    raise = function(x)
        if not io.open("ready") then error("not ready for " .. x) end
        return "ready for " .. x
    end,
}]]

describe("ponder queue", function()
    local lab

    setup(function()
        lab = workers.lab { ["job.lua"] = JOB }
        lab:worker { "--lease", "1s" }
    end)
    teardown(function() lab:__close() end)

    local function queue(...)
        return lab:ponder { "queue", lab.server.url, ... }
    end

    local function figures()
        return json.decode(queue("--json").out).queues[1]
    end

    it("shows jobs, workers and totals, for people and as JSON", function()
        assert.equal(0, lab:coordinate([[q:map({ 1, 2, 3 }, "echo")]]).status)
        local now = figures()
        assert.same({ "t", 0, 0, 3, 0 }, { now.queue, now.waiting, now.running, now.totals.done,
            now.dead })
        assert.equal(1, #now.workers)
        assert.equal("job.lua", now.workers[1].script)
        local shown = queue()
        assert.equal(0, shown.status)
        assert.matches("QUEUE +WAITING", shown.out)
        assert.matches("\nt +0 +0 +0.0 +3 ", shown.out)
        assert.matches("of 16 running", shown.out)
    end)

    it("fits into narrow terminals", function()
        local shows = { [80] = "\nt +%d+ +%d+ ", [40] = "\nt +%d+ +%d+ +%d+ +" }
        for columns, pattern in pairs(shows) do
            local s <close> = screen.open({ "queue", lab.server.url }, { columns = columns })
            for _, line in ipairs(s:wait(pattern)) do -- none is wrapped
                assert.is_truthy(line:find "^QUEUE" or line:find "^t" or line:find "^  ", line)
            end
        end
    end)

    it("lists dead letters, drops them, and retries them if a coordinator waits", function()
        lab:coordinate [[q:map({ 1, 2 }, "raise", { max_attempts = 1 })]]
        workers.eventually("the worker announces them", function()
            return queue().out:find(", 2 dead, up ", 1, true)
        end)
        local letters = json.decode(queue("--queue", "t", "--dead", "--json").out).dead
        assert.equal(2, #letters)
        assert.same({ "raise[1]", "1", 1 }, { letters[1].name, letters[1].item,
            letters[1].attempts })
        assert.matches("job.lua:4: not ready for 1", letters[1].error)
        assert.matches("2 dead letters", queue("--queue", "t", "--dead").out)
        assert.equal("1 dropped\n", queue("--queue", "t", "--drop", letters[1].id).out)
        assert.equal(1, figures().dead)
        local missing = queue("--queue", "t", "--drop", letters[1].id)
        assert.equal(2, missing.status)
        assert.matches("no dead letter", missing.err)

        lab.dir:write("ready", "")
        assert.equal("1 enqueued again\n", queue("--queue", "t", "--retry", "all").out)
        workers.eventually("it is done", function() return figures().totals.done == 4 end)
        assert.equal(0, figures().dead)
    end)

    it("is in /metrics of ponder serve, too", function()
        lab.dir:write("policy.lua", "return function() return 'x' end")
        local done = shell.run(([[cd %s; XDG_STATE_HOME=state %s serve --listen unix:sock \
            --queues %s policy.lua 2>$ERR & until [ -S sock ]; do sleep 0.02; done
            curl -s --unix-socket sock http://x/metrics >$OUT; kill -TERM $!; wait $!]]):format(
            lab.dir.path, shell.executable, lab.server.url))
        assert.matches("\nponder_queue_up 1\n", done.out)
        assert.matches('\nponder_queue_waiting{queue="t"} 0\n', done.out)
        assert.matches('\nponder_queue_workers{queue="t"} %d\n', done.out)
        assert.matches('\nponder_queue_done{queue="t"} %d+\n', done.out)
    end)

    it("deletes the contents of a queue", function()
        assert.equal("the queue t is empty\n", queue("--queue", "t", "--purge").out)
        assert.equal(0, figures().totals.done)
    end)

    it("requires a queue and a URL", function()
        for _, flags in ipairs { { "--dead" }, { "--purge" }, { "--retry", "all" } } do
            local done = queue(table.unpack(flags))
            assert.equal(2, done.status)
            assert.matches("expected %-%-queue NAME", done.err)
        end
        local done = shell.ponder({ "queue" }, { env = { PONDER_REDIS_URL = "" } })
        assert.equal(2, done.status)
        assert.matches("set PONDER_REDIS_URL", done.err)
    end)
end)

describe("a Redis that anybody may have written to", function()
    it("is shown with its odd fields in one line each", function()
        local lab <close> = workers.lab { ["job.lua"] = JOB }
        local function set(key, ...)
            local words = { "HSET", "ponder:1:{t}:" .. key, ... }
            for i, word in ipairs(words) do
                words[i] = shell.quote(word)
            end
            assert.matches("^%d", lab.server:cli(table.concat(words, " ")))
        end
        set("stats", "done", "many", "failed", "1e400")
        set("codes", "a\nb", "5", "c", '{"script":{}}')
        for i, about in ipairs { "5", "[1]", "{", '{"running":1.5,"dead":"x","seen_at":-1}',
            '{"started_at":1e300,"lease_ms":{},"problem":7,"script":"\\n"}' } do
            set("workers", i .. "\n\27[2J", about)
        end
        for i, letter in ipairs { "5", "null", '{"at":1e18,"attempts":"x","item":7,"error":[]}',
            '{"map":"m","code":"c","spec":"[","item":"a\\nb","error":"\\nx","at":1}' } do
            set("dead", i .. "\n", letter)
        end
        lab.server:cli "XADD 'ponder:1:{t}:jobs:c' 1-1 x y"
        local function queue(...)
            local done = lab:ponder { "queue", lab.server.url, ... }
            assert.is_nil((done.out .. done.err):find "traceback" or done.out:find "\27%[2J%w")
            return done
        end
        local lines = select(2, queue().out:gsub("\n", ""))
        assert.equal(2 + 5 + 1, lines)
        assert.equal(0, queue("--json").status)
        assert.matches("1 job for version c of %?, which no worker has", queue().out)
        local dead = queue("--queue", "t", "--dead")
        assert.same({ 0, 4 * 3 + 1 }, { dead.status, select(2, dead.out:gsub("\n", "")) })
        assert.equal("1 enqueued again\n", queue("--queue", "t", "--retry", "all").out)
        local retried = queue("--queue", "t", "--retry", "1\n")
        assert.same({ 1, "" }, { retried.status, retried.out })
        assert.matches("is damaged: it can only be dropped\n$", retried.err)
        assert.equal("3 dropped\n", queue("--queue", "t", "--drop", "all").out)
        assert.equal("the queue t is empty\n", queue("--queue", "t", "--purge").out)
        lab.server:cli "SET 'ponder:1:{t}:workers' 1"
        assert.matches("^ponder queue: [^\n]*WRONGTYPE[^\n]*\n$", queue().err)
    end)

    it("may have written replies that are none, which a job does not get", function()
        local lab <close> = workers.lab { ["job.lua"] = JOB,
            ["model.lua"] = "return function() return 'yes' end" }
        assert.equal("kept yes yes yes yes yes yes", lab:coordinate([[
            local journal, model = require "ponder.serve.queue.journal", require "ponder.model"
            local runs, words = require "ponder.run", {}
            for i, stored in ipairs { '{"samples":[{"text":"kept"}]}', "5", '"x"', "{", "{}",
                '{"samples":[5]}', '{"samples":[],"usage":7}' } do
                local client = { eval = function() return 1 end }
                local book, stop = journal.new(client, "p", "id", print), journal.follow()
                book.replies = setmetatable({}, { __index = function() return stored end })
                local r = runs.new {}
                journal.attach(book, r)
                words[i] = r:call(function()
                    return model.open "script:model.lua":complete "?"
                end)
                stop()
            end
            io.write(table.concat(words, " "))]]).out)
    end)

    it("ends a worker, with a message, by an answer that Redis cannot give", function()
        local lab <close> = workers.lab({ ["job.lua"] = JOB }, { "--rename-command", "XREADGROUP",
            "", "--rename-command", "DEL", "XREADGROUP" })
        local worker = lab:worker()
        assert.equal("1", worker:wait(10))
        assert.matches("an impossible answer of Redis: .*attempt to index", worker:output())
        assert.matches("attempt to index", lab.server:cli "HVALS 'ponder:1:{t}:workers'")
    end)
end)

describe("jobs for a version of the script that no worker has", function()
    it("are shown, and dropped with an error for those who wait", function()
        local lab <close> = workers.lab({ ["job.lua"] = JOB,
            ["new.lua"] = "return { echo = print }" }, nil, "2s")
        lab:worker { "--script", "new.lua" }
        local coordinator = lab:begin [[
            local _, e = q:map({ 1, 2 }, "echo")
            print(e[1].code, e[2].message)]]
        local version
        local function queue(...)
            return lab:ponder { "queue", lab.server.url, "--queue", "t", ... }.out
        end
        workers.eventually("the version is shown", function()
            version = queue():match "2 jobs for version (%x+) of job.lua, which no worker has"
            return version
        end)
        assert.same({ { code = version, script = "job.lua", waiting = 2, running = 0,
            workers = 0 } }, json.decode(queue "--json").queues[1].versions)
        assert.equal("2 dropped\n", queue("--drop", version))
        assert.equal("0", coordinator:wait(), coordinator:output())
        assert.same({ "CANCELLED\tthe job was dropped, with all for its version of the script" },
            coordinator:lines())
        assert.same({}, json.decode(queue "--json").queues[1].versions)
        assert.equal("", queue("--drop", version))
    end)
end)

describe("the rights of a user of Redis", function()
    local MAIN = [[
        local task = require "ponder.task"
        task.with_budget({ max_calls = 2 }, function()
            local r, e = q:map({ 1, 2, 3 }, "ask")
            print(r[1], r[2], e[3].code)
        end)]]
    local FILES = { ["job.lua"] = [[return { ask = function(x)
            return require("ponder.model").open "script:model.lua":complete("q" .. x)
        end }]], ["model.lua"] = "return function() return 'yes' end" }

    -- A lab whose processes are the user "ponder", as ponder help many-machines says, with changes.
    local function lab_with(changes)
        local rights = shell.ponder({ "help", "many-machines" }).out:match "ACL SETUSER (.-)\n\n"
        local lab = workers.lab(FILES, nil, "2s")
        local command = rights:gsub("%s+", "' '"):gsub(">PASSWORD", ">pw")
        assert.equal("OK", lab.server:cli(("ACL SETUSER '%s' %s"):format(command, changes or "")))
        lab.server.url = lab.server.url:gsub("//", "//ponder:pw@", 1)
        return lab
    end

    it("are sufficient as ponder help many-machines lists them", function()
        local lab <close> = lab_with()
        local worker = lab:worker { "--cache", lab.server.url }
        local done = lab:coordinate(MAIN)
        assert.same({ 0, "yes\tyes\tBUDGET\n" }, { done.status, done.out }, done.err)
        for _, flag in ipairs { "--json", "--dead", "--purge" } do
            assert.equal(0, lab:ponder({ "queue", lab.server.url, "--queue", "t", flag }).status)
        end
        assert.equal(0, lab:ponder({ "queue", lab.server.url }).status)
        worker:kill "TERM"
        assert.equal("0", worker:wait(), worker:output())
        assert.equal("", lab.server:cli "ACL LOG")
    end)

    for changes, missing in pairs {
        ["-time"] = "+time", ["-xreadgroup"] = "+xreadgroup", ["-hdel"] = "+hdel",
        ["-evalsha"] = "+evalsha", ["-xpending -xadd"] = "+xadd",
        ["resetkeys '~ponder:1:{x}:*'"] = "~ponder:1:*",
    } do
        it("are named if they are missing: " .. missing, function()
            local lab <close> = lab_with(changes)
            local worker = lab:worker()
            local coordinator = lab:begin(MAIN)
            local right = "missing right: ACL SETUSER ponder " .. missing
            workers.eventually("the program says so", function()
                return coordinator:output():find(right, 1, true)
            end)
            if not changes:find "xadd" then -- workers need that for results
                assert.equal("1", worker:wait())
                assert.is_truthy(worker:output():find(right, 1, true))
            end
        end)
    end
end)

describe("ponder work", function()
    it("ends at the second signal even if Redis does not answer", function()
        local lab <close> = workers.lab { ["job.lua"] = [[return { nap = function(x)
            io.open("began" .. x, "w"):close()
            require("ponder.task").sleep(x)
        end }]] }
        local worker = lab:worker()
        lab:begin [[q:map({ 900, 901, 902, 903, 904, 905, 906, 907 }, "nap")]]
        workers.eventually("all have begun", function()
            return shell.output(("ls %s | grep -c began"):format(lab.dir.path)) == "8"
        end)
        shell.output("kill -STOP " .. lab.server.pid)
        worker:kill "TERM"
        os.execute "sleep 0.2"
        worker:kill "TERM"
        assert.equal("0", worker:wait(), worker:output())
    end)

    it("does not say that Redis is back when it stops without", function()
        local dir <close> = shell.directory { ["job.lua"] = JOB }
        local r = shell.run(([[cd %s
            %s work redis://127.0.0.1:1?timeout=1s --script job.lua 2>$ERR & pid=$!
            until grep -q "waiting for it" $ERR; do sleep 0.1; done
            kill -TERM $pid; wait $pid]]):format(dir.path, shell.quote(shell.executable)))
        assert.equal(0, r.status)
        assert.matches("waiting for it\n$", r.err)
    end)

    it("reports why it cannot begin, and shows no password", function()
        local server <close> = redis_server.start({ "--requirepass", "tr0ub4dor" },
            { cli = "-a tr0ub4dor --no-auth-warning" })
        local dir <close> = shell.directory { ["job.lua"] = JOB, ["none.lua"] = "return {}",
            ["syntax.lua"] = "return {" }
        local function work(...)
            return dir:ponder { "work", ... }
        end
        local wrong = server.url:gsub("//", "//:correcth0rse@", 1)
        for _, case in ipairs {
            { 2, "expected %-%-script FILE", "redis://h" },
            { 2, "%-%-queue must consist of letters", "redis://h", "--script", "job.lua", "--queue",
                "\27[2J" },
            { 1, "must return a table of functions", server.url, "--script", "none.lua" },
            { 2, "gone.lua: No such file", server.url, "--script", "gone.lua" },
            { 1, "syntax.lua:1:", server.url, "--script", "syntax.lua" },
            { 2, "the Redis URL must be", "http://:s3cr3t99@h", "--script", "job.lua" },
            { 1, "WRONGPASS.*the password is wrong", wrong, "--script", "job.lua" },
            { 1, "NOAUTH", server.url, "--script", "job.lua" },
        } do
            local done = work(table.unpack(case, 3))
            assert.equal(case[1], done.status, done.err)
            assert.matches(case[2], done.err)
            assert.is_nil((done.out .. done.err):find "correcth0rse" or done.err:find "s3cr3t99")
        end
    end)

    it("keeps the password of its URL out of its log", function()
        local server <close> = redis_server.start({ "--requirepass", "tr0ub4dor" },
            { cli = "-a tr0ub4dor --no-auth-warning" })
        local dir <close> = shell.directory { ["job.lua"] = JOB }
        local url = server.url:gsub("//", "//:tr0ub4dor@", 1)
        local done = shell.run(("cd %s; %s work %s --script job.lua --log w.db 2>$ERR & sleep 1; "
            .. "kill -TERM $!; wait $!"):format(dir.path, shell.executable, url))
        assert.equal(0, done.status, done.err)
        assert.is_nil(dir:read("w.db"):find("tr0ub4dor", 1, true))
        assert.is_nil(done.err:find("tr0ub4dor", 1, true))
    end)

    it("adds to its log when it starts again", function()
        local server <close> = redis_server.start()
        local dir <close> = shell.directory { ["job.lua"] = JOB }
        local done = shell.run(([[cd %s
            for i in 1 2; do
                %s work %s --script job.lua --log w.db 2>err$i & pid=$!
                until [ -s err$i ]; do sleep 0.05; done
                kill -TERM $pid; wait $pid
            done]]):format(dir.path, shell.executable, server.url))
        assert.equal(0, done.status, dir:read "err2")
        local log <close> = assert(store.open(dir.path .. "/w.db", { mode = "read" }))
        assert.equal(2, (log:row "SELECT count(*) FROM runs WHERE parent IS NULL"))
    end)
end)

describe("scripts/many_machines.lua", function()
    it("gets from two workers the answer of one machine", function()
        local server <close> = redis_server.start()
        local dir <close> = shell.directory()
        local script = io.popen("pwd"):read "l" .. "/scripts/many_machines.lua"
        local done = shell.run(([[cd %s
            for i in 1 2; do %s work %s --script %s --log $i.db 2>/dev/null & PIDS="$PIDS $!"
            done
            %s run --no-log %s %s 50000 >$OUT 2>$ERR; status=$?
            kill -TERM $PIDS; wait; exit $status]]):format(dir.path, shell.executable,
            server.url, script, shell.executable, script, server.url))
        assert.equal(0, done.status, done.err)
        assert.equal("35655: 323 steps\n", done.out)
    end)
end)
