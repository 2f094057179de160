-- `ponder diff`: the differences between two runs.

local changed = require "ponder.show.changed"
local json = require "ponder.json"
local sample_log = require "sample_log"
local screen = require "screen"
local shell = require "shell"

local dir, count = nil, 0

setup(function() dir = shell.directory() end)
teardown(function() dir:__close() end)

-- The sample log with a change.
local function log(change)
    count = count + 1
    return sample_log.write(("%s/%d.db"):format(dir.path, count), change)
end

local function diff(...)
    return shell.ponder({ "diff", ... }, { env = { LC_ALL = "C.UTF-8", TZ = "UTC" } })
end

local function found(a, b)
    local r = diff("--json", a, b)
    assert.equal("", r.err)
    return json.decode(r.out), r.status
end

local function has(text, part)
    assert.is_truthy(text:find(part, 1, true), part .. " is not in\n" .. text)
end

describe("the diff of two texts", function()
    local function lines(a, b)
        local list = {}
        for i, line in ipairs(changed.lines(a, b)) do
            list[i] = line.mark .. line.line .. line.text
        end
        return table.concat(list, " ")
    end

    it("has the lines that changed", function()
        assert.equal("", lines("a\nb\n", "a\nb\n"))
        assert.equal("", lines("", ""))
        assert.equal("-2b +2x", lines("a\nb\nc", "a\nx\nc"))
        assert.equal("+2x", lines("a\nb", "a\nx\nb"))
        assert.equal("-1a", lines("a\nb", "b"))
        assert.equal("-2b +4y", lines("a\nb\nc\nd\ne", "a\nc\nd\ny\ne"))
        assert.equal("-1a +1b", lines("a", "b"))
        assert.equal("-1a +1b -3a", lines("a\nx\na", "b\nx"))
    end)

    it("rebuilds one from the other", function()
        math.randomseed(5)
        for _ = 1, 300 do
            local texts = {}
            for k = 1, 2 do
                local list = {}
                for i = 1, math.random(0, 12) do
                    list[i] = ("abc"):sub(math.random(3)):sub(1, 1)
                end
                texts[k] = list
            end
            local a, b = texts[1], texts[2]
            local gone, new = {}, {}
            for _, line in ipairs(changed.lines(table.concat(a, "\n"), table.concat(b, "\n"))) do
                (line.mark == "-" and gone or new)[line.line] = line.text
            end
            local kept_a, kept_b = {}, {}
            for i, line in ipairs(#a > 0 and a or { "" }) do
                kept_a[#kept_a + 1] = not gone[i] and line or nil
            end
            for i, line in ipairs(#b > 0 and b or { "" }) do
                kept_b[#kept_b + 1] = not new[i] and line or nil
            end
            assert.same(kept_a, kept_b)
        end
    end)

    it("handles many lines", function()
        local a, b = {}, {}
        for i = 1, 3000 do
            a[i], b[i] = "a" .. i, "b" .. i
        end
        assert.equal(6000, #changed.lines(table.concat(a, "\n"), table.concat(b, "\n")))
    end)
end)

describe("ponder diff", function()
    it("counts all calls that only one run has, and names the first 10,000", function()
        local a = log()
        local b = log(function(db)
            db:execute [[WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n
                WHERE i < 25099)
                INSERT INTO calls (run, id, session, identity, occurrence, provider, model,
                    sample, samples, request, asked_at)
                SELECT 1, i, 1, printf('%08x', i * 7919 % 10007), 1, 'p', 'm', 0, 1, '{}', 0
                FROM n]]
        end)
        for _, pair in ipairs { { a, b, "a", "b" }, { b, a, "b", "a" } } do
            local calls = found(pair[1], pair[2]).calls
            assert.same({ 0, 25000, 0, 10000 }, { calls["only_" .. pair[3] .. "_count"],
                calls["only_" .. pair[4] .. "_count"], #calls["only_" .. pair[3]],
                #calls["only_" .. pair[4]] })
            for i, call in ipairs(calls["only_" .. pair[4]]) do
                assert.equal(99 + i, call.id)
            end
        end
        local out = diff("--all", a, b).out
        has(out, "0 only in A, 25000 only in B\n+ 100 ")
        has(out, "\n... 15000 more\n")
    end)

    it("treats runs as equal whatever time they took", function()
        local a = log()
        local b = log(function(db)
            db:execute "UPDATE runs SET ended_at = ended_at + 5, started_at = started_at - 1"
            db:execute "UPDATE runs SET answer = json_set(answer, '$.duration_ms', 7)"
            db:execute "UPDATE calls SET cost = cost * 2, latency_ms = 1"
            db:execute("UPDATE runs SET options = ?", json.encode { PONDER_MODEL = "x:y" })
            db:execute "DELETE FROM calls WHERE id = 40"
        end)
        local r = diff(a, a)
        assert.same({ 0, "" }, { r.status, r.err })
        has(r.out, "Same outcome.\n")
        assert.is_nil(r.out:find("search", 1, true))
        r = diff(a, b)
        assert.equal(0, r.status)
        for _, part in ipairs { "\nPONDER_MODEL: openai:gpt-4o-mini | x:y\n",
            "\ncalls: 39 the same, 1 only in A, 0 only in B\n- 40 openai",
            "\ntime      12 s " } do
            has(r.out, part)
        end
    end)

    it("has the largest number for an infinite score in JSON", function()
        local hopeless = log(function(db)
            db:execute "UPDATE nodes SET score = -9e999 WHERE id = 'n6'"
        end)
        assert.equal(-1.7976931348623157e308,
            found(log(), hopeless).searches[2].scored[1].b_score)
    end)

    it("compares answers, ends and trees", function()
        local a = log()
        for _, change in ipairs {
            "UPDATE runs SET answer = '{\"answer\":\"25\"}'", "UPDATE runs SET status = 'failed'",
            "UPDATE runs SET answer = NULL", "UPDATE nodes SET score = 0.5 WHERE id = 'n6'",
            "UPDATE nodes SET text = 'x' WHERE search = 1 AND id = 30",
            "DELETE FROM nodes WHERE search = 1 AND id = 30",
            "UPDATE nodes SET best = NULL WHERE search = 2 AND id = 'n6'",
            "UPDATE searches SET reason = 'max_nodes' WHERE id = 2",
            "DELETE FROM searches WHERE id = 3", "UPDATE searches SET kind = 'dfs' WHERE id = 1",
        } do
            local b = log(function(db) db:execute(change) end)
            for _, pair in ipairs { { a, b }, { b, a } } do
                local r = diff(pair[1], pair[2])
                assert.same({ 1, "" }, { r.status, r.err }, change)
                has(r.out, "Different outcomes.\n")
                assert.equal(1, select(2, found(pair[1], pair[2])))
            end
        end
    end)

    it("pairs nodes by their texts, not by their ids", function()
        local a = log()
        local b = log(function(db, w)
            db:execute "UPDATE nodes SET id = id + 100, parent = parent + 100 WHERE search = 1"
            w:node(2, "n0", "n1", 1, 0.1, "a thought before the others")
            w:node(3, "n9", "n5", 2, 0.1, "twice")
            w:node(3, "n99", "n5", 2, 0.1, "twice")
        end)
        local map = found(a, b)
        assert.is_true(map.searches[1].same)
        assert.same({ 0, 1, 0, true }, { #map.searches[2].only_a, #map.searches[2].only_b,
            #map.searches[2].scored, map.searches[2].best_path_same })
        assert.equal("n0", map.searches[2].only_b[1].id)
        assert.equal(2, #map.searches[3].only_b)
    end)

    it("pairs equal texts in order, but not below a node that only one has", function()
        local function write_wide(db, w)
            db:execute "DELETE FROM nodes WHERE search = 1"
            w:node(1, 0, nil, 0, 0.5, "root")
            for i = 1, 3 do
                w:node(1, i, 0, 1, i / 10, "twice")
            end
        end
        local a = log(write_wide)
        local b = log(function(db, w)
            write_wide(db, w)
            w:node(1, 4, 0, 1, 0.9, "only here")
            w:node(1, 5, 4, 2, 0.9, "root")
            w:node(1, 6, 0, 1, 0.9, "twice")
        end)
        local search = found(a, b).searches[1]
        assert.same({ 0, 3, 0, 4, 7 }, { search.only_a_count, search.only_b_count,
            search.scored_count, search.a_nodes, search.b_nodes })
        assert.same({ 4, 5, 6 }, { search.only_b[1].id, search.only_b[2].id, search.only_b[3].id })
    end)

    it("counts the nodes that differ, and lists 10,000", function()
        local most = 10000
        local function many(text)
            return log(function(db, w)
                db:execute "DELETE FROM nodes WHERE search = 1"
                w:node(1, 0, nil, 0, 0.5, "root")
                for i = 1, most + 5 do
                    w:node(1, i, 0, 1, 0.1, text .. i)
                end
            end)
        end
        local r = diff("--all", many "a", many "b")
        has(r.out, "; 10005 only in A, 10005 only in B, 0 scored differently\n")
        has(r.out, "\n- 10000  0.10   a10000\n... 5 more\n+ 1  0.10   b1\n")
    end)

    it("shows every kind of difference", function()
        local a = log()
        local b = log(function(db, w)
            db:execute("UPDATE runs SET answer = ?, seed = 7", json.encode { answer =
                "(8 - 4) * 6 = 24\nor \27[31mnothing" })
            db:execute("UPDATE files SET hash = 'ff', text = ? WHERE path = 'policy.lua'",
                "local search = require \"ponder.search\"\nreturn nil\n")
            db:execute "DELETE FROM files WHERE path = 'prompts/tot.lua'"
            db:execute "UPDATE nodes SET score = 0.99 WHERE search = 2 AND id = 'n5'"
            w:node(2, "n7", "n3", 2, 0.5, "new\27[2J")
            w:call { question = "brand new", purpose = "expand", search = 1, node = 4 }
        end)
        local r = diff(a, b)
        assert.equal(1, r.status)
        for _, part in ipairs { "\n- (6 - 4) * (8 + 4) = 24\n+ (8 - 4) * 6 = 24\n+ or ?[31mnothing",
            "\nseed: 42 | 7\n", "\nscript policy.lua\n-    2  return search.run",
            "\n+    2  return nil\n", "\nprompts prompts/tot.lua: only in A\n",
            "\ncalls: 40 the same, 0 only in A, 1 only in B\n+ 41 expand 4 openai:gpt-4o-mini\n",
            "\nsearch 2, tot: 6 nodes | 7 nodes; 0 only in A, 1 only in B, 1 scored differently\n"
                .. "the best path is the same\n+ n7  0.50   new?[2J\n"
                .. "~ n5  0.3 | 0.99  8 - 4 = 4 (left: 2 4)\n" } do
            has(r.out, part)
        end
        assert.is_nil(r.out:find("\27", 1, true))
        local map = found(a, b)
        assert.same({ false, false, 40, 41 }, { map.same, map.answers_same, map.calls.same,
            map.calls.only_b[1].id })
        assert.same({ "policy.lua", "prompts/tot.lua" }, { map.files[1].path, map.files[2].path })
    end)

    it("shows the first of many, or all", function()
        local a = log()
        local b = log(function(db) db:execute "DELETE FROM calls WHERE id <= 30" end)
        has(diff(a, b).out, "\n... 18 more (--all)\n")
        assert.is_nil(diff("--all", a, b).out:find("more (--all)", 1, true))
        has(diff("--all", a, b).out, "\n- 30 aggregate n1 ollama:qwen3:8b\n")
    end)

    it("fits terminals, wide and narrow", function()
        local a = log()
        local b = log(function(db) db:execute "DELETE FROM nodes WHERE search = 1 AND id = 30" end)
        for _, columns in ipairs { 80, 40 } do
            local s <close> = screen.open({ "diff", a, b }, { columns = columns, rows = 40 })
            local status, lines = s:finish()
            assert.same({ 1, 15 }, { status, #lines }, table.concat(lines, "\n"))
            assert.matches("^ +A +B$", lines[1])
        end
    end)

    it("ignores the paths of the logs, whatever they are, and no other argument", function()
        local function with(...)
            local arguments = json.encode { ... }
            return log(function(db) db:execute("UPDATE runs SET arguments = ?", arguments) end)
        end
        local a = with("--log", "run.db", "x", "--log", "1")
        for _, words in ipairs { { "--log", "a b.db" }, { "--log=it's.db" }, { "--log=c d.db" } } do
            local b = with(table.unpack(table.move({ "x", "--log", "1" }, 1, 3, #words + 1, words)))
            assert.same({}, found(a, b).given, words[1])
        end
        assert.equal("command", found(a, with("--log", "run.db", "x", "--log", "2")).given[1].name)
    end)

    it("has its own exit status for errors", function()
        local a = log()
        for message, words in pairs {
            ["ponder diff: expected two runs: ponder diff A B"] = { a },
            ["ponder diff: /none.db: no such file"] = { a, "/none.db" },
            ["ponder diff: unknown option --al (did you mean --all?)"] = { "--al", a, a },
        } do
            local r = diff(table.unpack(words))
            assert.same({ 2, "" }, { r.status, r.out })
            assert.equal(message, r.err:sub(1, #message))
            assert.equal(1, select(2, r.err:gsub("\n", "")))
        end
    end)
end)
