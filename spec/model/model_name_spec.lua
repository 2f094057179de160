-- How names, options, environment and config file determine requests.

local fake = require "model_fake"
local help = require "task_help"
local model = require "ponder.model"
local name = require "ponder.model.name"
local ollama = require "ponder.model.ollama"
local shell = require "shell"

local HELLO = { messages = { { role = "user", content = "Hello" } } }

-- Opens a model in an environment and returns it with the transfer of one call.
local function open(text, opts, env, config)
    local client, transport = fake.client({ { body = "{}" } }, {
        env = function(variable) return (env or {})[variable] end, config = config or {} })
    local m = client.open(text, opts)
    fake.run(function() m:chat(HELLO) end)
    return m, transport.sent[1]
end

local function opens(text, opts, env, config)
    return pcall(open, text, opts, env, config)
end

-- Fails unless opening a model so raises an error with this text.
local function refuses(wanted, ...)
    local ok, message = opens(...)
    assert.is_false(ok)
    assert.matches(wanted, message, 1, true)
end

local KEY = { OPENAI_API_KEY = "sk-1234567890abcdef" }

describe("names", function()
    it("count the part before the first : or / only if it is a provider", function()
        local cases = {
            { "openai:gpt-4o-mini", "openai", "gpt-4o-mini" },
            { "openai/gpt-4o-mini", "openai", "gpt-4o-mini" },
            { "ollama:qwen3:8b", "ollama", "qwen3:8b" },
            { "openai:meta-llama/Llama-3:free", "openai", "meta-llama/Llama-3:free" },
            { "openai/ollama:x", "openai", "ollama:x" },
            { "qwen3:8b", "ollama", "qwen3:8b", "ollama" },
            { "meta-llama/Llama-3", "openai", "meta-llama/Llama-3", "openai" },
            { "gpt-4o-mini", "openai", "gpt-4o-mini", "openai" },
            { "anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5", "openai" },
        }
        for _, case in ipairs(cases) do
            local m = open(case[1], nil, { PONDER_PROVIDER = case[4], OPENAI_API_KEY = "k",
                ANTHROPIC_API_KEY = "k" })
            assert.same({ case[2], case[3], case[2] .. ":" .. case[3] },
                { m.provider, m.model, m.name })
        end
    end)

    it("without a known provider are errors with suggestions", function()
        local cases = {
            { "opnai:gpt-4o", 'did you mean "openai:gpt-4o"?' },
            { "gpt-4o-mini", 'did you mean "openai:gpt-4o-mini"?' },
            { "claude-haiku-4-5", 'did you mean "anthropic:claude-haiku-4-5"?' },
            { "llama3:8b", 'did you mean "ollama:llama3:8b"?' },
            { "zzz", "known: anthropic, azure, bedrock, " },
            { "zzz", "$PONDER_PROVIDER" },
            { "openai", 'needs a model: "openai:MODEL"' },
            { "openai:", 'needs a model: "openai:MODEL"' },
            { "", "is empty" },
        }
        for _, case in ipairs(cases) do
            refuses(case[2], case[1], nil, KEY)
            refuses("model.open: ", case[1], nil, KEY)
        end
        refuses('did you mean "ollama"?', "m", nil, { PONDER_PROVIDER = "olama" })
    end)

    it("default to PONDER_MODEL, then to the config file's", function()
        local config = { default_model = "ollama:b" }
        assert.equal("ollama:a", open(nil, nil, { PONDER_MODEL = "ollama:a" }, config).name)
        assert.equal("ollama:b", open(nil, nil, { PONDER_MODEL = "" }, config).name)
        refuses("PONDER_MODEL", nil, nil, {})
    end)

    it("must be strings", function()
        for _, bad in ipairs { {}, true, print } do assert.is_false((opens(bad))) end
        refuses("name must be a string (got 5)", 5)
    end)
end)

