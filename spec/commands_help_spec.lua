-- ponder doctor, completion and man: their output, and that it agrees with --help.

local json = require "ponder.json"
local server = require "server"
local shell = require "shell"

local KEY = "sk-0123456789abcdefghij"
local function ponder(arguments, env)
    env = env or {}
    env.OLLAMA_HOST = env.OLLAMA_HOST or ""
    return shell.ponder(arguments, { env = shell.bare(env) })
end

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

local function has(text, part) return text:find(part, 1, true) ~= nil end

describe("ponder doctor", function()
    local s, url

    setup(function()
        s = server.start()
        url = s.url .. "/s/body="
            .. server.encode '{"data":[{"id":"m2"},{"id":"m1","name":"M One"}]}' .. "/v1"
    end)
    teardown(function() s:stop() end)

    local function about(r)
        local by_name = {}
        for _, found in ipairs(json.decode(r.out)) do by_name[found.about] = found end
        return by_name
    end

    it("says what is missing if nothing is configured", function()
        local r = ponder({ "doctor" }, { OLLAMA_HOST = "127.0.0.1:1" })
        assert.same({ 1, "" }, { r.status, r.err })
        for _, part in ipairs { "config file    /nonexistent/ponder/config.lua does not exist",
            "-- anthropic      ANTHROPIC_API_KEY is not set", "export OPENAI_API_KEY=...",
            "!! ollama         http://127.0.0.1:1: ", "`ollama serve`",
            "-- default model  none is named",
            "PONDER_MODEL=openai:gpt-4o-mini" } do
            assert.is_true(has(r.out, part), part .. " is not in\n" .. r.out)
        end
    end)

    it("says which models can be reached, and never a key", function()
        local env = { OPENAI_API_KEY = KEY, OPENAI_BASE_URL = url:gsub("//", "//me:hidden@", 1)
            .. "?token=" .. KEY, OLLAMA_HOST = "127.0.0.1:1", ANTHROPIC_AUTH_TOKEN = KEY,
            ANTHROPIC_BASE_URL = "http://127.0.0.1:1" }
        local r = ponder({ "doctor" }, env)
        assert.is_true(has(r.out, "ok openai         " .. url .. " offers 2 models "), r.out)
        assert.is_false(has(r.out .. r.err, KEY))
        assert.is_false(has(r.out .. r.err, "hidden"))
        local found = about(ponder({ "doctor", "--json" }, env))
        assert.same({ "ok", "problem", "problem" }, { found.openai.state, found.ollama.state,
            found.anthropic.state })
        assert.equal("m1", found.openai.models[1].id)
        r = ponder({ "doctor", "--verbose" }, env)
        local sent = "> %d+ openai:%* GET " .. url:gsub("%p", "%%%0") .. "/models"
        assert.truthy(r.err:find(sent), r.err)
        assert.truthy(r.err:find("< %d+ 200 in %d+ ms"), r.err)
        assert.truthy(r.err:find("! %d+ attempt 1: %- CONNECT"), r.err)
        assert.is_false(has(r.out .. r.err, KEY))
        assert.is_false(has(r.out .. r.err, "hidden"))
    end)

    it("checks that its server has the default model", function()
        local env = { OPENAI_API_KEY = KEY, OPENAI_BASE_URL = url,
            OLLAMA_HOST = "127.0.0.1:1", PONDER_MODEL = "openai:m11" }
        local r = ponder({ "doctor", "--json" }, env)
        local found = about(r)
        assert.same({ 1, "problem" }, { r.status, found["default model"].state })
        assert.truthy(found["default model"].advice:find("did you mean m1?", 1, true))
        env.PONDER_MODEL = "openai:m1"
        r = ponder({ "doctor" }, env)
        assert.equal(0, r.status)
        assert.is_true(has(r.out, "ok default model  " .. env.PONDER_MODEL), r.out)
    end)

    it("accepts a scripted model", function()
        local r = ponder({ "doctor" }, { OLLAMA_HOST = "127.0.0.1:1",
            PONDER_MODEL = "script:" .. shell.root .. "/scripts/models/arithmetic.lua" })
        assert.equal(0, r.status, r.out)
    end)

    it("says whether programs can be isolated, and why not", function()
        local command = ("OLLAMA_HOST=127.0.0.1:1 %s doctor"):format(shell.quote(shell.executable))
        local r = shell.run(command .. " >$OUT 2>$ERR")
        if not r.out:find "ok namespaces " then
            return pending "no namespaces here"
        end
        r = shell.run(("unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; %s' "
            .. ">$OUT 2>$ERR"):format(command))
        assert.matches("\n%-%- namespaces +[^\n]*namespaces[^\n]*\n[^\n]*max_user_namespaces",
            r.out)
    end)

    it("finds a broken config file, prompt file and prompt directory", function()
        local dir <close> = shell.directory { ["ponder/config.lua"] = "return { alias = {} }",
            ["prompts/tot.lua"] = "return {" }
        local r = ponder({ "doctor" }, { XDG_CONFIG_HOME = dir.path, PONDER_PROMPTS =
            dir.path .. "/prompts", OLLAMA_HOST = "127.0.0.1:1" })
        assert.equal(1, r.status)
        assert.is_true(has(r.out, 'unknown field "alias" (did you mean "aliases"?)'), r.out)
        assert.truthy(r.out:find("!! prompts        [^\n]*tot.lua:1:"), r.out)
        r = ponder({ "doctor" }, { PONDER_PROMPTS = dir.path .. "/none",
            OLLAMA_HOST = "127.0.0.1:1" })
        assert.is_true(has(r.out, "/none: No such file or directory"), r.out)
    end)

    it("and all other commands say in one line what is wrong with the config file", function()
        local dir <close> = shell.directory { ["run.lua"] = "require('ponder.model').open()",
            ["policy.lua"] = "return print", ["eval.lua"] = "return { data = { { x = 1, "
            .. "target = 1 } }, score = 'exact', policies = { io = { prompt = '{{x}}' } } }" }
        for text, problem in pairs {
            ['return {\n  default_model = "x\n}'] = ":2: unfinished string near '\"x'",
            ["return {\n\n  alias = {} }"] =
                ':3: unknown field "alias" (did you mean "aliases"?)',
            ["return 5"] = ": must return a table",
            ['return { providers = {\n  openai = { base_ul = "x" } } }'] = ":2: model.open, with "
                .. 'the config file: unknown option "base_ul" (did you mean "base_url"?)',
            ['return { prices = {\n\n["openai:m"] = { input = -1, output = 0 } } }'] =
                ':3: the price of "openai:m": opts.input must be a finite number >= 0 (got -1)',
        } do
            local place = dir:write("ponder/config.lua", text) .. problem
            local line = place .. "; correct the file, or move it away\n"
            local function run(...)
                return shell.ponder({ ... }, { cwd = dir.path, env = shell.bare {
                    XDG_CONFIG_HOME = dir.path, PONDER_MODEL = "openai:m", OPENAI_API_KEY = KEY } })
            end
            local doctor = run("doctor", "--timeout-ms", "100")
            assert.same({ 1, "" }, { doctor.status, doctor.err })
            assert.is_true(has(doctor.out, place), doctor.out)
            for _, words in ipairs { { "chat", "hi" }, { "cot", "hi" }, { "eval", "eval.lua" },
                { "run.lua" }, { "chat", "--mcp", "x", "hi" },
                not problem:find "base_ul" and { "models" } or nil,
                not problem:find "base_ul" and { "serve", "policy.lua" } or nil } do
                local r = run(table.unpack(words))
                assert.not_equal(0, r.status)
                assert.equal(line, r.err:gsub("^ponder[ %l]*: ", ""):gsub("^%-%-mcp: ", ""))
            end
        end
    end)

    it("skips what it was not asked to check", function()
        assert.equal(2, ponder({ "doctor", "--jsom" }).status)
        assert.equal(2, ponder({ "doctor", "who" }).status)
    end)
end)

