-- ponder.serve and its MCP endpoint: the budgets of the server, of its keys and of each request.

local fake = require "model_fake"
local guard = require "ponder.serve.http.guard"
local json = require "ponder.json"
local raises = require "raises"
local serve = require "ponder.serve"
local served = require "served"
local shell = require "shell"
local task = require "ponder.task"
local transport = require "ponder.model.transport"

-- Each reply costs a dollar; `buys` asks for four and tells how many it got.
local client = fake.client({ { body = [[{"choices":[{"message":{"content":"x"}}],
    "usage":{"prompt_tokens":0,"completion_tokens":1}}]] } },
    { prices = { ["openai:*"] = { input = 0, output = 1000000 } } })

local function buys()
    local m, count, code = client.open "openai:m", 0, nil
    for i = 1, 4 do
        local reply, _, why = m:complete("x", { max_output_tokens = 1, sample = i })
        count, code = count + (reply and 1 or 0), code or why
    end
    return count .. " " .. tostring(code)
end

local BODIES = {
    ["/v1/chat/completions"] = { model = "buys", messages = { { role = "user", content = "x" } } },
    ["/v1/responses"] = { model = "buys", input = "x" },
    ["/mcp"] = { jsonrpc = "2.0", id = 1, method = "tools/call", params = { name = "buys",
        arguments = { prompt = "x" }, _meta = {
            ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
            ["io.modelcontextprotocol/clientCapabilities"] = json.object() } } },
}

-- What policies got at a server, in requests with these keys.
local function bought(path, opts, keys)
    local got = {}
    task.run(function()
        opts.policies, opts.listen, opts.log = { buys = buys }, "127.0.0.1:0", function() end
        opts.keys = assert(guard.read_keys "key-of-ann ann 3\nkey-of-bob bob\nkey-of-eve eve 0\n")
        local server = serve.new(opts)
        local address, net = assert(server:start()), transport.new()
        for i, key in ipairs(keys) do
            local result = net:send { url = "http://" .. address .. path, method = "POST",
                proxy = "", body = json.encode(BODIES[path]), headers = {
                    ["content-type"] = "application/json", authorization = "Bearer " .. key,
                    accept = "application/json, text/event-stream",
                    ["mcp-protocol-version"] = "2026-07-28", ["mcp-method"] = "tools/call",
                    ["mcp-name"] = "buys" } }
            got[i] = result.body:match '"(%d %a+)"' or result.body
        end
        net:close()
        server:drain()
        server:wait()
    end)
    return got
end

describe("a server", function()
    local ANN, BOB, EVE = "key-of-ann", "key-of-bob", "key-of-eve"
    for path in pairs(BODIES) do
        it("keeps to each of its budgets at " .. path, function()
            for _, case in ipairs {
                { {}, { BOB, ANN, ANN, EVE, BOB },
                    { "4 nil", "3 BUDGET", "0 BUDGET", "0 BUDGET", "4 nil" } },
                { { max_cost_per_request = 2 }, { BOB, BOB, ANN, ANN },
                    { "2 BUDGET", "2 BUDGET", "2 BUDGET", "1 BUDGET" } },
                { { max_calls_per_request = 2 }, { BOB, BOB, ANN, ANN },
                    { "2 BUDGET", "2 BUDGET", "2 BUDGET", "1 BUDGET" } },
                { { max_cost = 2 }, { ANN, BOB }, { "2 BUDGET", "0 BUDGET" } },
                { { max_cost = 5 }, { ANN, BOB, ANN }, { "3 BUDGET", "2 BUDGET", "0 BUDGET" } },
            } do
                assert.same(case[3], bought(path, case[1], case[2]))
            end
        end)
    end
end)

it("a server counts what its policies spend, and its errors", function()
    served.run({ policies = { buys = buys, fails = function() error "x" end } }, function(send)
        for _, name in ipairs { "buys", "buys", "fails" } do
            send("POST", served.CHAT, served.chat(name, "x"))
        end
        local _, text = send("GET", "/metrics")
        for metric, n in pairs { ['model_calls_total{policy="buys"}'] = 8,
            ['cost_usd_total{policy="buys"}'] = 8, ['errors_total{code="error"}'] = 1,
            ['tokens_total{policy="buys",kind="output"}'] = 8,
            ['tokens_total{policy="buys",kind="input"}'] = 0,
            ['requests_total{policy="buys",status="200"}'] = 2,
            ['requests_total{policy="fails",status="500"}'] = 1, requests_in_flight = 0 } do
            assert.equal(n, tonumber(text:match("\nponder_" .. metric:gsub("%p", "%%%0")
                .. " (%S+)")), metric)
        end
    end)
end)

it("a server has no endless budget, and no other that is not one", function()
    for _, wrong in ipairs { math.huge, -1, 0 / 0, "x" } do
        for _, name in ipairs { "max_cost", "max_cost_per_request", "max_calls_per_request" } do
            raises.like(name .. " must be",
                serve.new, { policies = { buys = buys }, [name] = wrong })
        end
    end
end)

describe("the commands", function()
    local function directory()
        return shell.directory { ["ponder/prices.lua"] =
            'return { ["script:*"] = { input = 0, output = 1000000 } }', ["m.lua"] =
            "return function() return { text = 'x', usage = { output_tokens = 1 } } end",
            ["keys"] = "key-of-ann ann 3\nkey-of-bob bob\n", ["s.lua"] = [[
            return { buys = function()
                local m, count = require("ponder.model").open "script:m.lua", 0
                for i = 1, 9 do
                    count = count + (m:complete("x", { max_output_tokens = 1, sample = i })
                        and 1 or 0)
                end
                return count .. " bought"
            end, fails = function() error "on purpose" end }]] }
    end

    it("pass their flags on to a server", function()
        for flags, expected in pairs { [""] = "3 0 9", ["--max-cost 5"] = "3 0 2",
            ["--max-cost-per-request 2"] = "2 1 2", ["--max-calls-per-request 2"] = "2 1 2" } do
            local dir <close> = directory()
            local words = { "--key-file", "keys", "s.lua" }
            for word in flags:gmatch "%S+" do
                table.insert(words, word)
            end
            local _ <close>, ask = served.start(dir, words, { XDG_CONFIG_HOME = dir.path })
            local got = {}
            for i, name in ipairs { "ann", "ann", "bob" } do
                got[i] = ask("buys", "x", nil, "key-of-" .. name):match "(%d+) bought"
            end
            assert.equal(expected, table.concat(got, " "), flags)
        end
    end)

    it("pass them on to tools of ponder mcp", function()
        for flags, expected in pairs { ["--max-cost-per-request"] = "2",
            ["--max-calls-per-request"] = "2" } do
            local dir <close> = directory()
            local r = dir:ponder({ "mcp", flags, "2", "s.lua" }, {
                env = { XDG_CONFIG_HOME = dir.path }, input = json.encode(BODIES["/mcp"]) .. "\n" })
            assert.equal(expected, r.out:match '"(%d) bought"', r.out .. r.err)
            r = dir:ponder({ "mcp", "s.lua" }, { input = json.encode(
                BODIES["/mcp"]):gsub('"buys"', '"fails"') .. "\n" })
            assert.matches("ponder mcp: fails: [^\n]*on purpose", r.err)
        end
    end)
end)