describe("the environment", function()
    it("gives OpenAI its key, address, organization and project", function()
        local _, sent = open("openai:m", nil, { OPENAI_API_KEY = "sk-env", OPENAI_ORG_ID = "org",
            OPENAI_BASE_URL = "http://box:8000/v1/", OPENAI_PROJECT_ID = "proj" })
        assert.equal("http://box:8000/v1/chat/completions", sent.url)
        assert.equal("Bearer sk-env", sent.headers["authorization"])
        assert.equal("org", sent.headers["openai-organization"])
        assert.equal("proj", sent.headers["openai-project"])
    end)

    it("gives Anthropic a key or a token", function()
        local _, sent = open("anthropic:m", nil, { ANTHROPIC_API_KEY = "key" })
        assert.equal("https://api.anthropic.com/v1/messages", sent.url)
        assert.equal("key", sent.headers["x-api-key"])
        assert.equal("2023-06-01", sent.headers["anthropic-version"])
        _, sent = open("anthropic:m", nil, { ANTHROPIC_AUTH_TOKEN = "token",
            ANTHROPIC_BASE_URL = "http://proxy:1/v1/" })
        assert.equal("http://proxy:1/v1/messages", sent.url)
        assert.equal("Bearer token", sent.headers["authorization"])
        assert.is_nil(sent.headers["x-api-key"])
    end)

    it("gives Ollama its host in all its forms", function()
        local hosts = {
            [""] = "http://127.0.0.1:11434",
            ["box"] = "http://box:11434",
            ["box:8000"] = "http://box:8000",
            [":8000"] = "http://127.0.0.1:8000",
            ["0.0.0.0"] = "http://127.0.0.1:11434",
            ["0.0.0.0:8000"] = "http://127.0.0.1:8000",
            ["http://0.0.0.0:8000"] = "http://127.0.0.1:8000",
            ["https://box.example"] = "https://box.example:443",
            ["http://box.example"] = "http://box.example:80",
            ["https://box.example:8443/ollama/"] = "https://box.example:8443/ollama",
            ["::1"] = "http://[::1]:11434",
            ["[::1]"] = "http://[::1]:11434",
            ["[::1]:8000"] = "http://[::1]:8000",
            ["[::]:8000"] = "http://[::1]:8000",
            ["::"] = "http://[::1]:11434",
            ["http://[fe80::2]:9"] = "http://[fe80::2]:9",
            ["http://[fe80::2]"] = "http://[fe80::2]:80",
            [' "box:1" '] = "http://box:1",
        }
        for host, url in pairs(hosts) do assert.equal(url, ollama.url_of_host(host), host) end
        local _, sent = open("ollama:m", nil, { OLLAMA_HOST = "box" })
        assert.equal("http://box:11434/api/chat", sent.url)
        assert.is_nil(sent.headers["authorization"])
    end)

    it("may have a line break after a key, which is dropped", function()
        local _, sent = open("openai:m", nil, { OPENAI_API_KEY = "sk-env\n" })
        assert.equal("Bearer sk-env", sent.headers["authorization"])
        _, sent = open("ollama:m", { api_key = " k\r\n" })
        assert.equal("Bearer k", sent.headers["authorization"])
    end)

    it("is named if a key has a line break within, which would begin another header", function()
        for variable, from in pairs { OPENAI_API_KEY = "$OPENAI_API_KEY",
            OPENAI_ORG_ID = "the header openai-organization" } do
            local env = { OPENAI_API_KEY = "sk-env" }
            env[variable] = "k\r\nX-Evil: 1"
            refuses(from .. " has a line break or NUL within", "openai:m", nil, env)
        end
    end)

    it("is named if a key is missing, unless for another server", function()
        refuses("OPENAI_API_KEY is not set", "openai:m")
        assert.is_false((opens("openai:m", { api_key = "" }, KEY)))
        refuses("ANTHROPIC_API_KEY is not set", "anthropic:m", nil, { ANTHROPIC_API_KEY = "" })
        assert.is_true(opens("openai:m", { base_url = "http://127.0.0.1:1/v1" }))
        assert.is_true(opens("openai:m", nil, { OPENAI_BASE_URL = "http://127.0.0.1:1/v1" }))
        assert.is_true(opens("anthropic:m", { base_url = "http://127.0.0.1:1" }))
        assert.is_true(opens("ollama:m"))
    end)
end)

