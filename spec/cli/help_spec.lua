-- ponder help, --help, completion and man: complete, within the width, with examples that run.

local shell = require "shell"

local function ponder(arguments)
    return shell.ponder(arguments, { env = shell.bare { OLLAMA_HOST = "" } })
end

local function has(text, part) return text:find(part, 1, true) ~= nil end

local known_flags

-- The commands and their flags, from --help.
local function flags_of_help()
    if known_flags then return known_flags end
    local commands, count = {}, 0
    for name in ponder({ "--help" }).out:gmatch("\n  ponder (%l+) ") do
        local flags = {}
        for flag in ponder({ name, "--help" }).out:gmatch("\n  (%-%-?[%w-]+)") do
            flags[#flags + 1] = flag
            count = count + 1
        end
        commands[name] = flags
    end
    assert(commands.tot and commands.run and commands.doctor and count > 60)
    known_flags = commands
    return commands
end

local TOPICS = {}
for name in ponder { "help", "help" }.out:gmatch("\n  ([%l-]+)  +%S") do
    TOPICS[#TOPICS + 1] = name
end

-- Files and commands of a topic, in order: ```lua blocks that begin with their name, and the lines
-- with a dollar of ```console blocks. `others` are blocks without either.
local function script_of(text)
    local files, commands, others = {}, {}, {}
    for kind, block in text:gmatch("\n```(%l*)\n(.-\n)```\n") do
        local name = block:match("^%-%- (%S+%.lua)\n")
        if kind == "lua" and name then
            files[name] = block
        elseif kind == "lua" then
            others[#others + 1] = block
        else
            assert(kind == "console" or kind == "text", kind)
            for command in (kind == "console" and "\n" .. block or ""):gmatch("\n%$ ([^\n]*)") do
                commands[#commands + 1] = command
            end
        end
    end
    return files, commands, others
end

describe("ponder help", function()
    it("lists topics, and suggests what was meant", function()
        assert.is_true(#TOPICS >= 10)
        local r = ponder({ "help", "serches" })
        assert.same({ 2, "", 'ponder help: no such command or topic: "serches" (did you mean '
            .. "searches?)\n" }, { r.status, r.out, r.err })
        assert.equal(2, ponder({ "help", "a", "b" }).status)
    end)

    it("has one page a file of docs, whose links lead somewhere", function()
        local files = {}
        for file in shell.output("ls docs"):gmatch("([^\n]+)%.md") do
            files[#files + 1] = file
            for target in shell.read("docs/" .. file .. ".md"):gmatch("%]%(([^)#]+)") do
                assert(target:find("^https://") or shell.read("docs/" .. target), target)
            end
        end
        table.sort(TOPICS)
        assert.same(TOPICS, files)
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
        local source = shell.read(("docs/%s.md"):format(topic))

        it("fits into 80 columns: " .. topic, function()
            for line in ponder({ "help", topic }).out:gmatch("[^\n]+") do
                assert(#line <= 80 or line:find("^    "), line)
            end
        end)

        it("has examples that run: " .. topic, function()
            local files, commands, others = script_of(source)
            local dir <close> = shell.directory(files)
            for name, code in pairs(files) do
                assert(load(code, "@" .. name))
            end
            for _, code in ipairs(others) do
                assert(load(code))
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

describe("ponder completion", function()
    -- A directory with a logged run and an alias; ponder is on the path there.
    local function home()
        local dir = shell.directory { ["config/ponder/config.lua"] =
            'return { aliases = { fast = "openai:gpt-6-luna" } }', ["policy.lua"] = "" }
        local setup = ("cd %s; export PATH=%s:$PATH XDG_STATE_HOME=%s/state "
            .. "XDG_CONFIG_HOME=%s/config; "):format(dir.path, shell.executable:match("^(.*)/"),
            dir.path, dir.path)
        local r = shell.run(setup .. "(ponder init model && ponder cot --quiet "
            .. "--model script:model.lua '6 * 7') >$OUT 2>$ERR")
        assert.equal(0, r.status, r.err)
        local run = shell.run(setup .. "ponder log --json >$OUT").out:match('"name":"([^"]+)"')
        return dir, assert(run), setup
    end

    -- What bash offers for a command line that is being typed, one a line. As readline calls it,
    -- words are split at : and =.
    local function in_bash(setup, line)
        local words = {}
        for word in line:gsub("[:=]", " %0 "):gmatch("%S+") do
            words[#words + 1] = '"' .. word .. '"'
        end
        if line:find("[ :=]$") then
            words[#words + 1] = '""'
        end
        local r = shell.run(([[%s bash -c 'compopt() { :; }; source <(ponder completion bash)
            COMP_LINE="%s"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(%s); COMP_CWORD=%d; _ponder
            printf "%%s\n" "${COMPREPLY[@]}"' >$OUT 2>$ERR]]):format(setup, line,
            table.concat(words, " "), #words - 1))
        assert.equal("", r.err)
        return r.out
    end

    local function in_fish(setup, line)
        local r = shell.run(([[%s HOME=$PWD fish --no-config -c 'ponder completion fish | source
            complete -C "%s"' >$OUT 2>$ERR]]):format(setup, line))
        assert.equal("", r.err)
        return r.out
    end

    -- What the function passes to _describe, and whether it offers files, without a terminal.
    local function in_zsh(setup, line)
        local r = shell.run(([[%s zsh -f -c 'compdef() { :; }; source <(ponder completion zsh)
            _describe() { print -rl -- ${(P)2}; }; _files() { print files; }
            compset() { print -r -- "without $2"; }
            words=("${(@s. .)1}"); CURRENT=$#words; _ponder' zsh "%s" >$OUT 2>$ERR]]):format(
            setup, line))
        assert.equal("", r.err)
        return r.out
    end

    local function has_shell(name)
        return shell.run("command -v " .. name .. " >/dev/null").status == 0
    end

    it("completes commands, options and values in bash, also after colons and equals signs",
        function()
            local dir <close>, run, setup = home()
            for line, offered in pairs {
                ["ponder to"] = "tot", ["ponder --v"] = "--version",
                ["ponder tot --max-d"] = "--max-depth\n--max-duration-ms",
                ["ponder tot --traversal-strategy b"] = "best_first\nbfs",
                ["ponder completion b"] = "bash", ["ponder help tut"] = "tutorial",
                ["ponder help rep"] = "repl\nreplay",
                ["ponder doc search.ru"] = "search.run",
                ["ponder tot --max-depth "] = "", ["ponder script.lua --max"] = "",
                ["ponder tot --model fa"] = "fast",
                ["ponder tot --model openai:gpt-6-lu"] = "gpt-6-luna",
                ["ponder tot --model=openai:gpt-6-lu"] = "gpt-6-luna",
                ["ponder tot --models "] = "evaluate=\ngenerate=\nrepair=",
                ["ponder show " .. run:sub(1, 8)] = run,
                ["ponder replay " .. run:sub(1, 8)] = run,
            } do
                assert.same({ line, offered .. "\n" }, { line, in_bash(setup, line) })
            end
            assert.truthy(dir)
        end)

    for name, offers in pairs { fish = in_fish, zsh = in_zsh } do
        it("completes them in " .. name, function()
            if not has_shell(name) then
                pending(name .. " is not here")
            end
            local dir <close>, run, setup = home()
            local colon = name == "zsh" and "\\:" or ":"
            for line, word in pairs {
                ["ponder to"] = "tot", ["ponder tot --max-d"] = "--max-depth",
                ["ponder tot --model fa"] = "fast",
                ["ponder tot --model openai:gpt-6-lu"] = "openai" .. colon .. "gpt-6-luna",
                ["ponder tot --models e"] = "evaluate=", ["ponder help tut"] = "tutorial",
                ["ponder show " .. run:sub(1, 8)] = run,
                ["ponder run pol"] = name == "zsh" and "files" or "policy.lua",
                ["ponder tot --log=pol"] = name == "zsh" and "without --*=" or "--log=policy.lua",
            } do
                local found = offers(setup, line)
                assert.is_true(has(found, word), line .. ": " .. found)
            end
            assert.falsy(has(offers(setup, "ponder tot --max-depth "), "policy.lua"), dir.path)
        end)
    end

    it("completes every flag of --help", function()
        local dir <close>, _, setup = home()
        for name, flags in pairs(flags_of_help()) do
            local offered = {}
            for word in in_bash(setup, "ponder " .. name .. " -"):gmatch("%S+") do
                offered[word] = true
            end
            for _, flag in ipairs(flags) do
                assert.is_true(offered[flag], name .. " " .. flag .. " in " .. dir.path)
            end
        end
    end)

    it("prints a script that the shell accepts", function()
        for _, name in ipairs { "bash", "zsh", "fish" } do
            local r = shell.run(("%s completion %s >$IN; command -v %s >/dev/null || exit 0; "
                .. "%s -n $IN 2>$ERR"):format(shell.quote(shell.executable), name, name, name))
            assert.same({ 0, "" }, { r.status, r.err }, name)
        end
    end)

    it("lists the shells", function()
        for _, words in ipairs { { "tcsh" }, {}, { "bash", "zsh" } } do
            local r = ponder { "completion", table.unpack(words) }
            assert.same({ 2, "", "ponder completion: expected bash, zsh or fish\n" },
                { r.status, r.out, r.err })
        end
    end)
end)

describe("ponder man", function()
    it("has everything that every --help has", function()
        local page = ponder({ "man" }).out
        assert.truthy(page:find("^%.TH PONDER 1 "))
        for name, flags in pairs(flags_of_help()) do
            local section = page:match("\n%.SS " .. name .. "\n(.-)\n%.S[SH] ")
            assert.truthy(section, name)
            for _, flag in ipairs(flags) do
                local request = "\n.B " .. flag:gsub("%-", "\\-")
                assert.is_true(has(section .. "\n", request), name .. flag)
            end
        end
        for _, part in ipairs { ".SH NAME", ".B PONDER_MODEL",
            "\n.B ponder chat\nask a model and stream its reply\n" } do
            assert.is_true(has(page, part), part)
        end
    end)

    it("names every exit status, as --help and README do", function()
        local texts = { ponder({ "man" }).out:match "\n.SH EXIT STATUS\n(.*)$",
            ponder({ "--help" }).out:match "Exit%s+status:.*$",
            shell.read("docs/commands.md"):match "\n## Exit status\n.-\n## " }
        for _, status in ipairs { 0, 1, 2, 99, 124, 129, 130, 141, 143 } do
            for i, text in ipairs(texts) do
                assert.matches("%f[%w]" .. status .. "%f[%W]", text, i)
            end
        end
    end)

    it("has no text line that roff takes for a request", function()
        local known = { TH = true, SH = true, SS = true, TP = true, PP = true, B = true, I = true,
            nf = true, fi = true, br = true, nh = true, ad = true, PD = true }
        for line in ponder({ "man" }).out:gmatch("[^\n]+") do
            local request = line:match("^[.'](%S*)")
            assert.truthy(not request or known[request], line)
        end
    end)
end)

describe("--help of every command", function()
    it("has examples, with existing options, and the options used most", function()
        local commands, count = flags_of_help(), 0
        for name in pairs(commands) do
            local usage = ponder({ name, "--help" }).out
            local lines = (usage .. "\n\n"):match("\n\nExamples:\n(.-)\n\n")
            assert.is_string(lines, name)
            for line in lines:gmatch("[^\n]+") do
                local command, rest = line:match("^  ponder (%l+)(.*)$")
                assert.equal(name, command)
                for flag in rest:gsub('"[^"]*"', ""):gmatch("%f[%-](%-%-[%l-]+)") do
                    count = count + 1
                    assert.is_true(flag == "--help" or has(usage, "\n  " .. flag), name .. flag)
                end
            end
            if #commands[name] > 15 then
                local first = usage:match("\n\nMost used:\n(.-)\n\n")
                assert.is_string(first, name)
                assert.equal(5, select(2, ("\n" .. first):gsub("\n  %-", "")), name)
            end
        end
        assert.is_true(count > 25)
    end)

    it("lists each option once, in lines of at most 80 columns", function()
        for name, flags in pairs(flags_of_help()) do
            local seen = {}
            for _, flag in ipairs(flags) do
                assert.is_nil(seen[flag], name .. flag)
                seen[flag] = true
            end
            for line in ponder({ name, "--help" }).out:gmatch("[^\n]+") do
                assert.is_true(#line <= 80 or has(line, "ponder ") or line:find("^  ") ~= nil, line)
            end
        end
    end)

    it("lists every command once, whatever the width", function()
        local names, count = {}, 0
        for name in ponder({ "-e", [[
            print(table.concat(require("ponder.cli.shared.main").names(), " "))
        ]] }).out:gmatch("%S+") do
            names[name] = true
        end
        local narrow = ponder({ "-e", [[print(require("ponder.cli.shared.main").help(40))]] }).out
        for name in narrow:gmatch("\n  ponder (%l+)\n") do
            assert.is_true(names[name], name)
            names[name] = nil
            count = count + 1
        end
        assert.same({}, names)
        assert.is_true(count > 20)
        for line in narrow:gmatch("[^\n]+") do
            assert.is_true(#line <= 40, line)
        end
    end)

    it("accepts durations with units", function()
        local list = ponder({ "-e", [[
            local cli = require "ponder.cli.shared.main"
            for _, command in ipairs(cli.names()) do
                for name, rule in pairs(require("ponder.cli." .. command).rules or {}) do
                    if name:find "timeout" or name:find "_ms$" or name:find "lease" then
                        print(command, name, rule.type)
                    end
                end
            end]] }).out
        local count = 0
        for line in list:gmatch("[^\n]+") do
            count = count + 1
            assert.matches("\tduration$", line)
        end
        assert.is_true(count > 10)
    end)
end)
