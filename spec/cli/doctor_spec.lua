-- ponder doctor, and what commands say of settings that are missing or broken.

local json = require "ponder.json"
local server = require "server"
local shell = require "shell"

local KEY = "sk-0123456789abcdefghij"

local function ponder(arguments, env)
    env = env or {}
    env.OLLAMA_HOST = env.OLLAMA_HOST or ""
    return shell.ponder(arguments, { env = shell.bare(env) })
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
            "PONDER_MODEL=openai:gpt-6-luna" } do
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

describe("a command without a model", function()
    it("does not choose one, whatever is configured, and says how to name one", function()
        for _, command in ipairs { "tot", "got", "trm", "cot", "chat" } do
            local r = ponder({ command, "--no-log", "Why?" },
                { ANTHROPIC_API_KEY = "sk-ant-0123456789" })
            assert.same({ 1, "", command == "chat" and 1 or 2 },
                { r.status, r.out, #shell.lines(r.err) }, r.err)
            for _, word in ipairs { "--model openai:", "ollama:", "llama.cpp", "script:FILE" } do
                assert.is_true(command == "chat" or has(r.err, word), word)
            end
            local text = r.err:gsub("%s+", " ")
            assert.matches("no model is named; configured: anthropic:claude-haiku-4-5 "
                .. "(ANTHROPIC_API_KEY). Name one: export PONDER_MODEL=anthropic:claude-haiku-4-5, "
                .. "or --model anthropic:claude-haiku-4-5", text, 1, true)
        end
        local text = ponder({ "cot", "--no-log", "Why?" }).err:gsub("%s+", " ")
        assert.matches("no model is named; nothing is configured (OPENAI_API_KEY", text, 1, true)
    end)
end)