describe("options", function()
    it("override an alias, that the environment, that the file", function()
        local config = { aliases = { mine = { model = "openai:m", base_url = "http://alias/v1",
            temperature = 0.5 }, short = "mine" },
            providers = { openai = { base_url = "http://file/v1", api_key = "file-key" } },
            defaults = { temperature = 0.25, max_output_tokens = 9 } }
        local env = { OPENAI_BASE_URL = "http://env/v1" }
        local function url(text, opts, from_env)
            return select(2, open(text, opts, from_env, config)).url
        end
        assert.equal("http://opts/v1/chat/completions",
            url("mine", { base_url = "http://opts/v1" }, env))
        assert.equal("http://alias/v1/chat/completions", url("short", nil, env))
        assert.equal("http://env/v1/chat/completions", url("openai:m", nil, env))
        assert.equal("http://file/v1/chat/completions", url("openai:m", nil, {}))
        local m, sent = open("short", nil, {}, config)
        assert.equal("Bearer file-key", sent.headers["authorization"])
        assert.same({ temperature = 0.5, max_output_tokens = 9 }, m.defaults)
        m = open("openai:m", nil, {}, config)
        assert.same({ temperature = 0.25, max_output_tokens = 9 }, m.defaults)
        m = open("mine", { temperature = 1 }, {}, config)
        assert.equal(1, m.defaults.temperature)
    end)

    it("of the config file are checked like others", function()
        for wanted, config in pairs {
            ['unknown option "temprature" (did you mean "temperature"?)'] =
                { defaults = { temprature = 1 } },
            ["opts.max_output_tokens must be"] =
                { providers = { ollama = { max_output_tokens = "many" } } },
            ["opts.base_url must be"] = { defaults = { base_url = 5 } },
            ["opts.api_key must be"] = { providers = { ollama = { api_key = {} } } },
            ["opts.seed must be"] = { aliases = { mine = { model = "ollama:m", seed = "x" } } },
        } do
            refuses("with the config file: " .. wanted, config.aliases and "mine" or "ollama:m",
                nil, {}, config)
        end
    end)

    it("of the config file are in tables", function()
        refuses("the config file's providers.ollama must be a table",
            "ollama:m", nil, {}, { providers = { ollama = "http://x" } })
    end)

    it("add, replace and remove headers", function()
        local _, sent = open("openai:m", { headers = { ["X-Title"] = "ponder",
            Authorization = false, ["api-key"] = "azure" } }, KEY)
        assert.equal("ponder", sent.headers["x-title"])
        assert.equal("azure", sent.headers["api-key"])
        assert.is_nil(sent.headers["authorization"])
        assert.equal("application/json", sent.headers["content-type"])
    end)

    it("a user and password in the URL become a header", function()
        local m, sent = open("openai:m", { base_url = "http://me:p%40ss@127.0.0.1:9/v1" })
        assert.equal("http://127.0.0.1:9/v1/chat/completions", sent.url)
        assert.equal("Basic bWU6cEBzcw==", sent.headers["authorization"])
        assert.equal("[redacted]", m.target.redactor:text("p@ss"))
    end)

    it("allow only http and https, with a host", function()
        for _, url in ipairs { "file:///etc/passwd", "ftp://x/", "127.0.0.1:80", "http://",
            "http:///x", "http://a b/", "gopher://x", "http://x\n/" } do
            refuses("base_url", "openai:m", { base_url = url })
        end
    end)

    it("name what an URL without scheme or host came from", function()
        local function refuses_value(provider, variable, value, wanted)
            refuses("model.open: $" .. variable .. " " .. wanted, provider .. ":m", nil,
                { [variable] = value })
        end
        for provider, variable in pairs { openai = "OPENAI_BASE_URL",
            anthropic = "ANTHROPIC_BASE_URL" } do
            refuses_value(provider, variable, "localhost:8080/v1", "must begin with http:// or "
                .. 'https:// (got "localhost:8080/v1"; did you mean http://localhost:8080/v1?)')
            refuses_value(provider, variable, "http://", 'has no valid host (got "http://")')
            local _, message = opens(provider .. ":m", nil, { [variable] = "ftp://me:secret@x" })
            assert.matches("must begin with http:// or https://$", message)
        end
        refuses_value("ollama", "OLLAMA_HOST", "ftp://x",
            'must begin with http:// or https:// (got "ftp://x:11434")')
        refuses_value("ollama", "OLLAMA_HOST", "my host", "has no valid host ")
        refuses('config.lua: base_url must begin with http:// or https:// (got "x"; ', "openai:m",
            nil, {}, { providers = { openai = { base_url = "x" } } })
    end)

    it("that are unknown are errors with the nearest valid name", function()
        local cases = {
            { { temprature = 1 }, 'unknown option "temprature" (did you mean "temperature"?)' },
            { { temperature = "hot" }, 'opts.temperature must be' },
            { { concurrency = 0 }, "opts.concurrency must be an integer" },
            { { messages = {} }, 'unknown option "messages"' },
            { { headers = { "x" } }, "opts.headers must map names to values" },
            { { headers = { ["a b"] = "x" } }, "is not a header" },
            { { headers = { a = "x\r\nb: y" } }, "is not a header" },
        }
        for _, case in ipairs(cases) do
            refuses(case[2], "ollama:m", case[1])
        end
    end)
end)

