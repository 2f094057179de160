-- README.md: its programs run, its commands and flags exist, and its output is real.

local shell = require "shell"
local size = require "size"

local readme = shell.read("README.md")

-- Runs a script in its own directory, with ponder on the path.
local function run(dir, script)
    return shell.run(("cd %s && export PATH=%s:$PATH XDG_STATE_HOME=%s/state && (%s) >$OUT 2>$ERR "
        .. "</dev/null"):format(dir.path, shell.executable:match("^(.*)/"), dir.path, script))
end

local programs = {}
for code in readme:gmatch("```lua\n(.-)```") do
    programs[#programs + 1] = code
end

describe("README.md", function()
    it("has at most 250 lines, and a picture that exists", function()
        assert.is_true(select(2, readme:gsub("\n", "")) <= 250)
        local picture = readme:match("!%[[^%]]+%]%(([^)]+)%)")
        assert.equal("\137PNG", shell.read(picture):sub(1, 4))
    end)

    it("names existing files", function()
        for name in readme:gmatch("%f[%w]([%w_]+%.lua)%f[^%w.]") do
            local found = false
            for _, path in ipairs { "scripts/" .. name, "scripts/eval/" .. name, "scripts/models/"
                .. name, "scripts/strategies/" .. name } do
                local file <close> = io.open(path)
                found = found or file ~= nil
            end
            local theirs = { ["first.lua"] = true, ["answer.lua"] = true, ["model.lua"] = true,
                ["new.lua"] = true, ["policy.lua"] = true, ["solve.lua"] = true,
                ["config.lua"] = true }
            assert.is_true(found or theirs[name], name)
        end
    end)

    it("has a first policy that runs", function()
        local dir <close> = shell.directory { ["first.lua"] = programs[1] }
        local r = run(dir, "ponder first.lua")
        assert.same({ status = 0, err = "",
            out = "terminal\t1 -> 3 -> 6 -> 12 -> 24 -> 48 -> 96\n" }, r)
    end)

    it("has one that searches with a model, which runs offline", function()
        local dir <close> = shell.directory { ["answer.lua"] = programs[2] }
        local r = run(dir, "export PONDER_MODEL=script:model.lua; ponder init model && "
            .. "ponder answer.lua && ponder run --max-cost 0.50 --timeout 2m answer.lua")
        assert.equal(0, r.status, r.err)
        assert.matches("\nAnswer: %d+\t0.%d\nAnswer: %d+\t0.%d\n$", r.out)
    end)

    it("has the results of the scripts that follow papers", function()
        for _, case in ipairs { { "crosswords", "crosswords", "", "25 of 25 letters" },
            { "creative", "creative", "", "4 of 4 paragraphs" },
            { "sorting", "lists", "", "mistakes: 0" }, { "sorting", "lists", "io", "1" },
            { "set_intersection", "lists", "", "mistakes: 0" },
            { "set_intersection", "lists", "io", "1" },
            { "keyword_counting", "countries", "", "mistakes: 0" },
            { "keyword_counting", "countries", "io", "1" },
            { "document_merging", "agreements", "", "10.00 of 10" },
            { "document_merging", "agreements", "io", "9.47" } } do
            local script, model, method, result = table.unpack(case)
            local r = shell.ponder { "run", "scripts/" .. script .. ".lua", "--model",
                ("script:scripts/models/%s.lua"):format(model),
                method ~= "" and "--method=" .. method or nil }
            assert.matches(": " .. result:gsub("^mistakes: ", ""), r.out, 1, true)
            local row = readme:match("\n(| `[^\n]*" .. script .. "%.lua`[^\n]*)")
            assert.matches(method == "" and result or "`io`: " .. result, row, 1, true)
        end
    end)

    it("says when to use each search", function()
        local names = require("ponder.base.searches").NAMES
        assert.equal(13, #names)
        for _, name in ipairs(names) do
            assert.matches("\n| [`%w_, ]*`" .. name .. "`[^|\n]* | %w", readme)
        end
    end)

    it("has programs that are valid Lua", function()
        assert.is_true(#programs >= 4)
        for _, code in ipairs(programs) do
            assert(load(code))
        end
    end)

    -- Too slow under the sanitizers, and other specs run the same code.
    local once = size.SANITIZED and pending or it
    once("shows an evaluation as it comes out", function()
        local dir <close> = shell.directory()
        local command, shown = readme:match("    build/(ponder eval scripts/eval/pools/game24"
            .. "[^\n]+)\n\n(.-)\n\nThe model here is")
        local out = run(dir, ("cd %s && %s"):format(shell.root,
            command:gsub(" eval", " eval --no-log", 1))).out
        for line in shown:gmatch("[^\n]+") do
            line = line:gsub("^    ", "")
            assert.matches("\n" .. line, "\n" .. out, 1, true)
        end
    end)

    -- The flags of commands, by --help.
    local usages = {}
    local function usage(name)
        usages[name] = usages[name] or shell.ponder({ "help", name }).out
        return usages[name]
    end

    it("names existing commands and flags", function()
        local count = 0
        for line in readme:gmatch("\n    ([^\n]+)") do
            local name, rest = line:match("ponder ([%l|]+)(.*)$")
            name = name and name:match("^%l+")
            if name and line:find("^[%w/_.:=]*%s*[%w/_.:=]*ponder ") then
                local flags = rest:gsub('"[^"]*"', "")
                for flag in flags:gmatch("%f[%-%w](%-%-[%l-]+)") do
                    count = count + 1
                    assert.matches(flag, usage(name) .. usage("run"), 1, true)
                end
            end
        end
        assert.is_true(count > 20)
        for name in shell.ponder({ "--help" }).out:gmatch("\n  ponder (%l+) ") do
            assert.matches("%f[%w]" .. name .. "%f[%W]", readme)
        end
    end)

    it("names existing help topics and make targets", function()
        for topic in shell.ponder({ "help", "help" }).out:gmatch("\n  ([%l-]+)  +%S") do
            assert.matches(topic, readme, 1, true)
        end
        local makefile = shell.read("Makefile") .. shell.read("scripts/package/package.mk")
        for target in readme:gmatch("make (%l+)") do
            assert(target == "packages" or makefile:find("\n" .. target .. ":"), target)
        end
    end)
end)