describe("ponder completion", function()
    -- A directory with a logged run and an alias; ponder is on the path there.
    local function home()
        local dir = shell.directory { ["config/ponder/config.lua"] =
            'return { aliases = { fast = "openai:gpt-4o-mini" } }', ["policy.lua"] = "" }
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
                ["ponder tot --model openai:gpt-4o-m"] = "gpt-4o-mini",
                ["ponder tot --model=openai:gpt-4o-m"] = "gpt-4o-mini",
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
                ["ponder tot --model openai:gpt-4o-m"] = "openai" .. colon .. "gpt-4o-mini",
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
            shell.read(shell.root .. "/README.md"):match "\nExit status, .-\n\n" }
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
            print(table.concat(require("ponder.cli").names(), " "))
        ]] }).out:gmatch("%S+") do
            names[name] = true
        end
        local narrow = ponder({ "-e", [[print(require("ponder.cli").help(40))]] }).out
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
            local cli = require "ponder.cli"
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

describe("a command without a model", function()
    local function run(arguments, env)
        env = env or {}
        for _, name in ipairs { "PONDER_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL",
            "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_HOST" } do
            env[name] = env[name] or ""
        end
        env.XDG_CONFIG_HOME = "/nonexistent"
        return shell.ponder(arguments, { env = env })
    end

    it("does not choose one, whatever is configured, and says how to name one", function()
        for _, command in ipairs { "tot", "got", "trm", "cot", "chat" } do
            local r = run({ command, "--no-log", "Why?" },
                { ANTHROPIC_API_KEY = "sk-ant-0123456789" })
            assert.is_true(r.status ~= 0)
            assert.equal("", r.out)
            local text = r.err:gsub("%s+", " ")
            assert.matches("no model is named; configured: anthropic:claude-haiku-4-5 "
                .. "(ANTHROPIC_API_KEY). Name one: export PONDER_MODEL=anthropic:claude-haiku-4-5, "
                .. "or --model anthropic:claude-haiku-4-5", text, 1, true)
        end
        local text = run({ "cot", "--no-log", "Why?" }).err:gsub("%s+", " ")
        assert.matches("no model is named; nothing is configured (OPENAI_API_KEY", text, 1, true)
    end)
end)
