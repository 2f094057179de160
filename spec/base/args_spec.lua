-- ponder.args: rules of options, as commands and scripts use them.

local args = require "ponder.args"
local policy = require "ponder.policy"
local shell = require "shell"

local function parse(list, rules, how)
    return args.parse("cmd", list, rules, how)
end

-- The message that f raises at its caller's line, which is in this file.
local function mistake(f)
    local ok, message = pcall(f)
    assert.is_false(ok)
    return assert(message:match("args_spec.lua:%d+: (.*)$"), message)
end

describe("args.parse", function()
    it("says how to write a time, whatever its range", function()
        local rules = { wait = { value = "TIME", type = "duration", unit = "ms", min = 1 } }
        local _, message = parse({ "--wait", "0s" }, rules)
        assert.equal('cmd: --wait must be a time above 0, such as 30s, 500ms or 2m (got "0s")',
            message)
        rules.wait.min = 0
        _, message = parse({ "--wait", "5x" }, rules)
        assert.equal('cmd: --wait must be a time such as 30s, 500ms or 2m (got "5x")', message)
    end)

    it("takes a negative number as an operand, unless an option has that name", function()
        local opts, operands = parse({ "-5", "-v", "-.5", "-1e3", "--n", "-7" },
            { v = {}, n = { value = "N", type = "integer" } })
        assert.same({ { "-5", "-.5", "-1e3" }, true, -7 }, { operands, opts.v, opts.n })
        assert.same({ "-5", "x" }, select(2, parse({ "-5", "x" }, {}, { stops_at_operand = true })))
        assert.same({ ["5"] = true }, (parse({ "-5" }, { ["5"] = {} })))
        local none, message = parse({ "-5x" }, {})
        assert.same({ nil, "cmd: unknown option -5x" }, { none, message })
    end)

    it("reads lists, and options that are given several times", function()
        local rules = { of = { value = "A,B", type = "list", enum = { "a", "b" } },
            with = { value = "X", many = true, type = "integer", default = { 1 } },
            all = { value = "X,Y", many = true, type = "list" } }
        local opts = parse({ "--of", "a, b", "--with=2", "--with", "3", "--all=x,y", "--all", "z" },
            rules)
        assert.same({ of = { "a", "b" }, with = { 2, 3 }, all = { "x", "y", "z" } }, opts)
        assert.same({ with = { 1 } }, (parse({}, rules))) -- the default is what it was
        local _, message = parse({ "--of", "a,c" }, rules)
        assert.equal('cmd: --of must be one of a, b (got "c")', message)
        _, message = parse({ "--with", "x" }, rules)
        assert.equal('cmd: --with must be an integer (got "x")', message)
    end)

    it("rounds no integer that is too large", function()
        local rules = { seed = { value = "N", type = "integer" } }
        for _, text in ipairs { "9223372036854775807", "-9223372036854775808" } do
            assert.equal(text, ("%d"):format(parse({ "--seed", text }, rules).seed))
        end
        for _, text in ipairs { "9223372036854775808", "-9223372036854775809", "1e30" } do
            assert.same({ nil, ('cmd: --seed must be an integer from -2^63 to 2^63 - 1 (got "%s")')
                :format(text) }, { parse({ "--seed", text }, rules) })
        end
    end)

    it("refuses infinite numbers and empty paths", function()
        local rules = { x = { value = "X", type = "number" }, wait = { value = "T",
            type = "duration" }, file = { value = "FILE", files = true } }
        for message, list in pairs {
            ['cmd: -x must be a number (got "1e999")'] = { "-x", "1e999" },
            ['cmd: -x must be a number (got "-1e999")'] = { "-x", "-1e999" },
            [('cmd: --wait must be a time such as 30s, 500ms or 2m (got "%s...")'):format(
                ("9"):rep(40))] = { "--wait", ("9"):rep(400) .. "s" },
            ['cmd: --file must be a path (got "")'] = { "--file", "" },
        } do
            assert.same({ nil, message }, { parse(list, rules) })
        end
    end)

    it("reports errors in the rules themselves", function()
        local types = "the type of k must be string, integer, number, duration or list (got %s)"
        local nameless = 'k has a type, so it needs the name of its value: value = "N"'
        for _, row in ipairs {
            { { k = { value = "N", type = "interger" } },
                types:format '"interger"; did you mean integer?' },
            { { k = { value = "N", type = true } }, types:format "true" },
            { { k = { type = "integer" } }, nameless },
            { { k = { many = true } }, nameless },
            { { ["max-k"] = {} }, '"max-k" cannot be the name of an option' },
            { { {} }, "1 cannot be the name of an option" },
        } do
            assert.equal("args.parse: rules: " .. row[2],
                mistake(function() local _ = parse({}, row[1]) end))
        end
    end)
end)

