local definition = require "ponder.judge.eval.definition"
local eval = require "ponder.eval"
local shell = require "shell"
local text = require "ponder.judge.eval.text"

local dir = shell.directory()

local function items_of(source)
    local evaluation, message = definition.new({ data = source, policies = {}, score = "exact" },
        { scores = true, directory = dir.path }, 1)
    return evaluation and evaluation.items, message
end

local function read(name, content)
    dir:write(name, content)
    return items_of(name)
end

describe("the data of an evaluation", function()
    teardown(function()
        dir:__close()
    end)

    it("is read from .jsonl, .json, .csv and .tsv", function()
        local want = { { id = "a", question = "x, y", n = 2 }, { id = "b", question = 'say "z"' } }
        assert.same(want, read("d.jsonl", '{"id":"a","question":"x, y","n":2}\n\n'
            .. '{"id":"b","question":"say \\"z\\"","n":null}\r\n'))
        assert.same(want, read("d.json", '[{"id":"a","question":"x, y","n":2},'
            .. '{"id":"b","question":"say \\"z\\""}]'))
        assert.same(want, read("d.csv", '\xEF\xBB\xBFid,question,n\r\na,"x, y",2\r\n'
            .. 'b,"say ""z""",\r\n'))
        assert.same(want, read("d.tsv", 'id\tquestion\tn\na\tx, y\t2\nb\t"say ""z"""\t\n'))
    end)

    it("keeps line breaks within quotes, and numbers that begin with 0 as text", function()
        assert.same({ { id = "1", question = "a\nb", zip = "01234" } },
            read("q.csv", 'id,question,zip\n1,"a\nb",01234\n'))
    end)

    it("is a list, or the result of a function", function()
        assert.same({ { id = "1", question = "x" } }, items_of { { id = 1, question = "x" } })
        local items = items_of { "x", "y" }
        assert.same({ "x", "y" }, { items[1].question, items[2].question })
        dir:write("more.jsonl", '{"id":1}\n')
        local loaded = items_of(function(load)
            local list = assert(load "more.jsonl")
            list[2] = { id = 2 }
            return list
        end)
        assert.same({ "1", "2" }, { loaded[1].id, loaded[2].id })
    end)

    it("has its own ids, or else ids made from its content", function()
        local one, two = items_of { { q = 1 } }, items_of { { q = 1 }, { q = 2 } }
        assert.equal(one[1].id, two[1].id)
        assert.not_equal(two[1].id, two[2].id)
        assert.truthy(one[1].id:find "^%x+$")
    end)

    for _, case in ipairs {
        { { { id = 1 }, { id = "1" } }, "data: item 2 has the same id as item 1: 1" },
        { { { q = 1 }, { q = 1 } }, "data: item 2 has the same content as item 1: " },
        { { { id = {} } }, "data: item 1: its id must be a string or a number" },
        { { { q = print } }, "data: item 1: has no id and cannot be encoded as JSON: " },
        { {}, "data: expected a non-empty list of items (got none)" },
        { function() return nil, "no luck" end, "no luck" },
        { "d.xml", "d.xml: expected a name that ends in .jsonl, .json, .csv, .tsv, .yaml or .txt" },
        { "missing.json", "missing.json: No such file" },
    } do
        it("says: " .. case[2], function()
            local items, message = items_of(case[1])
            assert.is_nil(items)
            assert.truthy(message:find(case[2], 1, true), message)
        end)
    end

    it("names the place in a broken file", function()
        assert.matches("/bad.jsonl: line 2: unexpected end of text at column 6$",
            (select(2, read("bad.jsonl", '{"a":1}\n{"a":'))))
        assert.truthy(select(2, read("bad.csv", 'a,b\n1,"2')):find("bad.csv: row 2: unterminated",
            1, true))
        assert.truthy(select(2, read("wide.csv", "a\n1,2")):find("row 2: 2 fields, but only 1", 1,
            true))
    end)
end)

describe("a template", function()
    it("joins lists with spaces", function()
        assert.equal("Use 4 9 10 13.", text.template("Use {{numbers}}.", "q") {
            numbers = { 4, 9, 10, 13 } })
        assert.equal("a 1, b 2,", text.template("{{#xs}}{{n}} {{v}}, {{/xs}}", "q") {
            xs = { { n = "a", v = 1 }, { n = "b", v = 2 } } }:sub(1, 9))
    end)

    it("names the missing field", function()
        assert.has_error(function()
            text.template("{{missing}}", "question") {}
        end, "{{missing}} must be text (got nil)")
    end)
end)

describe("eval.matrix", function()
    local function names(policies)
        local list = {}
        for name in pairs(policies) do
            list[#list + 1] = name
        end
        table.sort(list)
        return list
    end

    it("names policies by their differences", function()
        local policies = eval.matrix { model = { "openai:gpt-4o", "ollama:q" }, n = { 1, 3 },
            prompt = "P {{question}}", temperature = { 0.5 } }
        assert.same({ "ollama:q n1", "ollama:q n3", "openai:gpt-4o n1", "openai:gpt-4o n3" },
            names(policies))
        assert.same({ model = "ollama:q", n = 3, prompt = "P {{question}}", temperature = 0.5 },
            policies["ollama:q n3"])
    end)

    it("takes named values", function()
        assert.same({ "long", "short" }, names(eval.matrix { model = "m", prompt = {
            short = "Say {{x}}", long = "Think, then say {{x}}" } }))
    end)

    it("refuses policies without distinct names", function()
        local function refusal(axes)
            return select(2, pcall(function()
                local policies = eval.matrix(axes)
                return policies
            end))
        end
        assert.matches("eval_data_spec.lua:%d+: eval.matrix: two policies are named \"x\"",
            refusal { model = { "a/x", "b/x" } })
        assert.matches("eval_data_spec.lua:%d+: eval.matrix: expected a table", refusal {})
    end)
end)