describe("the config file", function()
    local function load_config(text)
        local dir <close> = shell.directory { ["ponder/config.lua"] = text }
        local env = { XDG_CONFIG_HOME = dir.path, SECRET = "s3cret" }
        return name.load_config(function(variable) return env[variable] end)
    end

    it("is data", function()
        local config = load_config [[
            local fast = "openai:gpt-4o-mini"
            return { aliases = { fast = fast, other = { model = fast, api_key = "$NOT_SET" } },
                providers = { openai = { api_key = "$SECRET" }, ollama = { api_key = "$5" } } }]]
        assert.equal("s3cret", config.providers.openai.api_key)
        assert.equal("$5", config.providers.ollama.api_key)
        assert.same({ fast = "openai:gpt-4o-mini", other = { model = "openai:gpt-4o-mini" } },
            config.aliases)
        for _, text in ipairs { "os.getenv('HOME')", "io.open('x')", "require 'os'", "print(1)",
            "load('x')", "dofile('x')", "error('x')", "('x'):rep(2)", "_G.x = 1",
            "debug.sethook()", "string.rep('x', 2)" } do
            help.raises("config.lua:1: attempt to ", load_config, text .. " return {}")
        end
        assert.equal("xx", ("x"):rep(2))
    end)

    it("is found only in absolute paths", function()
        local function path(env)
            return name.config_path(function(variable) return env[variable] end)
        end
        assert.is_nil(path { XDG_CONFIG_HOME = "here", HOME = "here" })
        assert.is_nil(path { XDG_CONFIG_HOME = "" })
        assert.equal("/h/.config/ponder/config.lua", path { XDG_CONFIG_HOME = "x", HOME = "/h" })
    end)

    it("counts as empty if it is missing", function()
        assert.same({}, name.load_config(function() return nil end))
        local dir <close> = shell.directory()
        assert.same({}, name.load_config(function(v) return v == "HOME" and dir.path or nil end))
    end)

    it("that is broken is an error with its place", function()
        for text, wanted in pairs {
            ["return {"] = "config.lua:1:",
            ["\nlocal x = nil .. 1"] = "config.lua:2: attempt to concatenate",
            ["return { defaults = { f = function() end } }"] = "must be data",
            ["local t = {} t.t = t return t"] = "config.lua: tables are nested too deeply",
            ["return 5"] = "config.lua: must return a table",
            ["return { alias = {} }"] = 'unknown field "alias" (did you mean "aliases"?)',
            ["return { aliases = 5 }"] = "aliases must be a table (got 5)",
            ["\27Lua"] = "binary",
        } do
            help.raises(wanted:gsub("%p", "%%%0"), load_config, text)
        end
    end)

    it("that cannot be read is not taken for a missing one", function()
        local dir <close> = shell.directory { ["ponder/config.lua/x"] = "" }
        local ok, message = pcall(name.load_config, function(v)
            return v == "XDG_CONFIG_HOME" and dir.path or nil
        end)
        assert.same({ false, dir.path .. "/ponder/config.lua: Is a directory; correct the file, or "
            .. "move it away" }, { ok, message })
    end)

    it("may not have aliases that form a cycle or name nothing", function()
        local aliases = { a = "b", b = "a", c = {}, d = { model = 5 } }
        for _, alias in ipairs { "a", "c", "d" } do
            local text, message = name.follow_aliases(alias, aliases)
            assert.is_nil(text)
            assert.truthy(message:find("alias", 1, true))
        end
        refuses("is part of a cycle", "a", nil, KEY, { aliases = aliases })
    end)
end)

