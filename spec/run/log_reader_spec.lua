-- Reading a run log, and finding stored ones.

local files_of = require "ponder.core.directory"
local kept = require "ponder.run.log.retention"
local reader = require "ponder.run.log.reader"
local sample_log = require "sample_log"
local schema = require "ponder.run.log.schema"
local shell = require "shell"
local store = require "ponder.core.store"

local function all(rows)
    local list = {}
    for row in rows do
        list[#list + 1] = row
    end
    return list
end

describe("a log that is read", function()
    local dir, log

    setup(function()
        dir = shell.directory()
        sample_log.write(dir.path .. "/run.db")
        log = assert(reader.open(dir.path .. "/run.db"))
    end)
    teardown(function()
        log:close()
        dir:__close()
    end)

    it("has the run's command and files", function()
        local run = log:run()
        assert.same({ "policy.lua", "4 4 6 8" }, run.arguments)
        assert.same({ PONDER_MODEL = "openai:gpt-4o-mini" }, run.options)
        assert.equal(1.0, run.answer.score)
        assert.equal(42, run.seed)
        assert.equal("completed", log:state())
        assert.same({ "policy.lua", "prompts/tot.lua" }, { all(log:files())[1].path,
            all(log:files())[2].path })
        assert.equal("run", all(log:sessions())[1].kind)
    end)

    it("has calls in order, without requests and replies", function()
        local calls = all(log:calls())
        assert.equal(40, #calls)
        for i, call in ipairs(calls) do
            assert.equal(i, call.id)
            assert.is_nil(call.request)
            assert.is_nil(call.reply)
        end
    end)

    it("adds up valid counts, whatever else an older log holds", function()
        local path = dir.path .. "/huge.db"
        sample_log.write(path)
        local function totals()
            local opened <close> = assert(reader.open(path))
            return opened:totals()
        end
        local before = totals()
        local db <close> = assert(store.open(path, { mode = "write" }))
        db:execute("UPDATE calls SET input_tokens = ?, total_tokens = ? WHERE id < 4",
            math.maxinteger, math.maxinteger)
        db:execute "UPDATE calls SET output_tokens = -5 WHERE id = 4"
        db:close()
        local after = totals()
        for _, sum in ipairs { "input_tokens", "output_tokens", "total_tokens" } do
            assert.is_true(after[sum] > 0 and after[sum] < before[sum], sum)
        end
        assert.equal(before.cost, after.cost)
        assert.equal(before.calls, after.calls)
        for _, arguments in ipairs { { "show", path }, { "show", "--calls", path },
            { "export", "--format", "json", path }, { "export", "--format", "html", path },
            { "export", "--format", "otlp", path }, { "diff", path, dir.path .. "/run.db" } } do
            local r = shell.ponder(arguments)
            assert.same({ 0, "" }, { r.status, r.err }, table.concat(arguments, " "))
        end
    end)

    it("has single calls with requests and replies", function()
        local call = log:call(1)
        assert.equal("Expand node 1", call.request.messages[2].content)
        assert.equal("Answer 1", call.reply.samples[1].text)
        assert.same({}, call.failures)
        local again
        for c in log:calls() do
            again = c.attempts == 3 and c.id or again
        end
        assert.same({ 429, 429 }, { log:call(again).failures[1].status,
            log:call(again).failures[2].status })
        assert.is_nil(log:call(0))
        assert.is_nil(log:call(41))
    end)

    it("has searches with their nodes in order", function()
        local searches = all(log:searches())
        assert.same({ "beam", "tot", "got" }, { searches[1].kind, searches[2].kind,
            searches[3].kind })
        assert.equal(30, log:node_count(1))
        for i, node in ipairs(all(log:nodes(1))) do
            assert.equal(i, node.id)
        end
        assert.equal("n6", all(log:nodes(2))[6].id)
        assert.equal("8 + 4 = 12 (left: 2 12)", log:node(2, "n6").text)
        assert.equal(17, log:node(1, "17").id)
        assert.is_nil(log:node(2, "n7"))
        assert.equal(3, #all(log:edges(3)))
        assert.same({ "expand", "evaluate" }, { all(log:calls_of(1, 7))[1].purpose,
            all(log:calls_of(1, 7))[2].purpose })
    end)

    it("orders the ids of machines by their number", function()
        local path = dir.path .. "/many.db"
        sample_log.write(path, function(_, w)
            for i = 7, 12 do
                w:node(2, "n" .. i, "n1", 1, 0.5, "more")
            end
        end)
        local many <close> = reader.open(path)
        local ids = {}
        for node in many:nodes(2) do
            ids[#ids + 1] = node.id
        end
        assert.equal("n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12", table.concat(ids, " "))
    end)

    it("adds up usage and cost, and counts unknown prices", function()
        local totals = log:totals()
        assert.same({ 40, 37, 1, 1, 1 }, { totals.calls, totals.ok, totals.errors,
            totals.cancelled, totals.pending })
        assert.same({ 1, 2, 1, 2, 1 }, { totals.reused, totals.retries, totals.unpriced,
            totals.tools, totals.tool_errors })
        local input, output, cost = 0, 0, 0
        for call in log:calls() do
            if call.origin == "live" then
                input, output = input + (call.input_tokens or 0), output + (call.output_tokens or 0)
                cost = cost + (call.cost or 0)
            end
        end
        assert.same({ input, output }, { totals.input_tokens, totals.output_tokens })
        assert.near(cost, totals.cost, 1e-12)
        assert.is_true(totals.saved_cost > 0)
        local models = {}
        for i, model in ipairs(totals.models) do
            models[i] = ("%s:%s %d"):format(model.provider, model.model, model.calls)
        end
        assert.same({ "openai:gpt-4o-mini 21", "anthropic:claude-haiku-4-5 10",
            "ollama:qwen3:8b 8", "openai:mystery-1 1" }, models)
        assert.is_nil(totals.models[4].cost)
        assert.equal(0, totals.models[3].cost)
    end)

    it("decodes results of tools and data of events", function()
        assert.same({ word = "heat" }, all(log:effects())[1].key)
        assert.same({ "high temperature" }, all(log:effects())[1].value)
        local events = all(log:events())
        assert.equal("expanded", events[1].name)
        assert.equal(1, events[1].data.node_id)
    end)

    it("treats damaged JSON as missing", function()
        local path = dir.path .. "/torn.db"
        sample_log.write(path, function(db)
            db:execute "UPDATE runs SET answer = '{\"a\":', arguments = 'x'"
            db:execute "UPDATE calls SET reply = '{', request = 'no' WHERE id = 1"
            for i, data in ipairs { "5", '"x"', "[1]", "{" } do
                db:execute("UPDATE events SET data = ? WHERE id = ?", data, i)
            end
        end)
        local torn <close> = reader.open(path)
        assert.is_nil(torn:run().answer)
        assert.is_nil(torn:run().arguments)
        assert.is_nil(torn:call(1).reply)
        assert.equal(40, torn:totals().calls)
        assert.same({}, { all(torn:events())[1].data, all(torn:events())[3].data })
        local shown = shell.ponder { "show", path, "--events" }
        assert.same({ 0, "" }, { shown.status, shown.err })
    end)

    it("reports its damage", function()
        assert.is_nil(log:damage())
        local path = dir.path .. "/zeros.db"
        sample_log.fill(path, 500)
        local whole = dir:read("zeros.db")
        dir:write("zeros.db", whole:sub(1, #whole // 2) .. ("\0"):rep(#whole - #whole // 2))
        local zeros <close> = reader.open(path)
        assert.is_truthy(zeros:damage())
    end)

    it("is running or killed, depending on its lock", function()
        local path = dir.path .. "/open.db"
        sample_log.write(path, function(db)
            db:execute "UPDATE runs SET status = NULL, ended_at = NULL, exit_status = NULL"
        end)
        local before <close> = reader.open(path)
        assert.equal("killed", before:state())
        local writer = assert(store.open(path, { mode = "write", lock = true,
            application_id = schema.APPLICATION_ID, version = schema.VERSION }))
        assert.equal("running", before:state())
        local open <close> = reader.open(path)
        assert(writer:execute "DELETE FROM calls WHERE id > 10")
        assert.equal(40, open:totals().calls) -- it is read as it stood
        assert(writer:execute "UPDATE runs SET status = 'failed'")
        assert.equal("running", open:state())
        writer:close()
        assert.equal("failed", open:state())
        local again <close> = reader.open(path)
        assert.equal(10, again:totals().calls)
    end)
end)

it("a log without a run is not one", function()
    local dir <close> = shell.directory()
    local path = dir.path .. "/none-yet.db"
    assert(store.open(path, { mode = "create", application_id = schema.APPLICATION_ID,
        version = schema.VERSION, schema = schema.SQL })):close()
    local log, message, code = reader.open(path)
    assert.same({ nil, path .. ": holds no run", "NOT_A_LOG" },
        { log, message, code })
end)

describe("ponder.core.directory", function()
    it("lists the files of a directory, without directories", function()
        local at <close> = shell.directory { a = "12345", ["b/c"] = "", ["d e"] = "" }
        shell.run(("ln -s a %s/link; ln -s nowhere %s/dangling; mkfifo %s/pipe"):format(at.path,
            at.path, at.path))
        local files = files_of.files(at.path)
        table.sort(files, function(x, y) return x.name < y.name end)
        local names = {}
        for i, file in ipairs(files) do
            names[i] = file.name
        end
        assert.same({ "a", "d e", "link" }, names)
        assert.equal(5, files[1].bytes)
        assert.is_true(math.abs(files[1].modified_at - os.time()) < 3600)
        assert.same({ nil, at.path .. "/none: No such file or directory", "NOT_FOUND" },
            { files_of.files(at.path .. "/none") })
        assert.equal("NOT_FOUND", select(3, files_of.files(at.path .. "/a")))
    end)
end)

describe("stored runs", function()
    local dir
    local function write(name, started_at)
        sample_log.write(("%s/%s.db"):format(dir.path, name), function(db)
            db:execute("UPDATE runs SET started_at = ?", started_at)
        end)
    end
    setup(function()
        dir = shell.directory { history = "print(1)\n", ["other.db"] = "no log" }
        write("a", 1000.0)
        write("c", 3000.0)
        write("b", 2000.0)
    end)
    teardown(function() dir:__close() end)

    it("are listed newest first, without other files", function()
        local names = {}
        for i, run in ipairs(kept.list(dir.path)) do
            names[i] = run.name
            assert.is_true(run.bytes > 0)
        end
        assert.same({ "c", "b", "a" }, names)
        assert.same({ {} }, { kept.list(dir.path .. "/none") })
    end)

    it("are found by path, number and name", function()
        assert.equal(dir.path .. "/b.db", kept.find(dir.path .. "/b.db"))
        assert.equal("/none/x.db", kept.find("/none/x.db"))
        local r = shell.ponder({ "-e", [[
            local kept = require "ponder.run.log.retention"
            for _, what in ipairs { 1, "2", "3", "b", "b.db", "4", "0", "x", "../ponder/b" } do
                print(kept.find(what))
            end
            print(kept.find())]] }, { env = { XDG_STATE_HOME = dir.path .. "/x" } })
        assert.equal(0, r.status, r.err)
        assert.truthy(r.out:find("^nil\t1: neither a file nor a run in "))
        dir:write("s/ponder/history", "")
        os.execute(("cp %s/[abc].db* %s/s/ponder"):format(dir.path, dir.path))
        r = shell.ponder({ "-e", [[
            local kept = require "ponder.run.log.retention"
            local home = require("ponder.base.state").directory():gsub("%p", "%%%0")
            for _, what in ipairs { 1, "2", "3", "b", "b.db", "4", "0", "x" } do
                print((tostring(kept.find(what)):gsub(home, "")))
            end
            print((kept.find():gsub(home, "")))]] }, { env = { XDG_STATE_HOME = dir.path
            .. "/s" } })
        assert.equal("/c.db\n/b.db\n/a.db\n/b.db\n/b.db\nnil\nnil\nnil\n/c.db\n", r.out, r.err)
    end)
end)
