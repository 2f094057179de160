-- `ponder prompts`, and where prompt files are found, as a person meets them.

local shell = require "shell"

local FILES = { "cot", "ensemble", "got", "tot", "trm" }

local function prompts(arguments, opts)
    return shell.ponder({ "prompts", table.unpack(arguments) }, opts)
end

-- With the files of ./prompts, named by the user.
local function own_prompts(arguments, dir)
    return prompts(arguments, { cwd = dir.path, env = { PONDER_PROMPTS = "./prompts" } })
end

local function file(path)
    local f <close> = assert(io.open(path, "rb"))
    return f:read("a")
end

-- The built-in prompt file with one part replaced.
local function changed(name, from, to)
    local text = file("prompts/" .. name .. ".lua")
    local first, last = text:find(from, 1, true)
    assert(first, from)
    return text:sub(1, first - 1) .. to .. text:sub(last + 1)
end

local function line_of(text, part)
    local _, breaks = text:sub(1, assert(text:find(part, 1, true))):gsub("\n", "")
    return breaks + 1
end

-- Checks one file in ./prompts; returns the output, with $LINE for the line of `part`.
local function complains(name, text, expected, part)
    local dir <close> = shell.directory { ["prompts/" .. name .. ".lua"] = text }
    local r = own_prompts({ "check", name }, dir)
    local where = "./prompts/" .. name .. ".lua"
    expected = expected:gsub("%$LINE", part and where .. ":" .. line_of(text, part) or where)
    assert.equal("", r.err)
    assert.equal(expected .. "\n", r.out)
    assert.equal(1, r.status)
end

describe("ponder prompts list", function()
    it("names every prompt and where it comes from", function()
        local dir <close> = shell.directory { ["prompts/trm.lua"] = file("prompts/trm.lua") }
        local r = own_prompts({ "list" }, dir)
        assert.equal(0, r.status)
        for _, name in ipairs { "tot.generate", "tot.evaluate", "tot.repair", "got.generate",
            "got.score", "got.connect", "got.aggregate", "got.vote", "got.refine",
            "ensemble.judge", "ensemble.debate" } do
            assert.matches("%f[%w]" .. name .. " +built in\n", r.out)
        end
        assert.matches("trm.supervise +./prompts/trm.lua\n", r.out)
        assert.equal(r.out, own_prompts({}, dir).out)
    end)

    it("runs nothing, and names a file that cannot be read", function()
        local dir <close> = shell.directory {
            ["prompts/tot.lua"] = "while true do end function prompts.generate() end" }
        os.execute("mkdir " .. dir.path .. "/prompts/got.lua")
        local r = own_prompts({ "list" }, dir)
        assert.matches("tot.repair +./prompts/tot.lua\n", r.out)
        assert.matches("^ponder prompts: ./prompts/got.lua: ", r.err)
        assert.is_nil(r.out:find("got.vote", 1, true))
        assert.matches("trm.reason", r.out)
        assert.equal(1, r.status)
    end)
end)

