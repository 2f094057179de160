-- README.md: its programs run, its commands and flags exist, and its output is real.

local shell = require "shell"
local size = require "size"

local readme = shell.read("README.md")
local commands = shell.read("docs/commands.md")

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
    it("has at most 150 lines, and a picture that exists", function()
        assert.is_true(select(2, readme:gsub("\n", "")) <= 150)
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
            local theirs = { ["answer.lua"] = true, ["model.lua"] = true, ["new.lua"] = true,
                ["policy.lua"] = true }
            assert.is_true(found or theirs[name], name)
        end
    end)

    it("has a policy in a dozen lines, which runs with a scripted model", function()
        assert.is_true(select(2, programs[1]:gsub("\n", "")) <= 12)
        local dir <close> = shell.directory { ["answer.lua"] = programs[1] }
        local r = run(dir, "export PONDER_MODEL=script:model.lua; ponder init model && "
            .. "ponder run --max-cost 0.50 answer.lua")
        assert.equal(0, r.status, r.err)
        assert.matches("\nAnswer: 97\tterminal\n$", r.out)
    end)

    -- The same answer by as many calls as an undisturbed run: no reply was paid for twice.
    it("has a run that goes on after a SIGKILL", function()
        local dir <close> = shell.directory()
        local begin, resume = readme:match("\n    export ARITHMETIC[^\n]*\n(.-)\n"
            .. "    build/(ponder resume [^\n]*)")
        local tot = begin:gsub("timeout %-s KILL %d+ build/", "")
            :gsub("scripts/models", shell.root .. "/%0")
        local r = run(dir, "ARITHMETIC_DELAY_MS=1500 " .. tot .. " & "
            .. "until ponder show --calls --json run.db 2>/dev/null | grep -q answered_at; "
            .. "do sleep 0.1; done; kill -KILL $!; wait $!; test $? = 137 || exit 9; "
            .. resume .. "; " .. tot:gsub("run%.db", "whole.db")
            .. "; for log in run whole; do ponder show --calls --json $log.db >$log.txt; done; "
            .. "wc -l <run.txt; wc -l <whole.txt")
        local first, second, calls, whole = r.out:match("^(%C+)\n(%C+)\n(%d+)\n(%d+)\n$")
        assert.equal(first, second, r.out .. r.err)
        assert.equal(calls, whole)
        local before = select(2, dir:read("run.txt"):gsub('"session":1,"', ""))
        assert.is_true(before >= 1 and before < tonumber(calls), dir:read("run.txt"))
    end)

    it("leads to a page with the results of the scripts that follow papers", function()
        local papers = shell.read("docs/papers.md")
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
            local row = papers:match("\n(| `[^\n]*" .. script .. "%.lua`[^\n]*)")
            assert.matches(method == "" and result or "`io`: " .. result, row, 1, true)
        end
    end)

    it("leads to a page that says when to use each search", function()
        local names, page = require("ponder.base.searches").NAMES, shell.read("docs/searches.md")
        for _, name in ipairs(names) do
            assert.matches("\n| [`%w_, ]*`" .. name .. "`[^|\n]* | %w", page)
        end
    end)

    -- Too slow under the sanitizers, and other specs run the same code.
    local once = size.SANITIZED and pending or it
    once("shows an evaluation as it comes out", function()
        local dir <close> = shell.directory()
        local command, shown = readme:match("    build/(ponder eval scripts/eval/pools/game24"
            .. "[^\n]+)\n\n(.-)\n\nA check of")
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
        assert.is_true(count > 4, count)
        for name in shell.ponder({ "--help" }).out:gmatch("\n  ponder (%l+) ") do
            assert.matches("`[^`\n]*%f[%w]" .. name .. "%f[%W][^`\n]*`", commands)
        end
    end)

    it("names existing help topics and make targets", function()
        for topic in shell.ponder({ "help", "help" }).out:gmatch("\n  ([%l-]+)  +%S") do
            assert.matches(("[%s](docs/%s.md)"):format(topic, topic), readme, 1, true)
        end
        local makefile = shell.read("Makefile") .. shell.read("scripts/package/package.mk")
        for target in readme:gmatch("make (%l+)") do
            assert(target == "packages" or makefile:find("\n" .. target .. ":"), target)
        end
    end)
end)
