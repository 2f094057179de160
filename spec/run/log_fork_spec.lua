-- `ponder fork`: what it changes, what it saves, and its own options.

local help = require "log_help"
local json = require "ponder.json"
local shell = require "shell"
local store = require "ponder.core.store"

local PRICES = [[return { ["http://127.0.0.1:*"] = { input = 1000, output = 1000 } }]]

describe("ponder fork", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    local function fork(...)
        os.remove(w.dir.path .. "/new.db")
        return w:ponder { "fork", "--log", "new.db", ... }
    end

    local function new_row(sql)
        return w:row(sql, w.dir.path .. "/new.db")
    end

    local ASKING = [[
        local answers = {}
        for i = 1, 4 do answers[i] = ask("question " .. i) or "-" end
        say(table.concat(answers, " "), ...)
    ]]

    it("passes options to the command or to the script, whichever has them", function()
        w:begin(ASKING)
        assert.matches("^%d+ %d+ %- %-\t7\n$",
            w:ponder({ "run", "--max-calls", "2", "--log", w.log, w.script, "7" }).out)
        assert.equal(2, w:requests())
        local r = fork("-o", "max_calls=2,depth=3,fast", w.log)
        assert.matches("^%d+ %d+ %d+ %d+\t7\t%-%-depth=3\t%-%-fast\n$", r.out)
        assert.equal(4, w:requests())
        assert.same({ "--max-calls", "2", "--max-calls=2", w.script, "7", "--depth=3", "--fast" },
            json.decode(new_row "SELECT arguments FROM runs"))
    end)

    it("leaves the script's own options to it", function()
        w:begin(ASKING)
        w:run("--max-calls", "9", "--", "x")
        local r = fork("-o", "max-calls=1", w.log)
        assert.matches("^%d+ %d+ %d+ %d+\t%-%-max%-calls\t9\t%-%-max%-calls=1\t%-%-\tx\n$",
            r.out)
    end)

    it("replaces the script by another", function()
        w:begin(ASKING)
        local first = w:ponder { "run", "--log=" .. w.log, "--max-calls", "9", w.script, w.script }
        assert.equal(0, first.status)
        w.dir:write("other.lua", help.PRELUDE .. 'say(ask "question 2", ...)')
        local r = fork("--script", "other.lua", w.log)
        assert.equal(("%s\t%s\n"):format(first.out:match "^%d+ (%d+)", w.script), r.out)
        assert.equal(4, w:requests())
        assert.same({ "--max-calls", "9", w.dir.path .. "/other.lua", w.script },
            json.decode(new_row "SELECT arguments FROM runs"))
    end)

    it("puts options of commands before operands", function()
        w:begin ""
        w:ponder { "chat", "--log", w.log, "--", "--log", "me" }
        local r = fork("-o", "system=Be short, or say =, x=y,temperature=0.5,quiet", w.log)
        assert.matches("unknown option %-%-quiet", r.err)
        r = fork("-o", "system=Be short, or say =, x=y,temperature=0.5", w.log)
        assert.equal(0, r.status)
        assert.same({ "--system=Be short, or say =, x=y", "--temperature=0.5", "--", "--log",
            "me" }, json.decode(new_row "SELECT arguments FROM runs"))
    end)

    -- Runs a script whose calls have a price; returns what they cost.
    local function cost_of(code)
        w.dir:write("ponder/prices.lua", PRICES)
        w:begin(code)
        w:ponder({ "run", "--log", w.log, w.script }, { env = { XDG_CONFIG_HOME = w.dir.path } })
        local cost = w:row "SELECT sum(cost) FROM calls"
        assert.is_true(cost > 0)
        return cost
    end

    it("reports what it saved, as far as that is known", function()
        w:begin(ASKING)
        w:run()
        local report = "^ponder fork: 4 of 4 calls were answered from %S+, (.*); the log is "
        assert.equal("at unknown prices", fork(w.log).err:match(report))
        local cost = cost_of(ASKING)
        assert.equal(("which saved $%.4f"):format(cost), fork(w.log).err:match(report))
        assert.same({ 4, cost }, { new_row "SELECT saved_calls, saved_cost FROM runs" })
        local shown = w:ponder { "show", "new.db" }
        assert.matches("\nsaved     4 calls, $0.060; forked from ", shown.out, 1, true)
    end)

    it("keeps its savings when it is resumed", function()
        local cost = cost_of 'say(assert(ask "a"), assert(ask "b"))'
        w.dir:write("script.lua", help.PRELUDE
            .. 'say(assert(ask "a"), assert(ask "b"), assert(ask "c"))')
        w.server:next("status=400&body={}")
        assert.equal(1, fork(w.log).status)
        assert.equal(0, w:ponder({ "resume", "new.db" }).status)
        assert.same({ 2, cost }, { new_row "SELECT saved_calls, saved_cost FROM runs" })
    end)

    it("without calls creates no log", function()
        w:begin(ASKING)
        w:run()
        local before = #w:kept()
        w.dir:write("other.lua", "print 'nothing to ask'")
        local r = w:ponder { "fork", "--script", "other.lua", w.log }
        assert.same({ 0, "nothing to ask\n", "" }, { r.status, r.out, r.err })
        r = w:ponder { "fork", "--script", "nosuch.lua", w.log }
        assert.same({ 2, "ponder: nosuch.lua: No such file or directory\n" },
            { r.status, r.err })
        assert.equal(before, #w:kept())
        assert.matches("^%d+ ", w:ponder({ "fork", w.log }).out)
        assert.equal(before + 1, #w:kept())
    end)

    it("is named by resume when that is given its options", function()
        w:begin(ASKING)
        w:run()
        for _, flag in ipairs { "--max-calls", "--script", "-o" } do
            local r = w:ponder { "resume", w.log, flag, "9" }
            assert.equal(2, r.status)
            assert.matches("^ponder resume: unknown option " .. flag:gsub("%-", "%%-")
                .. ".*; to rerun a log with changes: ponder fork %-o max%-calls=200\n$", r.err)
        end
    end)

    describe("from a node or a call", function()
        local TOT = { "tot", "--model", "script:" .. shell.root .. "/scripts/models/arithmetic.lua",
            "--max-depth", "2", "Use 4 4 6 8 to make 24" }

        local function run_tot()
            w:begin ""
            assert.equal(0, w:ponder { TOT[1], "--log", w.log, table.unpack(TOT, 2) }.status)
        end

        local function calls_by_origin()
            return { new_row [[SELECT count(*) FILTER (WHERE origin = 'log'),
                count(*) FILTER (WHERE origin <> 'log') FROM calls]] }
        end

        it("gives a node another text, and sends only the calls that depend on it", function()
            run_tot()
            local id, text = w:row [[SELECT id, text FROM nodes WHERE depth = 1 ORDER BY score DESC,
                id LIMIT 1]]
            local before = w:row "SELECT count(*) FROM calls"
            w.dir:write("thought.txt", "4 * 4 = 16 (left: 6 8 16)\n")
            local r = fork("--node", id, "--text", "thought.txt", w.log)
            assert.equal(0, r.status, r.err)
            assert.equal("4 * 4 = 16 (left: 6 8 16)",
                new_row(("SELECT text FROM nodes WHERE id = '%s'"):format(id)))
            assert.are_not.equal("4 * 4 = 16 (left: 6 8 16)", text)
            local kept, asked = table.unpack(calls_by_origin())
            assert.is_true(kept > 0 and asked > 0 and kept < before, ("%d %d"):format(kept, asked))
            assert.equal(1, new_row "SELECT count(*) FROM calls WHERE reply LIKE '%\"edited\"%'")
            local replayed = w:ponder { "replay", "new.db" }
            assert.same({ r.out, 0 }, { replayed.out, replayed.status })
        end)

        it("says why a node cannot have another text", function()
            run_tot()
            w.dir:write("thought.txt", "x")
            local function refuses(wanted, flags)
                local r = w:sh(("$PONDER fork --log new.db %s run.db"):format(flags))
                assert.equal(2, r.status)
                assert.matches(wanted, r.err)
            end
            for wanted, flags in pairs {
                ["n1 is a root"] = "--node n1 --text thought.txt",
                ["no node n99"] = "--node n99 --text thought.txt",
                ["no node n2"] = "--node n2 --search 7 --text thought.txt",
                ["needs the new text"] = "--node n2",
                ["not both"] = "--node n2 --call 1 --text thought.txt",
                ["needs its new reply"] = "--call 1",
                ["no call 99"] = "--call 99 --text thought.txt",
                ["need %-%-node ID"] = "--text thought.txt",
                ["no%-such%.txt"] = "--call 1 --text no-such.txt",
            } do
                refuses(wanted, flags)
            end
            local db = assert(store.open(w.log, { mode = "write" }))
            assert(db:execute "UPDATE nodes SET text = 'nowhere' WHERE id = 'n2'")
            db:close()
            refuses("edit a reply: %-%-call %d+ %-%-text FILE", "--node n2 --text thought.txt")
        end)

        it("gives a call another reply", function()
            w:begin 'say(ask("after " .. ask "first"))'
            w:run()
            w.dir:write("reply.txt", "edited\n")
            local r = fork("--call", "1", "--text", "reply.txt", w.log)
            assert.equal(0, r.status, r.err)
            assert.equal(3, w:requests())
            assert.same({ "edited", "after edited" }, { new_row [[SELECT
                (SELECT json_extract(reply, '$.samples[0].text') FROM calls WHERE id = 1),
                (SELECT json_extract(request, '$.messages[0].content') FROM calls WHERE id = 2)]] })
        end)

        it("gives a call another prompt, with which the fork can be replayed", function()
            w:begin [[say(ask "first", ask "second", call("last", { max_output_tokens = 7 }).text)]]
            w:run()
            w.dir:write("prompt.txt", "something else\n")
            local r = fork("--call", "3", "--ask", "prompt.txt", w.log)
            assert.equal(0, r.status, r.err)
            assert.equal(4, w:requests())
            assert.same({ "something else", 7 }, { new_row [[SELECT
                json_extract(request, '$.messages[0].content'), json_extract(request,
                '$.max_tokens') FROM calls WHERE id = 3]] })
            local replayed = w:ponder { "replay", "new.db" }
            assert.same({ r.out, 0, 4 }, { replayed.out, replayed.status, w:requests() })
        end)

        it("says that the script did not reach it", function()
            w:begin [[say(ask "first")]]
            w:run()
            w.dir:write("script.lua", help.PRELUDE .. 'say(ask "other")')
            w.dir:write("reply.txt", "edited")
            local r = fork("--call", "1", "--text", "reply.txt", w.log)
            assert.matches("nothing was edited", r.err)
        end)
    end)
end)