describe("ponder prompts show", function()
    it("prints a file unchanged", function()
        local dir <close> = shell.directory { ["prompts/got.lua"] = "return {} -- mine\n" }
        assert.equal(file("prompts/tot.lua"), own_prompts({ "show", "tot" }, dir).out)
        assert.equal("return {} -- mine\n", own_prompts({ "show", "got" }, dir).out)
    end)

    it("prints what a model is sent, with sample data", function()
        local dir <close> = shell.directory()
        local r = prompts({ "show", "tot.evaluate" }, { cwd = dir.path })
        assert.equal(0, r.status)
        assert.matches("^%[system%]\nYou judge .*\n%[user%]\n<problem>\nHow can .*"
            .. "<thought_t1>\nPlant trees.*Score each, from t1 to t2.\n$", r.out)
    end)

    it("suggests a name", function()
        for name, expected in pairs {
            ["tott"] = "unknown prompt file tott (did you mean tot?); known: ",
            ["tot.genrate"] = "unknown prompt tot.genrate (did you mean tot.generate?); "
                .. "known: tot.evaluate, tot.generate, tot.repair",
            [".."] = "unknown prompt file ..; known: ",
        } do
            local r = prompts { "show", name }
            assert.equal(2, r.status)
            assert.equal("", r.out)
            assert.equal("ponder prompts: " .. expected, r.err:sub(1, #expected + 16))
        end
        assert.equal(2, prompts({ "show" }).status)
    end)
end)

describe("ponder prompts eject", function()
    it("copies the built-in files for editing", function()
        local dir <close> = shell.directory()
        local r = prompts({ "eject" }, { cwd = dir.path })
        assert.equal("", r.err)
        for _, name in ipairs(FILES) do
            assert.equal(file("prompts/" .. name .. ".lua"), dir:read("prompts/" .. name
                .. ".lua"))
            assert.matches("./prompts/" .. name .. ".lua\n", r.out)
        end
        assert.matches("^.*tot: 3 prompts are fine %(./prompts/tot.lua%)\n",
            own_prompts({ "check" }, dir).out)
    end)

    it("copies one to a directory, and replaces files only if told to", function()
        local dir <close> = shell.directory()
        local to = dir.path .. "/a/b/"
        assert.equal(dir.path .. "/a/b/got.lua\n", prompts({ "eject", "got", "--to", to }).out)
        dir:write("a/b/got.lua", "mine")
        local r = prompts { "eject", "--to=" .. to }
        assert.equal(2, r.status)
        assert.matches("got.lua already exists; %-%-force replaces it\n$", r.err)
        assert.equal("mine", dir:read("a/b/got.lua"))
        assert.is_nil(io.open(dir.path .. "/a/b/tot.lua")) -- all or nothing
        assert.equal(0, prompts({ "eject", "--force", "--to", to }).status)
        assert.equal(file("prompts/got.lua"), dir:read("a/b/got.lua"))
    end)

    it("reports what cannot be written", function()
        local r = prompts { "eject", "tot", "--to", "/proc/none" }
        assert.equal(2, r.status)
        assert.equal("ponder prompts: /proc/none: cannot create this directory: "
            .. "No such file or directory\n", r.err)
    end)
end)

describe("ponder prompts check", function()
    it("passes the built-in ones", function()
        local dir <close> = shell.directory()
        local r = prompts({ "check" }, { cwd = dir.path })
        assert.equal("", r.err)
        assert.equal(0, r.status)
        for _, name in ipairs(FILES) do
            assert.matches(name .. ": %d prompts? %l+ fine %(built in%)\n", r.out)
        end
    end)

    it("takes a text with fields in place of a function", function()
        local dir <close> = shell.directory { ["p/cot.lua"] =
            'return { generate = "Think: {{prompt}}" }' }
        assert.equal("cot: 1 prompt is fine (p/cot.lua)\n", prompts({ "check", "cot", "--prompts",
            "p" }, { cwd = dir.path }).out)
        assert.matches("^%[user%]\nThink: %S", prompts({ "show", "cot.generate", "--prompts", "p" },
            { cwd = dir.path }).out)
        dir:write("p/cot.lua", 'return { generate = "{{#prompt}}" }')
        assert.matches("p/cot.lua: generate:1: {{#prompt}} is not closed", prompts({ "check", "cot",
            "--prompts", "p" }, { cwd = dir.path }).out, 1, true)
    end)

    it("reports errors with file and line", function()
        complains("tot", "return {\n\n]", "$LINE:3: unexpected symbol near ']'")
        local text = changed("tot", "function prompts.generate(context)",
            "function prompts.generate(context)\n    local _ = nil .. 'x'")
        complains("tot", text, "$LINE: attempt to concatenate a nil value", "nil .. 'x'")
        text = changed("got", "function prompts.vote(context)",
            "function prompts.vote(context)\n    error 'no'")
        complains("got", text, "$LINE: no", "error 'no'")
    end)

    it("names a placeholder that does not exist", function()
        local text = changed("got", 'context:quote("solution", context.thought.content)',
            'context:quote("solution", context.thougth or "")')
        complains("got", text, ("$LINE: context.thougth: no such field "
            .. "(did you mean context.thought?)\n./prompts/got.lua:%d: got.refine: its messages "
            .. "lack the text of context.thought"):format(line_of(text,
                "function prompts.refine")), "context.thougth")
    end)

    it("names a placeholder that a prompt lacks", function()
        local text = changed("trm", 'local parts = { context:quote("question", context.question) }',
            "local parts = {}")
        local dir <close> = shell.directory { ["prompts/trm.lua"] = text }
        local out = own_prompts({ "check", "trm" }, dir).out
        for _, name in ipairs { "improve", "reason", "supervise" } do
            local at = line_of(text, "function prompts." .. name)
            assert.matches(("./prompts/trm.lua:%d: trm.%s: its messages lack the text of "
                .. "context.question\n"):format(at, name), out)
        end
    end)

    it("names missing functions, and functions that nothing calls", function()
        local text = file("prompts/tot.lua"):gsub("function prompts%.repair",
            "function prompts.repare")
        complains("tot", text, "$LINE: the function repair is missing\n./prompts/tot.lua:"
            .. line_of(text, "function prompts.repare")
            .. ": nothing calls the function repare (did you mean repair?)")
    end)

    it("names messages that are not valid", function()
        for returned, expected in pairs {
            ["5"] = "must return a non-empty list of messages (got 5)",
            ["{}"] = "must return a non-empty list of messages (got a table)",
            ['{ { role = "sytem", content = "x" } }'] =
                "message 1 must be a table with a role: system, user or assistant",
            ['{ { role = "user" } }'] =
                "message 1: content must be a non-empty string (got nil)",
        } do
            complains("ensemble", "return { judge = function() return " .. returned .. " end,\n"
                .. "compare = require('prompts.ensemble').compare,\n"
                .. "debate = function(c) return { { role = 'user', content = c.others[1].content\n"
                .. ".. c.others[2].content } } end }", "$LINE:1: " .. expected)
        end
    end)

    it("names the line in a template", function()
        local text = [==[
            local template = require "ponder.template"
            local debate = template.compile([[
{{#others}}
{{name}}: {{%s}}
{{/others}}]], "debate")
            return {
                judge = require("prompts.ensemble").judge,
                compare = require("prompts.ensemble").compare,
                debate = function(context)
                    return { { role = "user", content = debate(context) } }
                end,
            }]==]
        local dir <close> = shell.directory { ["prompts/ensemble.lua"] = text:format "contnt" }
        local r = own_prompts({ "check", "ensemble" }, dir)
        local at = "./prompts/ensemble.lua:10: "
        assert.equal(at .. "context.contnt: no such field\n" .. at
            .. "debate:2: {{contnt}} must be text (got nil)\n", r.out)
        dir:write("prompts/ensemble.lua", text:format "content")
        r = own_prompts({ "check", "ensemble" }, dir)
        assert.equal("ensemble: 3 prompts are fine (./prompts/ensemble.lua)\n", r.out)
    end)

    it("limits a file's time and memory", function()
        for text, expected in pairs {
            ["while true do end"] = "tot.lua:1: did not end within %d+ steps",
            ["local s = 'x' while true do s = s .. s end"] = "memory",
            ["return { generate = function() while true do end end }"] =
                "tot.lua:1: did not end within %d+ steps",
            ["return { generate = function() return setmetatable({}, { __len = function() "
                .. "while true do end end }) end }"] = "tot.lua:1: did not end within %d+ steps",
            ["return setmetatable({}, { __index = function() while true do end end, "
                .. "__pairs = function() while true do end end })"] = "generate is missing",
        } do
            local dir <close> = shell.directory { ["prompts/tot.lua"] = text }
            local r = own_prompts({ "check", "tot" }, dir)
            assert.equal(1, r.status)
            assert.matches(expected, r.out)
        end
    end)
end)

describe("a prompt file", function()
    it("missing from a directory is reported", function()
        local dir <close> = shell.directory { ["m.lua"] = "return function() return '1' end",
            ["mine/got.lua"] = file "prompts/got.lua" }
        local function run(env, ...)
            local r = shell.ponder({ "cot", "--model", "script:m.lua", "Why?", ... },
                { cwd = dir.path, env = env })
            assert.equal(0, r.status)
            return r.err
        end
        local mine = "ponder: mine has no cot.lua (it has got.lua)\n"
        assert.matches(mine, run({}, "--prompts", "mine"), 1, true)
        assert.not_matches("has no", run { PONDER_PROMPTS = "mine" }) -- for others
        os.execute("mkdir " .. dir.path .. "/none")
        assert.matches("ponder: none has no cot.lua (nor any other Lua file)\n",
            run { PONDER_PROMPTS = "none" }, 1, true)
    end)

    it("is found in --prompts, then $PONDER_PROMPTS, then a trusted ./prompts, then built in",
    function()
        local dir <close> = shell.directory {
            ["flag/got.lua"] = "return {} -- flag\n", ["env/got.lua"] = "return {} -- env\n",
            ["env/trm.lua"] = "return {} -- env\n", ["prompts/got.lua"] = "return {} -- here\n",
            ["prompts/trm.lua"] = "return {} -- here\n",
            ["prompts/tot.lua"] = "return {} -- here\n",
        }
        local function shown(name, flag)
            return prompts({ "show", name, table.unpack(flag or {}) },
                { cwd = dir.path, env = { PONDER_PROMPTS = dir.path .. "/env" } }).out
        end
        local flag = { "--prompts", dir.path .. "/flag" }
        assert.equal(0, shell.ponder({ "trust", dir.path .. "/prompts" }).status)
        assert.equal("return {} -- flag\n", shown("got", flag))
        assert.equal("return {} -- env\n", shown("got"))
        assert.equal("return {} -- env\n", shown("trm", flag))
        assert.equal("return {} -- here\n", shown("tot", flag))
        assert.equal(file("prompts/ensemble.lua"), shown("ensemble", flag))
    end)

    it("ends a run at its start if a name in it is unknown", function()
        local dir <close> = shell.directory {
            ["p/cot.lua"] = "return { generat = function() end }", ["m.lua"] = "return print",
            ["q/cot.lua"] = "return { generate = function(context)\n"
                .. "return { { role = 'user', content = context.promt or '' } } end }" }
        for directory, expected in pairs {
            p = "p/cot.lua:1: nothing calls the function generat (did you mean generate?)",
            q = "q/cot.lua:2: context.promt: no such field (did you mean "
                .. "context.prompt?)" } do
            local r = dir:ponder { "cot", "--model", "script:m.lua", "--prompts", directory,
                "Why?" }
            assert.equal(1, r.status)
            assert.equal("", r.out)
            assert.truthy(r.err:find(expected .. " [BAD_PROMPT]", 1, true), r.err)
        end
    end)
end)

describe("ponder prompts", function()
    it("refuses unknown arguments", function()
        for _, case in ipairs {
            { { "lst" }, "unknown command lst (did you mean list?); known: check, eject, "
                .. "list, show" },
            { { "list", "x" }, 'unexpected argument "x"' },
            { { "check", "tot", "x" }, 'unexpected argument "x"' },
            { { "check", "--to", "x" }, "--to has no effect with check" },
            { { "--forc" }, "unknown option --forc (did you mean --force?)" },
        } do
            local r = prompts(case[1])
            assert.equal("ponder prompts: " .. case[2] .. "\n", r.err)
            assert.equal(2, r.status)
        end
    end)
end)
