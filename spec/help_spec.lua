-- ponder help: every topic fits, and every program and command in it runs.

local shell = require "shell"

local function ponder(...)
    return shell.ponder { ... }
end

local TOPICS = {}
for name in ponder("help", "help").out:gmatch("\n  ([%l-]+)  +%S") do
    TOPICS[#TOPICS + 1] = name
end

-- The blocks of code of a text, without their indentation.
local function blocks(text)
    local found, block = {}, nil
    for line in text:gmatch("([^\n]*)\n") do
        local code = line:match("^    (.*)$")
        if code then
            block = block or {}
            block[#block + 1] = code
        elseif block and line == "" then
            block[#block + 1] = ""
        elseif block then
            found[#found + 1], block = table.concat(block, "\n"), nil
        end
    end
    found[#found + 1] = block and table.concat(block, "\n")
    return found
end

-- Files and commands of a topic, in order: a program named by its first line ends where a command
-- begins.
local function script_of(text)
    local files, commands, others = {}, {}, {}
    for _, block in ipairs(blocks(text)) do
        local name = block:match("^%-%- (%S+%.lua)\n")
        local program = {}
        for line in (block .. "\n"):gmatch("([^\n]*)\n") do
            local command = line:match("^%$ (.*)$")
            if command then
                commands[#commands + 1] = command
            else
                program[#program + 1] = line
            end
        end
        local code = table.concat(program, "\n")
        if name then
            files[name] = code
        elseif code:find("%S") then
            others[#others + 1] = code
        end
    end
    return files, commands, others
end

describe("ponder help", function()
    it("lists topics, shows a command's help, and suggests what was meant", function()
        assert.is_true(#TOPICS >= 10)
        assert.equal(ponder("--help").out, ponder("help").out)
        assert.equal(ponder("tot", "--help").out, ponder("help", "tot").out)
        local r = ponder("help", "serch")
        assert.same({ 2, "", 'ponder help: no such command or topic: "serch" (did you mean '
            .. "search?)\n" }, { r.status, r.out, r.err })
        assert.equal(2, ponder("help", "a", "b").status)
    end)

    it("fits a narrow terminal, as --help does", function()
        local shown = {}
        for i, words in ipairs { { "help" }, { "--help" } } do
            local s <close> = require("screen").open(words, { columns = 40, rows = 200 })
            local status, lines = s:finish()
            assert.equal(0, status)
            shown[i] = table.concat(lines, "\n")
        end
        assert.equal(shown[2], shown[1])
    end)

    for _, topic in ipairs(TOPICS) do
        local source = shell.read(("lua/ponder/report/help/%s.txt"):format(topic))

        it("fits into 80 columns: " .. topic, function()
            for line in ponder("help", topic).out:gmatch("[^\n]+") do
                assert(#line <= 80 or line:find("^    "), line)
            end
        end)

        it("has examples that run: " .. topic, function()
            local files, commands, others = script_of(source)
            local dir <close> = shell.directory(files)
            for name, code in pairs(files) do
                assert(load(code, "@" .. name))
            end
            for _, code in ipairs(others) do -- their programs, and calls with words to replace
                assert(load(code) or code:find("import ", 1, true)
                    or code:find("^ponder .*%[") or code:find("^ACL SETUSER ")
                    or code:find("^ITEMS  1 EPOCH"), code)
            end
            if not commands[1] then
                return
            end
            local r = shell.run(("cd %s && export PATH=%s:$PATH XDG_STATE_HOME=%s/state "
                .. "XDG_CONFIG_HOME=%s/config OLLAMA_HOST=127.0.0.1:1 && (set -e; %s\n) "
                .. ">$OUT 2>$ERR </dev/null"):format(dir.path, shell.executable:match("^(.*)/"),
                dir.path, dir.path, table.concat(commands, "\n")))
            assert.equal(0, r.status, r.out .. r.err)
            assert.is_nil(r.err:find("traceback", 1, true), r.err)
        end)
    end
end)
