-- ponder chat, ponder models and the example scripts, as a person runs them, against a server.

local json = require "ponder.json"
local server = require "server"
local shell = require "shell"

local KEY = "sk-0123456789abcdefghij"

describe("the command", function()
    local s

    setup(function() s = server.start() end)
    teardown(function() s:stop() end)

    local function run(steer, arguments, input, env)
        env = shell.bare(env)
        env.OPENAI_API_KEY = KEY
        env.OPENAI_BASE_URL = s.url .. (steer and "/s/" .. steer or "") .. "/v1"
        local r = shell.ponder(arguments, { input = input, env = env })
        return r.status, r.out, r.err
    end

    it("chat streams a reply", function()
        local status, out, err = run("text=word%20&deltas=4", { "chat", "--model", "openai:m",
            "--system", "Be brief.", "--temperature", "0.5", "--max-output-tokens", "9", "How",
            "are you?" })
        assert.same({ 0, "word word word word \n", "" }, { status, out, err })
        local sent = json.decode(s:request():match("\n({.*})$"))
        assert.equal("How are you?", sent.messages[2].content)
        assert.same({ 0.5, 9, true }, { sent.temperature, sent.max_tokens, sent.stream })
    end)

    it("models ends at Ctrl-C, and takes it for no failure of a server", function()
        local r = shell.run(([[
            OPENAI_API_KEY= ANTHROPIC_API_KEY= OLLAMA_HOST=%s/s/delay=60000 %s models >$OUT 2>$ERR &
            pid=$!
            until curl -s %s/_counters | grep -q '"in_flight": *1'; do sleep 0.02; done
            kill -INT $pid; wait $pid]]):format(s.url, shell.quote(shell.executable), s.url))
        assert.equal(130, r.status, r.err)
        assert.matches("\nponder: interrupted\n$", r.err)
        assert.is_nil(r.err:find "ollama")
    end)

    it("chat --json prints the whole reply", function()
        local status, out = run("text=ok", { "chat", "--model", "openai:m", "--json", "Hello" })
        local reply = json.decode(out)
        assert.equal(0, status)
        assert.same({ "ok", "stop", 15, 1 }, { reply.text, reply.finish_reason,
            reply.usage.total_tokens, reply.attempts })
    end)

    it("chat names the parameters it omitted", function()
        local status, out, err = run("text=ok&deltas=1", { "chat", "--model", "openai:o3",
            "--temperature", "0", "Hello" })
        assert.same({ 0, "ok\n" }, { status, out })
        assert.equal("ponder: openai:o3: temperature is not sent: "
            .. "reasoning models do not accept temperature\n", err)
    end)

    it("chat fails with one line", function()
        local cases = {
            { "status=401&body=" .. server.encode(KEY), { "--model", "openai:m", "x" }, 1,
                "ponder chat: openai:m: [redacted] (status 401, 1 attempt) at http://127.0.0.1:" },
            { "status=401", { "--model", "openai:m", "x" }, 1,
                "/chat/completions: the key is from $OPENAI_API_KEY [AUTH]\n" },
            { nil, { "--model", "opnai:m", "x" }, 1, 'did you mean "openai:m"?' },
            { nil, { "--model", "anthropic:m", "x" }, 1, "ANTHROPIC_API_KEY is not set" },
            { nil, { "--temperature", "hot", "x" }, 2, "--temperature must be a number" },
        }
        for _, case in ipairs(cases) do
            table.insert(case[2], 1, "chat")
            local status, out, err = run(case[1], case[2])
            assert.same({ case[3], "" }, { status, out })
            assert.truthy(err:find(case[4], 1, true), err)
            assert.equal(1, select(2, err:gsub("\n", "")))
        end
    end)

    it("models lists one provider, or all that can be asked", function()
        local steer = "body=" .. server.encode '{"data":[{"id":"m2"},{"id":"m1","name":"M One"}]}'
        local status, out, err = run(steer, { "models", "openai" })
        assert.equal(0, status)
        assert.truthy(out:find("^openai:m1 +M One\nopenai:m2\n$"), out)
        assert.equal("", err)
        status, out, err = run(steer, { "models", "--json" })
        assert.equal(0, status)
        assert.same({ { id = "m1", name = "M One", provider = "openai" },
            { id = "m2", provider = "openai" } }, json.decode(out))
        assert.truthy(err:find("ponder models: anthropic: ANTHROPIC_API_KEY is not set", 1, true))
        assert.truthy(err:find("ponder models: ollama: ", 1, true))
        status, out, err = run("status=500", { "models", "openai" })
        assert.same({ 1, "" }, { status, out })
        assert.truthy(err:find("status 500", 1, true))
        status, out, err = run(nil, { "models", "opnai" })
        assert.same({ 2, "" }, { status, out })
        assert.truthy(err:find("did you mean openai?", 1, true))
    end)

    it("--verbose shows the calls of every command, without the key", function()
        local code = "print(require('ponder.model').open():complete('Hello'))"
        local env = { PONDER_MODEL = "openai:m" }
        local commands = { { { "run", "--verbose", "-e", code } },
            { { "--verbose", "-e", code } }, { { "repl", "--verbose" }, code .. "\n" },
            { { "chat", "--verbose", "Hello" } } }
        for _, command in ipairs(commands) do
            local status, out, err = run("text=" .. KEY, command[1], command[2], env)
            assert.same({ 0, true }, { status, #out > 0 })
            assert.truthy(err:find("> 1 openai:m POST " .. s.url, 1, true), err)
            assert.truthy(err:find("authorization: [redacted]", 1, true), err)
            assert.truthy(err:find('"content":"Hello"', 1, true), err)
            assert.truthy(err:find("< 1 200 in %d+ ms"), err)
            assert.truthy(err:find("< 1   [redacted]", 1, true), err)
            assert.is_nil(err:find(KEY, 1, true), err)
        end
        local list = "body=" .. server.encode('{"data":[{"id":"' .. KEY .. '"}]}')
        local _, _, err = run(list, { "models", "openai", "--verbose" })
        assert.truthy(err:find("> 1 openai:* GET " .. s.url, 1, true), err)
        assert.truthy(err:find('< 1   {"data":[{"id":"[redacted]"}]}', 1, true), err)
        _, _, err = run("status=500&body=no", { "models", "openai", "--verbose" })
        assert.truthy(err:find("! 1 attempt 1: 500 SERVER after %d+ ms: no"), err)
    end)

    it("runs the example scripts", function()
        local function script(steer, file, ...)
            return run(steer, { "run", "scripts/" .. file, "--model", "openai:m", ... },
                "one\n\ntwo\n")
        end
        local status, out, err = script("text=word%20", "chat.lua", "Hi")
        assert.same({ 0, "word word word " }, { status, out })
        assert.truthy(err:find("10 + 3 tokens", 1, true))
        status, out = script("text=fine", "questions.lua")
        assert.same({ 0, "1. one\n   fine\n2. two\n   fine\n" }, { status, out })
        status, out = script("status=404&body=gone", "questions.lua")
        assert.equal(1, status)
        assert.truthy(out:find("failed: openai:m: gone (status 404, 1 attempt) at http://", 1,
            true))
    end)
end)