describe("providers", function()
    it("can be added and replaced", function()
        local client = fake.client { fake.reply("x") }
        client.register("echo", { call = function(request)
            local last = request.messages[#request.messages].content
            if last == "fail" then return nil, "I will not", "QUOTA" end
            return { text = last .. request.model, usage = { input_tokens = 1, output_tokens = 2 } }
        end })
        fake.run(function()
            local m = client.open("echo:!", { temperature = 1 })
            local heard = {}
            local reply = m:chat { messages = { { role = "user", content = "Hi" } },
                on_delta = function(text, kind, i) heard[#heard + 1] = kind .. text .. i end }
            assert.equal("Hi!", reply.text)
            assert.same({ "textHi!1" }, heard)
            assert.equal(3, reply.usage.total_tokens)
            local nothing, message, code = m:complete("fail")
            assert.same({ "echo:!: I will not", "QUOTA" }, { message, code })
            assert.is_nil(nothing)
        end)
    end)

    it("configure an endpoint of which only the URL must be there", function()
        local openai = require "ponder.model.openai"
        for wanted, endpoint in pairs {
            [true] = { base_url = "http://localhost:1/v1" },
            ["configure must return a table with base_url, a string (got table)"] = {},
            ["configure must return a table with base_url, a string (got number)"] = 5,
            ["configure must return a table with secrets, a table (got string)"]
                = { base_url = "http://localhost:1/v1", secrets = "key" },
            ["the key is at home"] = false,
        } do
            local client, transport = fake.client { fake.reply("x") }
            local definition = { configure = function()
                return endpoint or nil, not endpoint and "the key is at home" or nil
            end }
            for _, field in ipairs { "path", "build", "build_stream", "stream", "parse",
                "reader" } do
                definition[field] = openai[field]
            end
            client.register("mine", definition)
            fake.run(function()
                local ok, opened = pcall(client.open, "mine:m")
                assert.equal(wanted == true, ok)
                if ok then
                    assert.equal("x", opened:complete "Hi")
                    assert.equal("http://localhost:1/v1/chat/completions", transport.sent[1].url)
                else
                    assert.truthy(opened:find(wanted, 1, true), opened)
                end
            end)
        end
        local client = fake.client {}
        client.register("local", { configure = function() return {} end,
            call = function() return "yes" end })
        fake.run(function() assert.equal("yes", client.open("local:m"):complete "Hi") end)
    end)

    it("are checked when they are added", function()
        for wanted, definition in pairs {
            ["provider must be a table"] = 5,
            ["opts.parse must be a function"] = { build = print, path = "/", build_stream = print,
                stream = "sse", reader = print },
            ['unknown option "cal"'] = { cal = print },
            ["opts.call must be a function"] = { call = 5 },
        } do
            help.raises(wanted, model.register, "mine", definition)
        end
        assert.has_error(function() model.register("a:b", { call = print }) end)
        local known = " " .. table.concat(model.providers(), " ") .. " "
        for _, one in ipairs { "anthropic", "groq", "ollama", "openai", "script", "vllm" } do
            assert.truthy(known:find(" " .. one .. " ", 1, true), known)
        end
    end)
end)
