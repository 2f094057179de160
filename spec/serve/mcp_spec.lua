-- ponder.mcp: a server of the Model Context Protocol, over standard input and output and over HTTP.

local client = require "ponder.mcp"
local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local models = require "ponder.model"
local server = require "ponder.serve.mcp.server"
local serve = require "ponder.serve"
local search = require "ponder.search"
local serve_policies = require "ponder.serve.http.policies"
local shell = require "shell"
local task = require "ponder.task"
local transport = require "ponder.model.transport"

local OBJECT = { type = "object", required = { "a", "b" },
    properties = { a = { type = "number" }, b = { type = "number" } } }

local stopped

local POLICIES = assert(serve_policies.of("all", {
    add = { description = "adds", parameters = OBJECT, run = function(request)
        request:think "adding"
        request:progress(5, 10, "half")
        request:log("info", "a note")
        return { sum = request.arguments.a + request.arguments.b }
    end },
    echo = function(request) return request.prompt end,
    fails = function() return nil, "no luck", "X" end,
    raises = function() error "a secret" end,
    silent = function() end,
    hangs = function()
        stopped = false
        local _ <close> = setmetatable({}, { __close = function() stopped = true end })
        task.sleep(20)
    end,
}))

-- The messages that a server sends in reply, in order, as JSON has them; waits for all.
local function talk(messages, opts)
    local sent = {}
    task.run(function()
        local all = { policies = POLICIES, log = function(text) sent.logged = text end }
        merge(all, opts)
        local session = server.new(all):session(function(message)
            sent[#sent + 1] = json.decode(json.encode(message))
        end)
        for _, message in ipairs(messages) do
            session:receive(message)
            for _ = 1, 10 do
                task.sleep(0) -- a call gets as far as it can
            end
        end
        session:finish()
    end)
    return sent
end

local function request(id, method, params)
    return { jsonrpc = "2.0", id = id, method = method, params = params }
end

local function call(id, name, arguments, meta)
    return request(id, "tools/call", { name = name, arguments = arguments, _meta = meta })
end

describe("an MCP server", function()
    it("negotiates a version", function()
        for wanted, agreed in pairs { ["2025-06-18"] = "2025-06-18", ["2025-03-26"] = "2025-11-25",
            ["2030-01-01"] = "2025-11-25" } do
            local sent = talk { request(1, "initialize", { protocolVersion = wanted }) }
            assert.equal(agreed, sent[1].result.protocolVersion)
            assert.equal("ponder", sent[1].result.serverInfo.name)
        end
    end)

    it("lists tools in a fixed order, with schemas that are objects", function()
        local tools = talk({ request(1, "tools/list") })[1].result.tools
        for i, name in ipairs { "add", "echo", "fails", "hangs", "raises", "silent" } do
            assert.equal(name, tools[i].name)
        end
        assert.equal("adds", tools[1].description)
        assert.same({ "a", "b" }, tools[1].inputSchema.required)
        assert.equal("string", tools[2].inputSchema.properties.prompt.type)
        local empty = assert(serve_policies.of("e", { e = { run = function() end,
            parameters = { type = "object", properties = {} } } }))
        local text = json.encode(server.new({ policies = empty }).tools)
        assert.matches('"properties":{}', text)
    end)

    it("calls tools, with progress and log messages for clients that ask for them", function()
        local sent = talk { request(1, "logging/setLevel", { level = "debug" }),
            call(2, "add", { a = 1, b = 2 }, { progressToken = 7 }) }
        assert.equal("adding", sent[2].params.message)
        assert.same({ 7, 1 }, { sent[2].params.progressToken, sent[2].params.progress })
        assert.same({ 5, 10 }, { sent[3].params.progress, sent[3].params.total })
        assert.equal("a note", sent[4].params.data)
        assert.same({ sum = 3 }, sent[5].result.structuredContent)
        assert.equal('{"sum":3}', sent[5].result.content[1].text)
        sent = talk { call(1, "add", { a = 1, b = 2 }) }
        assert.equal(1, #sent)
        assert.equal("hi", talk({ call("x", "echo", { prompt = "hi" }) })[1].result.content[1].text)
    end)

    it("offers schemas and results that the protocol allows, whatever a policy has", function()
        local list = assert(serve_policies.of("all", {
            list = { run = function() return { 1, 2 } end, returns = { type = "array" } },
            odd = { run = function() return { f = print } end, annotations = { title = "Odd" } },
            wrong = { run = function() return { a = "x" } end,
                returns = { properties = { a = { type = "integer" } } } },
            schema = { run = function() end, parameters = { required = {}, properties = {
                required = { type = "boolean" }, properties = { type = "string" },
                nested = { type = "object", properties = {}, required = {} } } } },
        }))
        local sent = talk({ request(1, "tools/list"), call(2, "list", { prompt = "" }),
            call(3, "odd", { prompt = "" }), call(4, "wrong", { prompt = "" }) },
            { policies = list })
        local tools = sent[1].result.tools
        assert.is_nil(tools[1].outputSchema)
        assert.same({ openWorldHint = true, title = "Odd" }, tools[2].annotations)
        assert.equal('{"properties":{"nested":{"properties":{},"required":[],"type":"object"},'
            .. '"properties":{"type":"string"},"required":{"type":"boolean"}},"required":[],'
            .. '"type":"object"}', json.encode(tools[3].inputSchema))
        assert.equal("object", tools[4].outputSchema.type)
        assert.equal("[1,2]", sent[2].result.content[1].text)
        assert.is_nil(sent[2].result.structuredContent)
        assert.is_true(sent[3].result.isError)
        assert.is_true(sent[4].result.isError)
        assert.matches("must be the schema of an object", select(2, serve_policies.new("p",
            { run = print, parameters = { type = "array" } })))
        for _, field in ipairs { "parameters", "returns" } do
            assert.matches(field .. ": a %$ref leads back to itself", select(2,
                serve_policies.new("p", { run = print, [field] = { ["$ref"] = "#" } })))
        end
    end)

    it("lists a hundred tools at a time", function()
        for n, expected in pairs { [100] = { 100 }, [101] = { 100, 1 }, [201] = { 100, 100, 1 } } do
            local made, pages, cursor = {}, {}, nil
            for i = 1, n do made["t" .. i] = print end
            local one = server.new { policies = assert(serve_policies.of("all", made)) }
            task.run(function()
                repeat
                    local session = one:session(function(message)
                        pages[#pages + 1] = #message.result.tools
                        cursor = message.result.nextCursor
                    end)
                    session:receive(request(1, "tools/list", { cursor = cursor }))
                    session:finish()
                until not cursor
            end)
            assert.same(expected, pages)
        end
    end)

    it("distinguishes errors of the caller from failures of a tool", function()
        local function code(message) return talk({ message })[1].error.code end
        assert.equal(-32602, code(call(1, "nosuch")))
        assert.equal(-32601, code(request(1, "no/such")))
        assert.equal(-32600, code({ jsonrpc = "2.0", id = {}, method = "ping" }))
        assert.equal(-32600, code({ id = 1, method = "ping" }))
        assert.equal(-32602, code(request(1, "tools/list", { cursor = "zzz" })))
        local wrong = talk({ call(1, "add", { a = "x" }) })[1].result
        assert.is_true(wrong.isError)
        assert.matches("arguments.b is missing", wrong.content[1].text)
        for name, expected in pairs {
            fails = { "no luck (X)", "no luck" },
            raises = { "the server's log has the reason (ERROR)", "a secret" },
            silent = { "it returned nothing, and wrote nothing (BAD_ANSWER)", "it returned" },
        } do
            local failed = talk { call(1, name, { prompt = "" }) }
            assert.is_true(failed[1].result.isError)
            assert.equal(("the policy %s failed: %s"):format(name, expected[1]),
                failed[1].result.content[1].text)
            assert.matches("^" .. name .. ": [^\n]*" .. expected[2], failed.logged)
        end
    end)

    it("reports each node that a search has scored as progress, which may begin with 0", function()
        local list = assert(serve_policies.of("all", {
            s = function()
                search.run { initial_state = "a", max_depth = 1, k = 2,
                    expand = function(state) return { state .. "b", state .. "c" } end,
                    evaluate = function(state) return #state end,
                    is_terminal = function() return false end }
                return ""
            end,
            p = function(r)
                r:progress(0, 2)
                r:think "on"
                r:progress(1, 2)
                r:progress(2, 2)
                return ""
            end }))
        for name, case in pairs { s = { "message", { "1.00  a", "2.00  ab", "2.00  ac" } },
            p = { "progress", { 0, 1, 2 } } } do
            local said = {}
            for _, message in ipairs(talk({ call(1, name, { prompt = "" },
                { progressToken = "t" }) }, { policies = list })) do
                said[#said + 1] = message.params and message.params[case[1]]
            end
            assert.same(case[2], said)
        end
    end)

    it("cancels a call, and sends nothing more about it", function()
        stopped = false
        local sent = talk { call(1, "hangs", { prompt = "" }),
            { jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = 1 } },
            request(2, "ping") }
        assert.is_true(stopped)
        assert.equal(1, #sent)
        assert.equal(2, sent[1].id)
    end)

    it("refuses an id that is in use", function()
        stopped = false
        local sent = talk { call(1, "hangs", { prompt = "" }), request(1, "ping"),
            { jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = 1 } } }
        assert.is_true(stopped)
        assert.equal(1, #sent)
        assert.equal(-32600, sent[1].error.code)
    end)

    it("uses version 2026-07-28 without initialize", function()
        local meta = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
            ["io.modelcontextprotocol/clientCapabilities"] = {} }
        local sent = talk { request(1, "server/discover", { _meta = meta }) }
        assert.equal("complete", sent[1].result.resultType)
        assert.same({ "2026-07-28" }, sent[1].result.supportedVersions)
        assert.equal("ponder",
            sent[1].result._meta["io.modelcontextprotocol/serverInfo"].name)
        sent = talk { call(1, "add", { a = 1, b = 2 }, meta) }
        assert.equal("complete", sent[#sent].result.resultType)
        assert.equal(-32601, talk({ request(1, "ping", { _meta = meta }) })[1].error.code)
        meta["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        local err = talk({ request(1, "tools/list", { _meta = meta }) })[1].error
        assert.equal(-32022, err.code)
        assert.equal("2099-01-01", err.data.requested)
        meta = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28" }
        assert.equal(-32602, talk({ request(1, "tools/list", { _meta = meta }) })[1].error.code)
    end)

    it("refuses a batch, which no version has any more", function()
        assert.equal(-32600, talk({ { request(2, "ping"), request(3, "ping") } })[1].error.code)
    end)
end)

describe("what an MCP server offers besides tools", function()
    local prompts = require("ponder.serve.mcp.prompts").catalog

    it("are all prompts of prompts/, which render with only the question", function()
        local names = {}
        for i, one in ipairs(prompts.list()) do
            names[i] = one.name
            local arguments, texts = {}, {}
            for k, argument in ipairs(one.arguments) do
                arguments[argument.name] = ("first %d\nsecond %d"):format(k, k)
            end
            for k, message in ipairs(assert(prompts.get(one.name, arguments)).messages) do
                texts[k] = message.content.text
                assert.matches("^[ua]s", message.role)
            end
            local text = table.concat(texts, "\n")
            for k in ipairs(one.arguments) do
                assert.is_truthy(text:find("second " .. k, 1, true), one.name)
            end
            assert.is_nil(text:find "[Rr]oof", one.name) -- of the samples
        end
        assert.equal("cot.generate ensemble.compare ensemble.debate ensemble.judge got.aggregate "
            .. "got.connect got.generate got.refine got.score got.vote tot.evaluate tot.generate "
            .. "tot.repair trm.improve trm.reason trm.supervise", table.concat(names, " "))
        assert.same({ nil, "the argument prompt is missing" }, { prompts.get("cot.generate", {}) })
        assert.same({ nil, "the argument prompt must be a string" },
            { prompts.get("cot.generate", { prompt = 1 }) })
        assert.is_nil((prompts.get("cot.nosuch", {})))
    end)

    it("is listed and read, with the errors of the protocol", function()
        local catalog = { list = function() return { { name = "x", uri = "u:x" } } end,
            templates = { { uriTemplate = "u:{n}" } }, get = function(name)
                if name == "u:x" or name == "x" then return { got = name } end
                return nil, name == "u:bad" and "it is broken" or nil
            end }
        local messages, kept = {}, { "server/discover", "tools/list", "prompts/list",
            "resources/list", "resources/templates/list", "resources/read" }
        for i, one in ipairs { { "prompts/list" }, { "prompts/get", { name = "x" } },
            { "prompts/get", { name = "y" } }, { "resources/list" },
            { "resources/read", { uri = "u:x" } }, { "resources/read", { uri = "u:y" } },
            { "resources/read", { uri = "u:bad" } }, { "resources/templates/list" },
            { "initialize", {} } } do
            messages[i] = request(i, one[1], one[2])
        end
        for i, method in ipairs(kept) do -- what clients of 2026-07-28 may keep
            messages[9 + i] = request(9 + i, method, { uri = method == "resources/read" and "u:x"
                or nil, _meta = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
                ["io.modelcontextprotocol/clientCapabilities"] = {} } })
        end
        local sent = talk(messages, { prompts = catalog, resources = catalog })
        for i, method in ipairs(kept) do
            local result = sent[9 + i].result
            assert.same({ 0, "private" }, { result.ttlMs, result.cacheScope }, method)
        end
        local function result(i) return sent[i].result or sent[i].error.code end
        assert.equal("x", result(1).prompts[1].name)
        assert.same({ got = "x" }, result(2))
        assert.equal(-32602, result(3))
        assert.equal("u:x", result(4).resources[1].uri)
        assert.same({ got = "u:x" }, result(5))
        assert.equal(-32002, result(6))
        assert.same({ -32603, "it is broken" }, { result(7), sent[7].error.message })
        assert.equal("u:{n}", result(8).resourceTemplates[1].uriTemplate)
        assert.same({}, result(9).capabilities.prompts)
        assert.same({}, result(9).capabilities.resources)
    end)

    it("are the runs of the log of ponder mcp", function()
        local dir <close> = shell.directory { ["p.lua"] = "return function(r) return r.prompt end" }
        task.run(function()
            local session <close> = assert(client.open { cwd = dir.path, command = {
                shell.executable, "mcp", "--log", "r.db", "p.lua" } })
            assert.equal("hello", session:call("p", { prompt = "hello" }).text)
            local list = assert(session.client:request("resources/list", {})).resources
            assert.same({ "ponder://runs/2", "ponder://runs/1" }, { list[1].uri, list[2].uri })
            assert.same({ "p: hello", "completed" }, { list[1].title, list[1].description })
            local read = assert(session.client:request("resources/read", { uri = list[1].uri }))
            local text = read.contents[1].text
            assert.equal("hello", json.decode(text).run.answer.answer)
            local _, message, code, rpc = session.client:request("resources/read",
                { uri = "ponder://runs/9" })
            assert.same({ "SERVER", -32002 }, { code, rpc })
            assert.matches("Resource not found", message)
            local found = session.client:request("prompts/get", { name = "cot.generate",
                arguments = { prompt = "Why?" } })
            assert.matches("Why%?", found.messages[2].content.text)
        end)
    end)

    it("are content parts made by a policy", function()
        local own = assert(serve_policies.of("own", { own = function()
            return { content = { { type = "image", data = "", mimeType = "image/png" } } }
        end, other = function() return { content = { 1 } } end }))
        local sent = {}
        for _, message in ipairs(talk({ call(1, "own", { prompt = "" }),
            call(2, "other", { prompt = "" }) }, { policies = own })) do
            sent[message.id] = message.result
        end
        assert.equal("image/png", sent[1].content[1].mimeType)
        assert.is_nil(sent[1].structuredContent)
        assert.same({ content = { 1 } }, sent[2].structuredContent)
    end)
end)

describe("ponder mcp", function()
    it("writes only JSON on standard output, and ends with its input", function()
        local dir <close> = shell.directory { ["p.lua"] = [[
            print "loading"
            os.execute "echo a program"
            return { run = function(r)
                print "x" io.write "y" io.stdout:write "z"
                return r.prompt
            end }]] }
        local r = dir:ponder({ "mcp", "p.lua" }, { input = json.encode(
            call(1, "p", { prompt = "hello" })) .. "\nnonsense\n" })
        assert.equal(0, r.status)
        local answers = {}
        for line in r.out:gmatch "[^\n]+" do
            local message = json.decode(line)
            answers[message.id == json.null and "junk" or message.id] = message
        end
        assert.equal("hello", answers[1].result.content[1].text)
        assert.equal(-32700, answers.junk.error.code)
        assert.matches("loading", r.err)
        assert.matches("a program\nx\nyz", r.err)
    end)

    it("reads lines of megabytes, and skips those that are too long", function()
        local long = ("x"):rep(3 << 20)
        local dir <close> = shell.directory { ["p.lua"] = "return function(r) return r.prompt end" }
        local r = dir:ponder({ "mcp", "p.lua" }, { input = table.concat({
            json.encode(call(1, "p", { prompt = long })), ("y"):rep(17 << 20),
            json.encode(request(2, "ping")) }, "\n") .. "\n" })
        local answers = {}
        for line in r.out:gmatch "[^\n]+" do
            answers[#answers + 1] = json.decode(line)
        end
        table.sort(answers, function(a, b) return tostring(a.id) < tostring(b.id) end)
        assert.equal(3, #answers)
        assert.is_true(answers[1].result.content[1].text == long)
        assert.same({ -32700, "Parse error: the line is too long" },
            { answers[3].error.code, answers[3].error.message })
    end)

    it("reports errors in its arguments", function()
        assert.matches("expected a policy", shell.ponder({ "mcp" }).err)
        assert.equal(2, shell.ponder({ "mcp", "nosuch.lua" }).status)
        local dir <close> = shell.directory { ["p.lua"] =
            "return { ['a b'] = print, a_b = print }" }
        local alike = shell.ponder({ "mcp", dir.path .. "/p.lua" })
        assert.equal(2, alike.status)
        assert.matches("^ponder mcp: the policies a b and a_b would", alike.err)
    end)
end)

describe("/mcp of a server", function()
    local META = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
        ["io.modelcontextprotocol/clientCapabilities"] = json.object {} }

    local function headers_of(method, name)
        return { ["mcp-protocol-version"] = "2026-07-28", ["mcp-method"] = method,
            ["mcp-name"] = name }
    end

    local function with_server(f, opts)
        task.run(function()
            opts = opts or {}
            opts.policies, opts.listen = opts.policies or POLICIES, "127.0.0.1:0"
            opts.log = function() end
            local web = serve.new(opts)
            local address = assert(web:start())
            local net = transport.new()
            f(function(body, headers, method)
                local all = { ["content-type"] = "application/json",
                    accept = "application/json, text/event-stream" }
                for name, value in pairs(headers or {}) do all[name] = value or nil end
                local result = net:send { url = "http://" .. address .. "/mcp", proxy = "",
                    method = method or "POST", headers = all, timeout_ms = 20000,
                    body = body and json.encode(body) or nil }
                local text = result.body or ""
                return result, json.decode(text:match "data: (%b{})\n\n$" or text), text
            end, web, address)
            net:close()
            web:drain()
            web:wait()
        end)
    end

    it("gives sessions to clients that initialize", function()
        with_server(function(post)
            local result, body = post(request(1, "initialize", { protocolVersion = "2025-06-18" }))
            assert.equal(200, result.status)
            assert.equal("2025-06-18", body.result.protocolVersion)
            local session = { ["mcp-session-id"] = result.headers["mcp-session-id"],
                ["mcp-protocol-version"] = "2025-06-18" }
            assert.equal(202, post({ jsonrpc = "2.0", method = "notifications/initialized" },
                session).status)
            local text
            result, body, text = post(call(2, "add", { a = 1, b = 2 }, { progressToken = "t" }),
                session)
            assert.equal("text/event-stream", result.headers["content-type"])
            assert.matches("notifications/progress", text)
            assert.same({ sum = 3 }, body.result.structuredContent)
            assert.equal(400, post(request(3, "tools/list")).status)
            assert.equal(404, post(request(3, "tools/list"),
                { ["mcp-session-id"] = "nosuch" }).status)
            assert.equal(400, post(request(3, "tools/list"),
                { ["mcp-protocol-version"] = "1999-01-01" }).status)
            assert.equal(405, post(nil, session, "GET").status)
            assert.equal(200, post(nil, session, "DELETE").status)
            assert.equal(404, post(request(4, "ping"), session).status)
            assert.equal(403, post(request(4, "ping"), { origin = "https://evil.example" }).status)
        end)
    end)

    it("lets a client cancel a call while it drains, but begin nothing", function()
        with_server(function(post, web)
            local result = post(request(1, "initialize", { protocolVersion = "2025-06-18" }))
            local session = { ["mcp-session-id"] = result.headers["mcp-session-id"] }
            stopped = nil
            local hanging = task.spawn(post, call(2, "hangs", { prompt = "" }), session)
            while stopped == nil do
                task.sleep(0.01)
            end
            post(request(3, "ping"), session) -- on a connection that stays open
            web:drain()
            assert.equal(503, post(request(3, "ping"), session).status)
            assert.equal(202, post({ jsonrpc = "2.0", method = "notifications/cancelled",
                params = { requestId = 2 } }, session).status)
            hanging:join()
            assert.is_true(stopped)
        end)
    end)

    it("calls tools within the limits of the server", function()
        local function begin(post)
            local result = post(request(1, "initialize", { protocolVersion = "2025-06-18" }))
            return { ["mcp-session-id"] = result.headers["mcp-session-id"] }
        end
        with_server(function(post)
            local session = begin(post)
            stopped = nil
            local first = task.spawn(post, call(2, "hangs", { prompt = "" }), session)
            while stopped == nil do
                task.sleep(0.01)
            end
            assert.equal(429, post(call(3, "echo", { prompt = "hi" }), session).status)
            assert.equal(200, post(request(4, "ping"), session).status) -- it costs nothing
            first:cancel()
        end, { concurrency = 1, max_queue = 0 })
        local paid = { paid = function()
            return require("ponder.model").open("openai:nobody-knows", { api_key = "none",
                base_url = "http://127.0.0.1:1/v1", max_retries = 0 }):complete "?"
        end }
        for _, limit in ipairs { false, 1 } do
            with_server(function(post)
                local _, body = post(call(2, "paid", { prompt = "" }), begin(post))
                local text = body.result.content[1].text
                assert.equal(limit and 1 or nil, text:find "NO_PRICE" and 1)
            end, { policies = paid, max_cost = limit or nil })
        end
    end)

    it("counts what calls cost, by policy", function()
        local dir <close> = shell.directory { ["m.lua"] = [[
            return function() return { text = "x", usage = { input_tokens = 3,
                output_tokens = 2 } } end]] }
        local m = models.open("script:" .. dir.path .. "/m.lua")
        with_server(function(post, _, address)
            post(call(2, "ask", { prompt = "" }, META), headers_of("tools/call", "ask"))
            post(call(3, "fails", { prompt = "" }, META), headers_of("tools/call", "fails"))
            local text = transport.new():send { url = "http://" .. address .. "/metrics",
                proxy = "" }.body
            assert.matches('ponder_tokens_total{policy="ask",kind="input"} 3\n', text)
            assert.matches('ponder_requests_total{policy="ask",status="200"} 1\n', text)
            assert.matches('ponder_errors_total{code="x"} 1\n', text)
        end, { policies = { ask = function() return (m:complete "?") end,
            fails = function() return nil, "no luck", "X" end } })
    end)

    it("accepts requests of 2026-07-28 whose headers match the body", function()
        local meta, headers = META, headers_of
        with_server(function(post)
            local result, body = post(call(1, "echo", { prompt = "hi" }, meta),
                headers("tools/call", "=?base64?ZWNobw==?="))
            assert.equal(200, result.status)
            assert.equal("hi", body.result.content[1].text)
            result, body = post(call(1, "echo", { prompt = "hi" }, meta),
                headers("tools/call", "add"))
            assert.same({ 400, -32020 }, { result.status, body.error.code })
            result, body = post(request(1, "ping", { _meta = meta }), headers "ping")
            assert.same({ 404, -32601 }, { result.status, body.error.code })
            local list = request(1, "tools/list", { _meta = meta })
            for _, wrong in ipairs { { false, "tools/list" }, { "2025-11-25", "tools/list" },
                { "2026-07-28", false } } do
                result, body = post(list, { ["mcp-protocol-version"] = wrong[1],
                    ["mcp-method"] = wrong[2] })
                assert.same({ 400, -32020 }, { result.status, body.error.code })
            end
            result, body = post(request(1, "tools/list"), headers "tools/list")
            assert.same({ 400, -32602 }, { result.status, body.error.code })
            result, body = post(request(1, "prompts/get", { name = "a", _meta = meta }),
                headers("prompts/get", "b"))
            assert.same({ 400, -32020 }, { result.status, body.error.code })
            assert.equal(202, post({ jsonrpc = "2.0", method = "notifications/x" },
                { ["mcp-protocol-version"] = "2026-07-28" }).status)
            result = post(nil, headers(), "DELETE")
            assert.same({ 405, "POST" }, { result.status, result.headers.allow })
        end)
    end)
end)
