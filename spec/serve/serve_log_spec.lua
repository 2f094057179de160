-- Requests in the log of ponder serve: each can be rerun alone.

local shell = require "shell"
local store = require "ponder.core.store"

local POLICY = [[
local m = require("ponder.model").open "script:model.lua"
local count = 0
return { ask = function(request)
    count = count + 1
    request:think "thinking"
    return ("%s, %s, %d"):format(assert(m:complete(request.prompt)), request.params.user,
        math.random(1 << 30))
end }
]]
local MODEL = [[
return function(request)
    if request.messages[1].content == "wait" and not io.open "go" then
        require("ponder.task").sleep(60)
    end
    return "re " .. request.messages[1].content
end
]]

local IDS = "SELECT group_concat(id) FROM (SELECT id FROM runs ORDER BY id)"

local directory

-- The output of a shell script; `$ponder` is the executable, `serve` starts a server with more
-- options, `ask PROMPT USER` sends it a request, `stop` ends it; `$on FILE` is a server's command.
local function run(script)
    return shell.run(([[
        cd %s; ponder=%s; on="$ponder serve ask.lua --listen 127.0.0.1:0 --log"
        serve() {
            : >server; $on run.db "$@" 2>server & pid=$!
            until grep -q ' at http' server; do sleep 0.01; done
            port=$(sed -n 's|.*127.0.0.1:\([0-9]*\)/v1|\1|p' server)
        }
        ask() {
            curl -s --noproxy '*' -H 'Content-Type: application/json' \
                127.0.0.1:$port/v1/chat/completions -d '{"model": "ask", "user": "'$2'",
                "messages": [{"role": "user", "content": "'$1'"}]}' |
                sed 's/.*"content":"\([^"]*\)".*/\1/'; echo
        }
        stop() { kill -TERM $pid; wait $pid; }
        { %s
        } >$OUT 2>$ERR]]):format(directory.path, shell.quote(shell.executable), script))
end

describe("a request on the log of a server", function()
    before_each(function()
        directory = shell.directory { ["ask.lua"] = POLICY, ["model.lua"] = MODEL }
    end)
    after_each(function()
        directory:__close()
    end)

    it("is replayed alone", function()
        local r = run [[
            serve; ask a ann; ask b bob; stop
            for i in 3 2; do $ponder replay run.db#$i; done]]
        local a, b = r.out:match "^(re a, ann, %d+)\n(re b, bob, %d+)\n"
        assert.equal(("%s\n%s\n%s\n%s\n"):format(a, b, b, a), r.out)
        assert.equal("", r.err)
        assert.equal(0, r.status)
    end)

    it("is forked alone, with another reply", function()
        local r = run [[
            serve; ask a ann; ask b bob; stop
            echo new >text; $ponder fork run.db#3 --call 1 --text text --log fork.db]]
        local number = r.out:match "\nre b, bob, (%d+)\n"
        assert.matches("\nnew, bob, " .. number .. "\n$", r.out)
        assert.matches("1 of 1 call was answered from", r.err)
        local db <close> = assert(store.open(directory.path .. "/fork.db", { mode = "read" }))
        assert.equal(1, (db:row "SELECT count(*) FROM runs WHERE name = 'ask'"))
    end)

    it("is resumed alone after the server was killed", function()
        local r = run [[
            serve; ask a ann; ask wait bob & asking=$!
            until $ponder log run.db | grep -q '^3 '; do sleep 0.05; done
            kill -KILL $pid; wait $asking; touch go; $ponder resume run.db#3]]
        assert.matches("re wait, bob, %d+\n$", r.out)
    end)

    it("is deleted when there are too many newer ones", function()
        local r = run [[
            serve --log-max-runs 3; for i in 1 2 3 4 5; do ask a ann; done
            sleep 1.1; ask b bob; $ponder replay run.db#7; stop
            $ponder replay run.db#7; $ponder replay run.db#6; $ponder replay run.db#2]]
        local db <close> = assert(store.open(directory.path .. "/run.db", { mode = "read" }))
        assert.equal("1,5,6,7", (db:row(IDS)))
        for _, name in ipairs { "calls", "tape", "readings", "sessions" } do
            assert.equal(0, (db:row("SELECT count(*) FROM " .. name
                .. " WHERE run BETWEEN 2 AND 4")))
        end
        assert.equal(3, select(2, r.out:gsub("\nre b, bob, %d+", "")))
        assert.matches("holds no run 2", r.err)
    end)

    it("stays when the server starts again, after an end or a kill", function()
        local r = run [[
            serve; ask a ann; ask wait bob & asking=$!
            until $ponder log run.db | grep -q '^3 '; do sleep 0.05; done
            kill -KILL $pid; wait $asking
            serve; ask b bea
            $ponder log run.db | sed 's/^\(.\)  *[^ ]* [^ ]*  *\([a-z]*\) .*/\1 \2/'
            stop
            serve; stop; $ponder log run.db | tail -1 | grep -o '^6.*completed'
            touch go; for i in 2 5; do $ponder replay run.db#$i; done; $ponder resume run.db#3]]
        local a, b, states, a2, b2 = r.out:match("^(re a, ann, %d+)\n\n(re b, bea, %d+)\n(.*)\n"
            .. "6 .*\n(re a.-)\n(re b.-)\nre wait, bob, %d+\n$")
        assert.same({ a, b }, { a2, b2 })
        assert.matches("1 killed\n2 completed\n3 killed\n4 running\n5 completed$", states)
        assert.equal("", r.err)
    end)

    it("is deleted with the start of the server that it was the last one of", function()
        local r = run [[
            serve; ask a ann; kill -KILL $pid
            serve --log-max-runs 1; ask b bob; sleep 1.1; ask c cid; ask d dan; stop
            $ponder replay run.db#6; $ponder replay run.db]]
        local db <close> = assert(store.open(directory.path .. "/run.db", { mode = "read" }))
        assert.equal("3,5,6", (db:row(IDS)))
        assert.equal(0, (db:row "SELECT count(*) FROM files WHERE run <> 3"))
        assert.matches("(re d, dan, %d+)\n%1\n$", r.out)
        assert.matches("name one of its requests", r.err)
    end)

    it("is not added to a file that another server writes, or that is not a log", function()
        local r = run [[
            serve; ask a ann; $on run.db; echo $?; stop
            echo hello >text; $on text; echo $?; cat text
            printf x | dd of=run.db bs=1 seek=4099 conv=notrunc 2>dd; $on run.db; echo $?]]
        assert.matches("^re a, ann, %d+\n1\n2\nhello\n1\n$", r.out)
        assert.matches("^ponder serve: run.db: another run is writing it\n"
            .. "ponder serve: text: not a run log\nponder serve: run.db: damaged: [^\n]+\n$", r.err)
    end)

    it("must be named: the server itself is not run again", function()
        local r = run "serve; ask a ann; stop; $ponder replay run.db || $ponder fork run.db"
        assert.matches("name one of its requests, such as %S+run.db#2\n.*#2\n$", r.err)
        assert.not_equal(0, r.status)
    end)

    it("needs its policy", function()
        local r = run [[
            serve; ask a ann; stop; sed -i 's/ask = /other = /' ask.lua
            $ponder fork run.db#2; echo $?]]
        assert.matches("\n2\n$", r.out)
        assert.matches("\nponder fork: the policy ask no longer exists\n$", "\n" .. r.err)
    end)
end)
