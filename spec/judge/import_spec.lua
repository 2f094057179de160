local evaluation = require "evaluation"
local json = require "ponder.json"
local pattern = require "ponder.judge.import.pattern"
local regex = require "ponder.core.regex"
local shell = require "shell"
local source = require "ponder.judge.import.source"

local dir

-- The evaluation that a configuration becomes, and what is said about it.
local function convert(text, name)
    dir:write(name or "c.yaml", text)
    local lua, notes = source.convert(dir.path .. "/" .. (name or "c.yaml"), name or "c.yaml")
    if not lua then
        return nil, notes
    end
    local said = {}
    for i, note in ipairs(notes) do
        said[i] = note:gsub("^" .. dir.path:gsub("%p", "%%%0") .. "/", "")
    end
    return assert(load(lua))({}), said
end

local PREFIX = "prompts: ['{{q}}']\nproviders: [openai:x]\n"

describe("a configuration of promptfoo", function()
    before_each(function() dir = shell.directory() end)
    after_each(function() dir:__close() end)

    it("becomes policies of each prompt and provider, and items of each test", function()
        dir:write("p.txt", "One: {{ a }}\n---\nTwo: {{b.c}}\n")
        dir:write("chat.json", '[{"role":"system","content":{{ s | dump }}},'
            .. '{"role":"user","content":"{{a}}"}]')
        dir:write("s.txt", "Be short.\n")
        local made, notes = convert [[
description: sums
prompts:
  - file://p.txt
  - {id: file://chat.json, label: chat}
providers:
  - openai:chat:gpt-x
  - {id: anthropic:messages:claude-x, label: claude, config: {max_tokens: 9, temperature: 0},
     prompts: [chat]}
  - ollama:llama3:8b
defaultTest:
  vars: {s: file://s.txt, b: {c: 1}}
tests:
  - vars: {a: [x, y], d: "{{e}}!", e: hey}
  - {description: last, vars: {a: z}, metadata: {level: 2}, threshold: 0.5,
     assert: [{type: contains, value: "{{a}}"}]}
]]
        assert.same({ "c.yaml:12: tests without assertions, 1, count as right" }, notes)
        assert.equal("sums", made.name)
        local names = {}
        for name in pairs(made.policies) do
            names[#names + 1] = name
        end
        table.sort(names)
        assert.same({ "claude chat", "ollama:llama3:8b chat", "ollama:llama3:8b prompt 1",
            "ollama:llama3:8b prompt 2", "openai:chat:gpt-x chat", "openai:chat:gpt-x prompt 1",
            "openai:chat:gpt-x prompt 2" }, names)
        assert.same({ model = "openai:gpt-x", prompt = "Two: {{b.c}}" },
            made.policies["openai:chat:gpt-x prompt 2"])
        assert.same({ model = "anthropic:claude-x", max_output_tokens = 9, temperature = 0,
            prompt = { { role = "system", content = "{{s}}" }, { role = "user",
            content = "{{a}}" } } }, made.policies["claude chat"])
        assert.equal("ollama:llama3:8b", made.policies["ollama:llama3:8b chat"].model)
        local common = { s = "Be short.", b = { c = 1 } }
        local function item(fields)
            for name, value in pairs(common) do fields[name] = value end
            return fields
        end
        assert.same({ item { id = "1", a = "x", d = "hey!", e = "hey" },
            item { id = "2", a = "y", d = "hey!", e = "hey" },
            item { id = "last", a = "z", e = "", metadata = { level = 2 },
                checks = { threshold = 0.5, { type = "contains", value = "{{a}}" } } } }, made.data)
    end)

    it("becomes checks for its assertions", function()
        dir:write("schema.json", '{"type": "object", "required": []}')
        local made, notes = convert(PREFIX .. [[
defaultTest: {assert: [{type: latency, threshold: 90}], options: {provider: "ollama:judge"}}
tests:
  - vars: {q: 1}
    assert:
      - {type: not-equals, value: 4}
      - {type: contains-any, value: "a, b"}
      - {type: regex, value: '^\d+$'}
      - {type: is-json, value: file://schema.json}
      - {type: llm-rubric, value: Is kind, weight: 2}
      - {type: similar, value: [x], threshold: 0.9, provider: "ollama:embeddings:e"}
      - {type: cost, threshold: 0.01}
      - {$ref: '#/assertionTemplates/loud'}
      - {type: assert-set, assert: [{type: starts-with, value: x}]}
      - {type: icontains, value: ignored, weight: 0}
assertionTemplates: {loud: {type: icontains, value: "!"}}
]])
        assert.same({}, notes)
        assert.same({ { type = "equals", negated = true, value = 4 },
            { type = "contains_any", value = { "a", "b" } }, { type = "regex", value = "^[0-9]+$" },
            { type = "is_json", value = { type = "object", required = {} } },
            { type = "rubric", value = "Is kind", weight = 2 },
            { type = "similar", value = { "x" }, threshold = 0.9, model = "ollama:e" },
            { type = "cost", threshold = 0.01 }, { type = "icontains", value = "!" },
            { type = "starts_with", value = "x" } }, made.data[1].checks)
        assert.equal("judge", made.score.opts.model.model)
        assert.equal(90, made.score.opts.checks[1].threshold)
    end)

    it("reads tests of CSV with expectations", function()
        dir:write("t.csv", "q,__expected,__expected2,__description,__prefix\n"
            .. "a,contains: x,similar(0.5):y,one,\nb,4,javascript: true,,P\nc,llm-rubric: z,,,\n")
        local made, notes = convert(PREFIX .. "tests: file://t.csv\n"
            .. "defaultTest: {options: {provider: {embedding: 'ollama:e', text: 'ollama:t'}}}\n")
        assert.same({ { id = "one", q = "a", checks = { { type = "contains", value = "x" },
                { type = "similar", threshold = 0.5, value = "y" } } },
            { id = "2", q = "b", checks = { { type = "equals", value = "4" } } },
            { id = "3", q = "c", checks = { { type = "rubric", value = "z" } } } }, made.data)
        assert.same({ "t.csv:3: tests: options: __prefix is not carried over", "t.csv:3: the "
            .. "assertion javascript is not carried over: ponder runs no JavaScript; write a "
            .. "function as `score`" }, notes)
        assert.same({ "t", "e" }, { made.score.opts.model.model, made.score.opts.embedder.model })
    end)

    for text, note in pairs {
        ["tests: [{assert: [\n{type: javascript, value: x}]}]"] = "4: the assertion javascript is "
            .. "not carried over: ponder runs no JavaScript; write a function as `score`",
        ["tests: [{assert: [{type: python, value: x}]}]"] = "3: the assertion python is not",
        ["tests: [{assert: [{type: bleu, value: x}]}]"] = "3: the assertion bleu is not carried "
            .. "over: ponder has no check of this type",
        ["tests: [{assert: [{type: regex, value: '(?=x)'}]}]"] = "3: the assertion regex is not "
            .. "carried over: POSIX expressions lack (?=",
        ["tests: [{assert: [{type: contains, value: '{{ q | upper }}'}]}]"] = "3: the assertion "
            .. "contains is not carried over: Nunjucks {{ q | upper }}",
        ["tests: [{assert: [{type: is-json, value: {minimum: 3}}]}]"] = "3: is-json: the schema's "
            .. "minimum is not checked",
        ["tests: [{assert: [{type: equals, value: 3, metric: m}]}]"] = "3: assert: metric is not",
        ["tests: [{assert: [{$ref: '#/none'}]}]"] = "3: an assertion is not carried over: unknown",
        ["tests: [{assert: [{type: llm-rubric, value: x, provider: 'python:x.py'}]}]"] =
            "3: the assertion llm-rubric is not carried over: ponder does not know its provider",
        ["tests: [{options: {transform: output}}]"] = "3: tests: options: transform is not carried",
        ["tests: [{provider: x}]"] = "3: tests: provider is not carried over",
        ["tests: [{vars: {q: file://x.js}}]"] = "3: the variable q is not carried over: expected",
        ["tests: file://x.py"] = "3: tests are not carried over: expected one file",
        ["tests: [{vars: {q: '{% if x %}'}}]"] = "3: the variable q is used as it is: Nunjucks",
        ["tests: [{vars: 3, assert: x, threshold: high}]"] = "3: tests: assert must be a table",
        ["scenarios: []"] = "3: scenarios is not carried over",
        ["evaluateOptions: {repeat: 3}"] = "3: evaluateOptions is not carried over: --concurrency",
    } do
        it("says on line " .. note, function()
            local made, notes = convert(PREFIX .. text .. "\n")
            made = made or convert(PREFIX .. text .. "\ntests: [{vars: {q: 1}}]\n")
            local said = type(notes) == "table" and table.concat(notes, "\n") or notes
            assert.is_truthy(said:find("c.yaml:" .. note, 1, true), said)
            assert.is_truthy(made or said:find("no test is left", 1, true))
        end)
    end

    for text, message in pairs {
        ["prompts: ['{% if x %}a{% endif %}']\nproviders: [openai:x]\ntests: []"] =
            "c.yaml:1: prompt 1 is not carried over: Nunjucks {% if x %}",
        ["prompts: [file://p.js]\nproviders: [openai:x]"] = "c.yaml: no prompt is left",
        ["a: 1"] = "expected prompts, providers and tests, as for promptfoo",
        ["prompts: ["] = "c.yaml: line 2: did not find expected node content",
        ["prompts: [a]\ntests: [{vars: {" .. ("a%s: [x,y],"):rep(14):gsub("%%s", (function()
            local n = 0
            return function() n = n + 1 return n end
        end)()) .. "}}]"] = "more than 10000 tests",
    } do
        it("is refused: " .. message, function()
            local made, problem = convert(text)
            assert.is_nil(made)
            assert.is_truthy(problem:find(message, 1, true), problem)
        end)
    end

    it("is data, whatever is in it", function()
        local made = convert("prompts: [\"]] .. os.exit(3) .. [[\\n{{a}}\"]\n"
            .. "providers: [openai:x]\ndescription: \"x\\n]] os.exit(3) --[[\"\n"
            .. "tests: [{vars: {\"a'\\\"]\": \"\\0\\r\\n]]\","
            .. "code: os.exit(3), source: x, end: \"\\\\\"}, "
            .. "assert: [{type: \"java\\nos.exit(3)\", value: x}]}]\n")
        assert.equal("x\n]] os.exit(3) --[[", made.name)
        assert.equal("\0\r\n]]", made.data[1]["a'\"]"])
        assert.same({ "os.exit(3)", "x" }, { made.data[1].code, made.data[1].source })
        assert.equal("\\", made.data[1]["end"])
    end)

    it("keeps all texts, numbers and lists as they are", function()
        for _, value in ipairs { "a\nb", "[[x]]\n" .. ("y"):rep(80), "\n\nlead\n" .. ("z"):rep(90),
            "C:\\99\t9\\\n\t", 0.1, 1e300, 3, { "a", { b = true } }, ("\t\0\200"):rep(9) } do
            local lua = "return " .. require "ponder.judge.import.literal".of({ v = value })
            assert.same({ v = value }, load(lua)(), lua)
        end
    end)
end)

describe("a pattern of JavaScript", function()
    for _, case in ipairs { { "\\d{4}", "ab 2024", true }, { "\\d{4}", "ab 202", false },
        { "^[\\w.-]+@[\\w-]+\\.\\w{2,}$", "a.b-c@x-y.org", true }, { "a.*?b", "axxb", true },
        { "(?:foo|bar)+$", "foobar", true }, { "^.$", "\n", false },
        { "\\bcat\\b", "concat", false },
        { "{\"a\":\\s*1}", '{"a": 1}', true }, { "[\\]a]", "]", true }, { "[a\\-z]", "b", false },
        { "a\\nb", "a\nb", true }, { "(\\w)\\1", "aa", true }, { "x{2,3}?", "xx", true },
        { "\\/x\\-", "/x-", true }, { "[^\\s]", " ", false }, { "\\D", "7", false } } do
        it(("%s: %s"):format(case[1], case[2]), function()
            assert.equal(case[3], regex.new(assert(pattern(case[1])), false):matches(case[2]))
        end)
    end

    for _, text in ipairs { "(?=x)", "(?<!x)", "\\u00e9", "[\\D]", "[^]", "(?<n>x)", "\\p{L}",
        "[" } do
        it("is refused: " .. text, function()
            local made, message = pattern(text)
            assert.is_nil(made)
            assert.is_string(message)
        end)
    end
end)

describe("a data set", function()
    before_each(function() dir = shell.directory() end)
    after_each(function() dir:__close() end)

    -- The items of an evaluation, and what its scorer says about an answer.
    local function items(made)
        return assert(require "ponder.judge.eval.definition".new(made, { scores = true,
            directory = dir.path }, 1)).items
    end

    it("of OpenAI's Evals has messages and ideal answers", function()
        local row = '{"input":"b","ideal":["4","four"]}\n'
        local made = convert('{"input":[{"role":"user","content":"a"}],"ideal":"Yes"}\n' .. row
            .. row, "s.jsonl")
        local list = items(made)
        assert.same({ "1", "2", "3" }, { list[1].id, list[2].id, list[3].id })
        assert.same({ { role = "user", content = "a" } }, made.policies.io.prompt(list[1]))
        assert.same({ "ideal", true, false, true }, { made.target, made.score({}, "Yes, it", "Yes"),
            made.score({}, "No. Yes", "Yes"), made.score({}, "four", { 4, "four" }) })
    end)

    it("of the hosted Evals has its rows within `item`", function()
        local made = convert('{"item":{"question":"a","ground_truth":"b"}}\n', "s.jsonl")
        assert.same({ "a", "b" }, { items(made)[1].question, items(made)[1][made.target] })
    end)

    it("of inspect_ai has inputs, targets and choices", function()
        local made = convert('input,target,choices\nWhich?,B,"red, blue"\n', "s.csv")
        local item = items(made)[1]
        assert.same({ "red", "blue" }, item.choices)
        assert.equal("Which?\n\nA) red\nB) blue\n\nEnd with one line: ANSWER: and the letter.",
            made.policies.io.prompt(item))
        assert.equal("choice", made.score)
        made = convert('[{"input":"a","target":["Paris","Rome"]}]', "s.json")
        assert.same({ true, false }, { made.score({}, "It is rome.", items(made)[1].target),
            made.score({}, "Oslo", items(made)[1].target) })
    end)

    it("needs a question and an answer", function()
        local made, message = convert('{"input":"a","b":1}\n', "s.jsonl")
        assert.is_nil(made)
        assert.is_truthy(message:find("s.jsonl: no field of all rows is one of ideal, target, "
            .. "answer, expected, ground_truth, reference, label; there are b, input: name them in "
            .. "Lua (ponder init eval: question, target)", 1, true), message)
    end)
end)

describe("ponder eval and ponder init --from", function()
    before_each(function()
        dir = shell.directory()
        dir:write("m.lua", "return function(r) local t = r.messages[#r.messages].content "
            .. "return { text = t:find 'GRADE' and 'GRADE: PASS' or 'It is ' .. t:upper() } end")
        dir:write("c.yaml", PREFIX .. "tests:\n"
            .. "- {vars: {q: a}, assert: [{type: equals, value: It is A}, {type: python}]}\n"
            .. "- {vars: {q: b}, assert: [{type: icontains, value: no}]}\n")
    end)
    after_each(function() dir:__close() end)

    local NOTE = "c.yaml:4: the assertion python is not carried over: ponder runs no Python; write "
        .. "a function as `score`\n"

    local function ponder(...)
        return shell.ponder({ ... }, { cwd = dir.path, env = evaluation.environment() })
    end

    it("run a configuration, and a log of it", function()
        local first = ponder("eval", "--json", "--log", "a.db", "--model", "script:m.lua", "c.yaml")
        assert.equal(0, first.status, first.err)
        assert.equal("ponder eval: " .. NOTE, first.err:sub(1, #NOTE + 13))
        local result = json.decode(first.out)
        assert.equal(0.5, result.policies[1].accuracy.value)
        assert.equal("does not contain no", result.records[2].why)
        os.remove(dir.path .. "/c.yaml")
        local again = ponder("replay", "a.db")
        assert.same({ 0, first.out }, { again.status, again.out }, again.err)
    end)

    it("write it as Lua that gives the same", function()
        local wrote = ponder("init", "--from", "c.yaml")
        assert.same({ 0, "wrote eval.lua; try: ponder eval eval.lua\n", "ponder init: " .. NOTE },
            { wrote.status, wrote.out, wrote.err })
        assert.is_truthy(dir:read "eval.lua":find("--     " .. NOTE, 1, true))
        local checked = shell.run(("cd %s && luacheck -q --std lua54 eval.lua >$OUT 2>&1"):format(
            shell.quote(dir.path)))
        assert.equal(0, checked.status, checked.out)
        local result = ponder("eval", "--no-log", "--json", "--model", "script:m.lua", "eval.lua")
        assert.equal(0.5, json.decode(result.out).policies[1].accuracy.value, result.err)
        wrote = ponder("init", "--from", "c.yaml")
        assert.equal(2, wrote.status)
        assert.is_truthy(wrote.err:find("eval.lua already exists", 1, true), wrote.err)
    end)

    it("say what is wrong in a line", function()
        for _, case in ipairs {
            { 1, "eval: policies%[\"openai:x\"%].- is not set", "eval", "--no-log", "c.yaml" },
            { 2, "none.yaml: No such file", "eval", "none.yaml" },
            { 2, "%-%-workers needs a Lua file: ponder init %-%-from c.yaml", "eval", "--workers",
                "redis://127.0.0.1:1", "c.yaml" },
            { 2, "%-%-from: expected a .yaml, .json, .jsonl, .csv or .tsv file %(got x.lua%)",
                "init", "--from", "x.lua" },
        } do
            local result = ponder(table.unpack(case, 3))
            assert.equal(case[1], result.status, result.err)
            assert.matches(case[2], result.err)
        end
    end)
end)
