local data = require "ponder.data"
local notice = require "ponder.base.notice"
local shell = require "shell"

describe("ponder.data", function()
    local dir, notices

    before_each(function()
        dir, notices = shell.directory(), {}
        notice.listen(function(line) notices[#notices + 1] = line end)
    end)
    after_each(function()
        notice.listen(nil)
        notice.forget()
        dir:__close()
    end)

    it("takes as numbers only fields of CSV that are written as such", function()
        assert.same({ { a = 12, b = -0.5, c = "007", d = "1.50", e = "1e5", f = "0x10",
            g = "12345678901234567890", h = "+1" } }, data.parse("a,b,c,d,e,f,g,h,i\n"
            .. "12,-0.5,007,1.50,1e5,0x10,12345678901234567890,+1,\n", "csv"))
    end)

    it("reads a directory in the order of names, and says what it leaves out", function()
        dir:write("b.csv", "question\nb\n")
        dir:write("a.jsonl", '{"question":"a"}\n')
        dir:write("c.txt", "c?\n")
        dir:write("d.yaml", "- question: d\n  n: 1\n")
        dir:write(".hidden.csv", "question\nx\n")
        dir:write("e.png", "")
        dir:write("README.md", "")
        assert.same({ { question = "a" }, { question = "b" }, { id = "c", question = "c?\n" },
            { question = "d", n = 1 } }, data.load(dir.path))
        assert.same({ ("data: %s: left out README.md, e.png"):format(dir.path) }, notices)
    end)

    for _, case in ipairs {
        { "a,b\n1\xE9,2\n", "csv", "byte 6 is not UTF-8; convert it: iconv -f LATIN1 -t UTF-8" },
        { "a,a\n1,2\n", "csv", 'row 1: duplicate column name "a"' },
        { "a: [", "yaml", "line 2: did not find expected node content" },
        { "7", "json", "expected a list of items" },
    } do
        it("says: " .. case[3], function()
            assert.same({ nil, case[3], n = 2 }, table.pack(data.parse(case[1], case[2])))
        end)
    end

    it("names what converts Parquet", function()
        dir:write("p.parquet", "PAR1")
        local path = dir.path .. "/p.parquet"
        local expected = ("%s: ponder cannot read Parquet; convert it: duckdb -c \"COPY '%s' "
            .. "TO 'items.jsonl' (FORMAT json)\""):format(path, path)
        assert.same({ nil, expected, "BAD_DATA" }, { data.load(path) })
        assert.same({ nil, expected, "BAD_DATA" }, { data.load(dir.path) })
    end)

    local ITEMS = { { n = 1, topic = "law", tags = { level = "hard" } },
        { n = 2, topic = "tax law", easy = false, tags = { new = false } },
        { n = 10, topic = "art", ["own name"] = "x and y" }, { n = "10", zip = "007" } }
    for where, expected in pairs {
        ["n == 10"] = { 3, 4 }, ["n < 10"] = { 1, 2 }, ["n >= 2"] = { 2, 3, 4 },
        ["topic == law"] = { 1 }, ["topic == 'tax law'"] = { 2 }, ["topic == tax law"] = { 2 },
        ["topic ~= law"] = { 2, 3, 4 }, ["topic != law and n > 2"] = { 3, 4 },
        ["topic == nil"] = { 4 },
        ["topic ~= nil"] = { 1, 2, 3 }, ["tags.level == hard"] = { 1 }, ["topic > law"] = { 2 },
        ["'own name' == \"x and y\""] = { 3 }, ["topic == \"law\" and n == 1"] = { 1 },
        ["easy == false"] = { 2 }, ["easy ~= nil"] = { 2 }, ["tags.new == false"] = { 2 },
        ["zip == 7"] = { 4 }, ["  n==1"] = { 1 },
    } do
        it("chooses where " .. where, function()
            local found = {}
            for i, item in ipairs(assert(data.choose(ITEMS, { where = where }))) do
                found[i] = item
            end
            for i, place in ipairs(expected) do
                expected[i] = ITEMS[place]
            end
            assert.same(expected, found)
        end)
    end

    for where, message in pairs {
        ["topc == law"] = "where: no item has the field topc (did you mean topic?); there are ",
        ["n = 1"] = "where: expected FIELD OPERATOR VALUE, such as ",
        ["n"] = "where: expected FIELD OPERATOR VALUE, such as ",
        ["n > 100"] = "where: none of 4 items is left",
    } do
        it("refuses where " .. where, function()
            local list, found = data.choose(ITEMS, { where = where })
            assert.is_nil(list)
            assert.equal(message, found:sub(1, #message))
        end)
    end

    it("shuffles by a seed, before it limits, and samples in order", function()
        local items = {}
        for i = 1, 50 do
            items[i] = i
        end
        local function choose(opts) return assert(data.choose(items, opts)) end
        local all, first = choose { shuffle = 3 }, choose { shuffle = 3, limit = 5 }
        assert.same(table.move(all, 1, 5, 1, {}), first)
        assert.not_same(items, all)
        assert.not_same(all, choose { shuffle = 4 })
        table.sort(all)
        assert.same(items, all)
        assert.same({ 2, 4, 6 }, choose { limit = 3, where = function(n) return n % 2 == 0 end })
        local some = choose { sample = 10 }
        assert.same(some, choose { sample = 10, seed = 0 })
        assert.not_same(some, choose { sample = 10, seed = 1 })
        local sorted = table.move(some, 1, 10, 1, {})
        table.sort(sorted)
        assert.same(sorted, some)
        assert.equal(10, #some)
    end)

    it("raises for a wrong call", function()
        assert.has_error(function() data.load(3) end, "data.load: path must be a string (got 3)")
        assert.has_error(function() data.parse("", "xml") end,
            'data.parse: format must be one of jsonl, json, csv, tsv, yaml (got "xml")')
    end)
end)

describe("ponder eval", function()
    local dir

    before_each(function()
        dir = shell.directory()
        dir:write("e.lua", [[return { data = "items", policies = { f = function(item)
            return item.n end }, score = "exact" }]])
        dir:write("stdin.lua", [[return { data = "-", policies = { f = function(item)
            return item.n end }, score = "exact" }]])
        shell.run("mkdir " .. dir.path .. "/items")
        dir:write("items/a.csv", "n,target\n1,1\n2,2\n3,x\n")
        dir:write("items/b.csv", "n,target\n4,4\n")
    end)
    after_each(function() dir:__close() end)

    local function eval(flags, input)
        return shell.run(("cd %s; printf '%s' | XDG_STATE_HOME=$PWD/state %s %s >$OUT 2>$ERR")
            :format(dir.path, input or "", shell.quote(shell.executable), flags))
    end

    it("chooses items, of a directory and of standard input", function()
        assert.matches("\nf +4 +75%.0 %%", eval("eval --no-log e.lua").out)
        assert.matches("\nf +3 +66%.7 %%", eval("eval --no-log --where 'n < 4' e.lua").out)
        assert.matches("\nf +1 +100%.0 %%", eval("eval --no-log --where 'n > 3' e.lua").out)
        local ids = {}
        for seed = 1, 8 do
            ids[eval("eval --no-log --csv - --limit 1 --shuffle " .. seed .. " e.lua").out] = true
        end
        assert.is_truthy(next(ids, next(ids)))
        local input = '{"n":1,"target":1}\\n{"n":2,"target":3}\\n'
        assert.matches("\nf +2 +50%.0 %%", eval("eval --no-log stdin.lua", input).out)
        local none = eval "eval --no-log --where 'm < 4' e.lua"
        assert.same({ 1, "ponder eval: data: where: no item has the field m; there are id, n, "
            .. "target\n" }, { none.status, none.err })
    end)

    it("replays a directory and standard input from its log", function()
        for file, pattern in pairs { ["e.lua"] = "\nf +4 +75%.0 %%", ["stdin.lua"] = "\nf +1 " } do
            local first = eval("eval --log a.db " .. file, '{"n":1,"target":1}')
            assert.matches(pattern, first.out, nil, false, first.err)
            shell.run(("mv %s/items %s/gone"):format(dir.path, dir.path))
            local again = eval "replay a.db"
            assert.same({ 0, first.out }, { again.status, again.out }, again.err)
            shell.run(("mv %s/gone %s/items; rm %s/a.db"):format(dir.path, dir.path, dir.path))
        end
    end)
end)