describe("args.script", function()
    local SCRIPT = [[
        local args = require "ponder.args"
        local opts, operands = args.script("poem", { ... }, {
            lines = { value = "N", type = "integer", min = 1, default = 3, help = "of the poem" },
            loud = { help = "in capitals" },
        }, { usage = "poem [OPTION...] THEME", about = "Writes a poem." })
        print(opts.lines, table.unpack(operands))]]

    local function poem(...)
        return shell.ponder { "-e", SCRIPT, "--", ... }
    end

    it("prints the options of a script for --help", function()
        local expected = [[
poem [OPTION...] THEME

Writes a poem.

  --help                 print this
  --lines N              of the poem (default: 3)
  --loud                 in capitals
]]
        for _, words in ipairs { { "--help" }, { "--loud", "--help" }, { "-h" } } do
            assert.same({ status = 0, out = expected, err = "" }, poem(table.unpack(words)))
        end
    end)

    it("fits the help of a script into its terminal", function()
        local dir <close> = shell.directory { ["poem.lua"] = SCRIPT }
        local command = ("stty cols 40; %s run %s/poem.lua --help"):format(
            shell.quote(shell.executable), dir.path)
        local r = shell.run("SHELL=/bin/sh script -qec " .. shell.quote(command)
            .. " /dev/null </dev/null >$OUT 2>$ERR")
        assert.matches("\n  %-%-lines N\r\n      of the poem %(default: 3%)\r\n", r.out)
    end)

    it("fits its options into a narrow terminal", function()
        assert.equal([[
poem THEME

Words:
  --lines N
      of the poem and of its title
  -c  keep the old]], args.usage("poem THEME", {
            lines = { value = "N", help = "of the poem and of its title" },
            c = { help = "keep the old" },
        }, { { title = "Words", names = { "lines", "c" } } }, 36))
        assert.equal("A long\nparagraph.\n\n  code  is kept\n", args.fill("A long paragraph.\n\n"
            .. "  code  is kept\n", 10))
    end)

    it("ends a script after a mistake, otherwise returns the parsed values", function()
        assert.same({ status = 2, out = "",
            err = "poem: unknown option --line (did you mean --lines?)\n" },
            poem("--line", "4"))
        assert.same({ status = 0, out = "4\train\t-5\n", err = "" },
            poem("--lines=4", "rain", "-5"))
        assert.same({ status = 0, out = "3\t--help\n", err = "" }, poem("--", "--help"))
    end)

    it("parses the options of the scripts that come with ponder", function()
        for _, name in ipairs { "game24", "refine", "evolve_circles", "sorting", "creative" } do
            local r = shell.ponder { "run", "--no-log", "scripts/" .. name .. ".lua", "--help" }
            assert.same({ 0, "" }, { r.status, r.err }, name)
            assert.matches("^" .. name .. " %[OPTION...%]", r.out)
            assert.matches("\n  %-%-help +print this\n", r.out)
        end
    end)
end)

describe("a command", function()
    it("prints its help wherever --help stands among its options", function()
        for _, words in ipairs { { "tot", "--model", "x", "--help" },
            { "log", "--json", "--help" } } do
            local r = shell.ponder(words)
            assert.same({ 0, "" }, { r.status, r.err })
            assert.matches("^ponder " .. words[1] .. " ", r.out)
        end
    end)

    it("leaves a script's --help to the script", function()
        local dir <close> = shell.directory { ["a.lua"] = "print(...)" }
        assert.equal("--help\n", shell.ponder({ dir.path .. "/a.lua", "--help" }).out)
    end)
end)

describe("policy.split", function()
    it("requires a list and parts of at least one item", function()
        assert.same({ { 1, 2 }, { 3 } }, policy.split({ 1, 2, 3 }, 2))
        for _, row in ipairs {
            { { 1 }, 0, "policy.split: size must be an integer >= 1 (got 0)" },
            { { 1 }, -1, "policy.split: size must be an integer >= 1 (got -1)" },
            { { 1 }, 1.5, "policy.split: size must be an integer >= 1 (got 1.5)" },
            { "1 2", 1, 'policy.split: list must be a table (got "1 2")' },
        } do
            assert.equal(row[3], mistake(function() local _ = policy.split(row[1], row[2]) end))
        end
    end)
end)
