-- ponder serve: the command.

local json = require "ponder.json"
local served = require "served"
local shell = require "shell"
local upstreams = require "server"

local CHAT = "/v1/chat/completions"

describe("ponder serve", function()
    it("serves files and built-in policies until it is told to stop", function()
        local dir <close> = shell.directory {
            ["up.lua"] = "print('loaded')\nreturn function(r) return r.prompt:upper() end",
            ["two.lua"] = "return { a = function() return 'A' end, b = { run = function() end } }",
        }
        local r = shell.run(([[
            cd %s
            %s serve up.lua other=up.lua two.lua chat --model script:%s --listen unix:s.sock \
                >$OUT 2>$ERR & pid=$!
            until grep -q ' at unix' $ERR; do sleep 0.01; done
            stat -c %%a s.sock
            page=$(curl -s -o page -w '%%{http_code}' --unix-socket s.sock http://localhost/)
            kill -TERM $pid; wait $pid; status=$?
            [ "$page" = 404 ] && [ ! -e s.sock ] && exit $status]]):format(dir.path,
            shell.quote(shell.executable),
            shell.quote(shell.root .. "/scripts/models/arithmetic.lua")))
        assert.equal(0, r.status)
        assert.equal("", r.out)
        assert.matches("ponder serve: up, other, a, b, chat at unix:s.sock\n", r.err)
    end)

    for i, case in ipairs { { "TERM", 143, "while true do end" },
        { "INT", 130, "return (('a'):rep(60)):find(('a?'):rep(60) .. ('a'):rep(60))" },
        { "TERM", 143, "require('ponder.task').sleep(600)" },
        { "INT", 130, "require('ponder.task').sleep(600)" } } do
        local name, status, code = table.unpack(case)
        it("is ended by a second SIG" .. name .. (i < 3 and " even if a policy computes"
            or ", with its status"), function()
            local dir <close> = shell.directory {
                ["busy.lua"] = "return function()\nio.stderr:write 'busy'\n" .. code .. "\nend" }
            local r = shell.run(([[
                cd %s
                %s serve busy.lua --listen 127.0.0.1:0 >$OUT 2>$ERR & pid=$!
                until grep -q ' at http' $ERR; do sleep 0.01; done
                port=$(sed -n 's|.*127.0.0.1:\([0-9]*\)/v1|\1|p' $ERR)
                body='{"model":"busy","messages":[{"role":"user","content":"x"}]}'
                curl -s --noproxy '*' -H 'Content-Type: application/json' -d "$body" \
                    127.0.0.1:$port%s >>$OUT &
                until grep -q busy$ $ERR; do sleep 0.01; done
                kill -%s $pid; sleep 1; kill -%s $pid
                (sleep 30; kill -KILL $pid) & killer=$!
                wait $pid; status=$?; kill $killer; exit $status]]):format(dir.path,
                shell.quote(shell.executable), CHAT, name, name))
            assert.equal(status, r.status)
        end)
    end

    it("reloads files that have changed, and keeps what it has of broken ones", function()
        local dir <close> = shell.directory { ["p.lua"] = "return function() return 'one' end" }
        local server <close>, ask = served.start(dir, { "--reload", "p.lua" })
        assert.equal("one", (ask("p", "x")))
        for _, case in ipairs { { "return function() return 'two' end", "two" },
            { "return (", "two" }, { "return function() return 'three' end", "three" } } do
            dir:write("p.lua", case[1])
            assert.equal(case[2], (ask("p", "x")))
        end
        assert.equal(0, server:stop())
    end)

    it("gives strategies of a file the model and the tools of the flags", function()
        local own = [[require("ponder.strategy").new { name = "own", roles = { "generate" },
            run = function(thinker, question) return (thinker:ask(question)) end }]]
        local dir <close> = shell.directory { ["own.lua"] = "return " .. own,
            ["two.lua"] = "return { one = " .. own .. ", up = function() return 'UP' end }",
            ["m.lua"] = [[return function(request)
                local tools = request.options.tools
                return tools and "I have " .. tools[1].name or "no tools"
            end]], ["t.lua"] = "return { { name = 'clock', run = function() end } }" }
        local server <close>, ask = served.start(dir, { "own.lua", "two.lua", "chat", "--model",
            "script:m.lua", "--tools", "t.lua" })
        assert.same({ "I have clock", "I have clock", "UP" },
            { (ask("own", "x")), (ask("one", "x")), (ask("up", "x")) })
        assert.equal(0, server:stop())
        local r = dir:ponder { "serve", "two.lua" }
        assert.same({ 1, "ponder serve: two.lua: policy one: no model is named" },
            { r.status, r.err:match "^[^;\n]*" })
    end)

    it("limits requests as its flags say", function()
        local dir <close> = shell.directory { ["m.lua"] = "return function() return 'x' end",
            ["p.lua"] = [[
                local model = require "ponder.model"
                local function ask(name, times)
                    return function()
                        local m, text, message, code = model.open(name), nil, nil, nil
                        for _ = 1, times do
                            text, message, code = m:complete "x"
                        end
                        return text, message, code
                    end
                end
                return { twice = ask("script:m.lua", 2), unpriced = ask("openai:nobody-knows", 1),
                    slow = function() require("ponder.task").sleep(600) end }]] }
        for flag, case in pairs { ["--max-calls-per-request=1"] = { "twice", "insufficient_quota" },
            ["--max-cost=1"] = { "unpriced", "no_price" },
            ["--max-cost-per-request=1"] = { "unpriced", "no_price" },
            ["--timeout=50ms"] = { "slow", "timeout" } } do
            local _ <close>, ask = served.start(dir, { "p.lua", flag },
                { OPENAI_API_KEY = "none", OPENAI_BASE_URL = "http://127.0.0.1:1/v1" })
            local _, reply = ask(case[1], "x")
            assert.equal(case[2], (reply.error or {}).code, flag)
        end
    end)

    it("gives the model of the policy chat the limit and the format of a request", function()
        local upstream <close> = upstreams.start()
        local dir <close> = shell.directory {}
        local event = json.encode { choices = { { index = 0, delta = { content = "{}" },
            finish_reason = "length" } } }
        upstream:next("type=text/event-stream&body=" .. upstreams.encode("data: " .. event
            .. "\n\ndata: [DONE]\n\n"))
        local server <close>, ask = served.start(dir, { "chat", "--model", "openai:m" },
            { OPENAI_API_KEY = "none", OPENAI_BASE_URL = upstream.url .. "/v1", no_proxy = "*" })
        local _, reply = ask("chat", "x", { max_tokens = 7,
            response_format = { type = "json_object" } })
        assert.equal("length", reply.choices[1].finish_reason)
        assert.equal(0, server:stop())
        local sent = json.decode(upstream:request():match "\n({.*})$")
        assert.same({ 7, { type = "json_object" } }, { sent.max_tokens, sent.response_format })
    end)

    it("shows its runs to a client with the only key, not to one of several", function()
        for keys, expected in pairs { ["key-of-ann ann\n"] = '"resources":[{"',
            ["key-of-ann ann\nkey-of-bob bob\n"] = '"resources":[]' } do
            local dir <close> = shell.directory { keys = keys, ["up.lua"] =
                "return function(request) return request.prompt:upper() end" }
            dir:printed { "run", "--log", "a.db", "-e", "require('ponder.log').event 'x'" }
            local _ <close> = served.start(dir, { "--key-file", "keys", "--log", "a.db", "up.lua" })
            local body = json.encode { jsonrpc = "2.0", id = 1, method = "resources/list",
                params = { _meta = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
                    ["io.modelcontextprotocol/clientCapabilities"] = json.object() } } }
            local said = shell.output(([[curl -s --unix-socket %s/socket http://x/mcp -d %s \
                -H 'Content-Type: application/json' -H 'X-Api-Key: key-of-ann' \
                -H 'Accept: application/json, text/event-stream' \
                -H 'MCP-Protocol-Version: 2026-07-28' -H 'MCP-Method: resources/list']]):format(
                dir.path, shell.quote(body)))
            assert.truthy(said:find(expected, 1, true), said)
        end
    end)

    it("reports errors before it listens", function()
        local dir <close> = shell.directory { ["bad.lua"] = "return 5",
            ["broken.lua"] = "return (", ["result.lua"] = "return { best_node = {} }",
            ["odd.lua"] = "return { run = print, depth = 1 }", ["keys"] = "short\n",
            ["schema.lua"] = 'return { run = print, returns = { type = "objekt" } }',
            ["up.lua"] = "return function() end" }
        local broken_config <close> = shell.directory { ["ponder/config.lua"] = "return {" }
        local function reports(status, case)
            local r = dir:ponder { "serve", table.unpack(case, 2) }
            assert.equal(status, r.status)
            assert.matches(case[1], r.err)
        end
        for _, case in ipairs {
            { "^ponder serve: broken.lua:1: unexpected symbol", "broken.lua" },
            { "^ponder serve: result.lua: policy best_node: expected a function", "result.lua" },
            { '^ponder serve: odd.lua: policy odd: unknown option "depth"\n$', "odd.lua" },
            { '^ponder serve: schema.lua: policy schema: returns: type must be "object", ',
                "schema.lua" },
            { "expected a function, a strategy or a table with run %(got 5%)", "bad.lua" },
            { "^ponder serve: tot: no model is named", "tot" },
            { "^ponder serve: cannot listen at /dev/null/s: [^\n]*; %-%-listen names another "
                .. "address\n$", "--listen", "unix:/dev/null/s", "up.lua" },
        } do
            reports(1, case)
        end
        for _, case in ipairs {
            { "expected a policy" },
            { "^ponder serve: nosuch.lua: No such file or directory\n$", "nosuch.lua" },
            { "^ponder serve: two policies are named up %(NAME=FILE.lua names one%)\n$", "up.lua",
                "up.lua" },
            { "%-%-listen: 0.0.0.0:1 can be reached from other machines, which needs "
                .. "%-%-key%-file FILE", "--listen", "0.0.0.0:1", "up.lua" },
            { "%-%-listen: expected HOST:PORT .*%-%-key%-file", "--listen", "0.0.0.0", "up.lua" },
            { "%-%-cors: expected origins such as https://example.com %(got \"a.example\"%)",
                "--cors", "*,http://localhost:3000,a.example", "up.lua" },
            { "%-%-key%-file: keys: line 1: expected KEY", "--key-file", "keys", "up.lua" },
        } do
            reports(2, case)
        end
        local r = shell.ponder({ "serve", "tot" }, {
            env = { XDG_CONFIG_HOME = broken_config.path },
        })
        assert.equal(1, r.status)
        assert.matches("^ponder serve: tot: [^\n]*/config.lua:1: unexpected symbol[^\n]*\n$", r.err)
    end)
end)
