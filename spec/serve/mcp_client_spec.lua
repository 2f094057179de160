-- ponder.mcp: a client of the Model Context Protocol, over standard input and output and over HTTP.

local client = require "ponder.serve.mcp.client"
local http = require "ponder.core.http"
local json = require "ponder.json"
local mcp = require "ponder.mcp"
local serve = require "ponder.serve"
local serve_policies = require "ponder.serve.http.policies"
local shell = require "shell"
local task = require "ponder.task"
local task_help = require "task_help"
local within = require "within"

local raises = task_help.raises
local FAKE = shell.root .. "/spec/support/mcp_server.lua"
local OPEN_MS = 20000

local dir

-- What a server of spec/support/mcp_server.lua was sent, decoded.
local function received()
    local list = {}
    for line in io.lines(dir.path .. "/received") do
        list[#list + 1] = json.decode(line)
    end
    return list
end

local function received_of(method)
    for _, message in ipairs(received()) do
        if message.method == method then
            return message
        end
    end
end

local function wait_until(f)
    for _ = 1, 500 do
        local value = f()
        if value then
            return value
        end
        task.sleep(0.02)
    end
    error "it did not come"
end

local function fake(mode, opts)
    opts = opts or {}
    opts.command = { shell.executable, "--no-log", FAKE, mode, dir.path .. "/received" }
    opts.timeout_ms = opts.timeout_ms or OPEN_MS
    opts.log = opts.log or function() end
    return mcp.open(opts)
end

-- Running child processes of this one.
local function children()
    local pipe <close> = assert(io.popen "ps -o pid=,ppid=,stat=,args= -A")
    local mine = {}
    for line in pipe:lines() do
        if line:find("mcp_server.lua", 1, true) and line:find(dir.path, 1, true)
            and not line:find "^%s*%d+%s+%d+%s+Z" then
            mine[#mine + 1] = line
        end
    end
    return #mine
end

local function gone()
    return wait_until(function() return children() == 0 end)
end

before_each(function() dir = shell.directory { received = "" } end)
after_each(function() dir:__close() end)

local function with(mode, f, opts)
    return task.run(function()
        local session <close> = assert(fake(mode, opts))
        return f(session)
    end)
end
local in_session, in_task = within(with), within(task.run)

describe("a session with a server that is a child process", function()
    it("has the server's name and tools, and calls them", function()
        with("plain", function(session)
            assert.same({ name = "fake", version = "1" }, session.server)
            assert.equal("be kind", session.instructions)
            local tools = assert(session:tools())
            assert.equal("d1", tools[1].description)
            assert.equal("object", tools[1].parameters.type)
            local result = assert(session:call("get.it", { a = 1 }))
            assert.equal('3 get.it {"a":1}', result.text)
            assert.equal("text", result.content[1].type)
            assert.equal('4 get.it {}', tools[1].run {})
        end)
        assert.equal("2025-11-25", received_of("initialize").params.protocolVersion)
        assert.is_truthy(received_of "notifications/initialized")
    end)

    it("gives tools unique names that models accept", in_session("plain", function(session)
        local tools = session:tools { { name = "get_it" } }
        assert.same({ "fake_get_it", "fake_get_it_2", ("x"):rep(64), "fails" },
            { tools[1].name, tools[2].name, tools[3].name, tools[4].name })
        local calls = tools[2].run {}
        assert.matches("get_it", calls)
    end))

    it("reports a failed tool, and does not retry it", in_session("plain", function(session)
        local result, message, code, partial = session:call "fails"
        assert.same({ nil, "fails: no luck", "TOOL_FAILED" }, { result, message, code })
        assert.equal("no luck", partial.text)
        local tools = session:tools()
        assert.is_false(tools[4].retry)
        assert.same({ nil, "fails: no luck" }, { tools[4].run {} })
    end))

    it("makes text for models of every kind of content", function()
        with("parts", function(session)
            assert.equal("[an image, image/png]\ninside\n[the resource c://d: there]",
                session:call("x").text)
        end)
        with("structured", function(session)
            local result = session:call "x"
            assert.equal('{"n":1}', result.text)
            assert.equal(1, result.structured.n)
        end)
    end)

    it("skips lines of its standard output that are not messages", function()
        local logged = {}
        with("chatty", function(session)
            assert.equal("3 get.it {}", (session:tools() and session:call "get.it").text)
        end, { log = function(level, text) logged[#logged + 1] = level .. " " .. text end })
        assert.same({ "info Server is listening", 'info {"level":30,"msg":"ready"}',
            "info [warn] \u{FFFD}" }, logged)
    end)

    it("has a list as content, and what the tool's outputSchema demands", function()
        local tool = '{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object",'
            .. '"properties":{"n":{"type":"number"}},"required":["n"]}}'
        local broken = "^.*: the result of t is broken: "
        for result, outcome in pairs {
            ['{"structuredContent":{"n":1.5}}'] = '{"n":1.5}',
            ['{"structuredContent":{"n":1},"content":null}'] = '{"n":1}',
            ['{"isError":true}'] = "^t: $",
            ["{}"] = broken .. "structuredContent is missing, which its outputSchema demands$",
            ['{"structuredContent":{"n":"x"},"content":[]}'] = broken
                .. "structuredContent.n must be number %(got string%)$",
            ['{"structuredContent":[1]}'] = broken
                .. "structuredContent must be object %(got array%)$",
            ['{"content":{"type":"text"},"structuredContent":{"n":1}}'] = broken
                .. "content is not a list$",
            ['{"content":"x","structuredContent":{"n":1}}'] = broken .. "content is not a list$",
        } do
            with("tool " .. tool .. " " .. result, function(session)
                assert(session:tools())
                local got, message, code, partial = session:call "t"
                if outcome:sub(1, 1) == "^" then
                    assert.matches(outcome, message)
                    assert.equal(partial and "TOOL_FAILED" or "BAD_REPLY", code)
                else
                    assert.equal(outcome, got.text)
                end
                assert.same({}, (got or partial or { content = {} }).content)
            end)
        end
    end)

    it("reports progress in order, and before the answer", in_session("progress", function(session)
        local steps = {}
        session:call("x", {}, { on_progress = function(done, total, message)
            task.sleep(0) -- it may wait
            steps[#steps + 1] = { done, total, message }
        end })
        assert.same({ { 1, 3, "step1" }, { 2, 3, "step2" }, { 3, 3, "step3" } }, steps)
    end))

    it("keeps the latest of much progress", function()
        local receive
        local connection = { label = "fake", send = function() end, notify = function() end }
        function connection.exchange(_, message, call)
            local params = message.params
            for i = 1, params._meta and 5000 or 0 do
                receive { jsonrpc = "2.0", method = "notifications/progress",
                    params = { progressToken = call.id, progress = i } }
            end
            call:deliver()
            call.reply = { result = { protocolVersion = "2025-11-25" } }
            return true
        end
        task.run(function()
            local made = assert(client.connect(function(its)
                receive = its
                return connection
            end, { timeout_ms = OPEN_MS }))
            local steps = {}
            made:call_tool("x", {}, { on_progress = function(done) steps[#steps + 1] = done end })
            assert.same({ 1000, 1, 5000 }, { #steps, steps[1], steps[1000] })
        end)
    end)

    it("takes the first answer, and progress in numbers only",
        in_session("odd progress", function(session)
            local steps = {}
            assert.equal("first", session:call("x", {}, { on_progress = function(...)
                steps[#steps + 1] = table.pack(...)
            end }).text)
            assert.same({ { 1, n = 3 } }, steps)
        end))

    it("answers pings, refuses other requests, notices changed tools and log messages",
        function()
            local logged = {}
            with("asks", function(session)
                assert(session:tools())
                session:call "x"
                assert.is_true(session.tools_changed)
                session:tools()
                assert.is_false(session.tools_changed)
                wait_until(function() return #received() == 7 end)
            end, { log = function(level, text) logged[#logged + 1] = level .. " " .. text end })
            local answers = {}
            for _, message in ipairs(received()) do
                if not message.method then
                    answers[message.id] = message.result or message.error.code
                end
            end
            assert.same({ p = {}, [7] = -32601 }, answers)
            assert.same({ "error watch\27out", "debug hidden" }, logged)
        end)

    it("answers pings even while no call waits for the server", in_task(function()
        local path = dir.path .. "/answer"
        local session <close> = assert(mcp.open { command = { "sh", "-c", [[
            read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18",
            "capabilities":{}}}' | tr -d '\n'; echo; read l; sleep 0.1
            echo '{"jsonrpc":"2.0","id":"idle","method":"ping"}'
            read l; echo "$l" >]] .. path .. "; read l" } })
        wait_until(function()
            local file <close> = io.open(path)
            return file and (file:read "a"):find '"id":"idle"'
        end)
        assert.same({}, session:tools()) -- it offers none, and is not asked
    end))

    it("cancels at the server calls that are cancelled or time out",
        in_session("hangs", function(session)
            local one = task.spawn(session.call, session, "x")
            wait_until(function() return received_of "tools/call" end)
            one:cancel()
            local cancelled = wait_until(function()
                return received_of "notifications/cancelled"
            end)
            assert.equal(received_of("tools/call").id, cancelled.params.requestId)
            local result, message, code = session:call("x", {}, { timeout_ms = 20 })
            assert.same({ nil, "TIMEOUT" }, { result, code })
            assert.matches("no answer to tools/call within timeout_ms %(20%)", message)
            wait_until(function() return #received() == 6 end)
        end))

    it("uses 2026-07-28 with a server without initialize", function()
        with("modern", function(session)
            assert.equal("modern", session.server.name)
            assert.is_truthy(session:call("x"))
        end)
        local meta = received_of("tools/call").params._meta
        assert.equal("2026-07-28", meta["io.modelcontextprotocol/protocolVersion"])
        assert.same({}, meta["io.modelcontextprotocol/clientCapabilities"])
        assert.is_nil(received_of "notifications/initialized")
    end)

    it("ends the server with the session, even a stubborn one", function()
        with("plain", function(session)
            session:close()
            assert.equal(0, children())
            assert.same({ nil, "CLOSED" }, { session:call("x"), (select(3, session:call "x")) })
        end)
        with("stubborn", function() end)
        assert.equal(0, children())
    end)

    it("ends the server with the task that opened it", in_task(function()
        local t = task.spawn(function()
            local session = assert(fake "hangs")
            session:call "x"
        end)
        wait_until(function() return received_of "tools/call" end)
        t:cancel()
        gone()
    end))
end)

describe("a server that fails", function()
    local function failure(mode, opts, act)
        return task.run(function()
            local session, message, code = fake(mode, opts)
            local result
            if session and act then
                result, message, code = act(session)
                assert.is_nil(result)
                session:close()
            end
            gone()
            return code, message
        end)
    end
    local function call(session) return session:call "x" end
    local function tools(session) return session:tools() end

    it("is named in the error", function()
        for mode, case in pairs {
            dies = { "LOST", "the server ended with status 3: out of luck$", call },
            terse = { "SERVER", "an error without a message %(tools/call, 5%)$", call },
            broken = { "BAD_REPLY", "its standard output is not JSON%-RPC: {\"jsonrpc\":$" },
            many = { "TOO_LARGE", "more than max_tools %(1000%) tools", tools },
            endless = { "TOO_LARGE", "too many pages", tools, { max_tools = 20 } },
            future = { "UNSUPPORTED", "2099%-01%-01" },
            long = { "TOO_LARGE", "" },
            infinite = { "BAD_REPLY", "not JSON%-RPC: .*1e999", call },
        } do
            local code, message = failure(mode, case[4], case[3])
            assert.equal(case[1], code, mode)
            assert.matches(case[2], message)
        end
        for tool, mistake in pairs {
            ['{"name":"t"}'] = "the tool t is broken: inputSchema must be a schema of type object$",
            ['{"name":"t","inputSchema":{"type":"objekt"}}'] = "must be a schema of type object$",
            ['{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"txt"}}}}']
                = "broken: inputSchema: properties.a: type must be .*%(got \"txt\"%)",
            ['{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"$ref":"#/a"}}']
                = "broken: outputSchema: unknown %$ref \"#/a\"$",
            ['{"name":"t","inputSchema":{"type":"object"},"outputSchema":[]}']
                = "outputSchema: a schema must be an object or a boolean %(got a list%)$",
        } do
            local code, message = failure("tool " .. tool, nil, tools)
            assert.equal("BAD_REPLY", code)
            assert.matches(mistake, message)
        end
    end)

    it("fails at once if there is nothing to wait for", in_task(function()
        local function open(command)
            local _, message, code = mcp.open { command = command, shell = true }
            return code, message
        end
        assert.equal("LOST", (open "exit 3"))
        local _, _, code = mcp.open { command = { "no-such-program-here" } }
        assert.equal("NOT_FOUND", code)
        local message
        _, message, code = mcp.open { command = "echo Hello; sleep 60", shell = true,
            timeout_ms = 500 }
        assert.equal("TIMEOUT", code)
        assert.matches("no answer to initialize .*; its output is not JSON%-RPC: Hello$",
            message)
        code, message = open "echo No config; exit 4"
        assert.equal("LOST", code)
        assert.matches("ended with status 4: No config$", message)
    end))

    it("fails all waiting and later calls", in_session("dies", function(session)
        local results, errors = task.map({ 1, 2, 3 }, function() return session:call "x" end)
        for i = 1, 3 do
            assert.is_nil(results[i])
            assert.equal("LOST", errors[i].code)
        end
        assert.equal("LOST", (select(3, session:call "x")))
    end))
end)

describe("mcp.open", function()
    it("reports errors in its options", function()
        for message, opts in pairs {
            ["command must be a table or a string"] = {},
            ["command must be a list"] = { command = "x" },
            ["unknown option \"command\""] = { url = "http://x", command = { "x" } },
            ["headers must map names"] = { url = "http://x", headers = { a = "b\nc" } },
        } do
            raises("^spec/serve/mcp_client_spec.lua:%d+: mcp.open: .*" .. message,
                function() mcp.open(opts) end)
        end
    end)
end)

-------------------------------------------------------------------------------
-- HTTP

local POLICIES = assert(serve_policies.of("all", {
    add = { parameters = { type = "object", required = { "a", "b" }, properties = {
        a = { type = "number" }, b = { type = "number" } } },
        run = function(request)
            request:progress(1, 2, "half")
            return { sum = request.arguments.a + request.arguments.b }
        end },
    hangs = function() task.sleep(30) end,
}))

-- Answers requests over HTTP with the status, headers and body that `answer` returns.
local function with_answers(answer, f)
    task.run(function()
        local server, address = http.listen { address = "127.0.0.1:0" }
        local requests = {}
        local source = task.add_source { port = server:port(), pending = function() return true end,
            take = function()
                local r = server:take()
                while r do
                    r.message = r.body ~= "" and json.decode(r.body) or nil
                    requests[#requests + 1] = r
                    local status, headers, body = answer(r, #requests)
                    if status then
                        server:respond(r.id, status, headers or {}, type(body) == "table"
                            and json.encode(body) or body or "")
                    end
                    r = server:take()
                end
            end }
        local ok, problem = pcall(f, "http://" .. address .. "/mcp", requests)
        task.remove_source(source)
        server:close()
        assert(ok, problem)
    end)
end

local JSON = { "Content-Type", "application/json" }

local function reply(r, result)
    return 200, JSON, { jsonrpc = "2.0", id = r.message.id, result = result }
end

local function initialized(r, headers)
    local _, _, body = reply(r, { protocolVersion = "2025-06-18", serverInfo = { name = "web" },
        capabilities = { tools = json.object {} } })
    return 200, headers or JSON, body
end

local TEXT = { content = { { type = "text", text = "ok" } } }

-- The same, for a client that has been told the version: without what opens and ends a session.
local function with_calls(answer, f)
    with_answers(function(r)
        if r.message and r.message.method == "initialize" then
            return initialized(r)
        elseif r.method == "DELETE" or r.message and not r.message.id then
            return 202
        end
        return answer(r)
    end, f)
end

describe("a session with a server over HTTP", function()
    it("works with ponder serve: sessions, progress, cancellation", in_task(function()
        local server = serve.new { policies = POLICIES, listen = "127.0.0.1:0",
            log = function() end }
        local address = assert(server:start())
        do
            local session <close> = assert(mcp.open { url = "http://" .. address .. "/mcp" })
            local tools, steps = session:tools(), {}
            assert.same({ "add", "hangs" }, { tools[1].name, tools[2].name })
            local result = assert(session:call("add", { a = 1, b = 2 }, {
                on_progress = function(...) steps[#steps + 1] = { ... } end }))
            assert.equal(3, result.structured.sum)
            assert.same({ { 1, 2, "half" } }, steps)
            assert.equal("TIMEOUT", (select(3, session:call("hangs", { prompt = "" },
                { timeout_ms = 50 }))))
        end
        server:drain()
        assert.is_true(server:wait())
    end))

    it("keeps the session and the version in headers, and ends it with DELETE", function()
        with_answers(function(r, n)
            if n == 1 then
                return initialized(r, { "Content-Type", "application/json", "Mcp-Session-Id",
                    "s1" })
            elseif r.method == "DELETE" then
                return 200
            elseif not r.message.id then
                return 202
            end
            return 200, { "Content-Type", "text/event-stream" }, (": hi\n\nid: 1\ndata:\n\n"
                .. "event: message\ndata: %s\n\n"):format(json.encode { jsonrpc = "2.0",
                id = r.message.id, result = TEXT })
        end, function(url, requests)
            local session = assert(mcp.open { url = url, headers = { ["X-Mine"] = "yes" } })
            assert.equal("ok", session:call("x").text)
            session:close()
            assert.equal("DELETE", requests[4].method)
            assert.is_nil(requests[1].headers["mcp-session-id"])
            for i = 2, 4 do
                assert.equal("s1", requests[i].headers["mcp-session-id"])
                assert.equal("2025-06-18", requests[i].headers["mcp-protocol-version"])
                assert.equal("yes", requests[i].headers["x-mine"])
            end
        end)
    end)

    it("fetches the rest of an answer whose stream ended after an id", function()
        local SSE, asked = { "Content-Type", "text/event-stream" }, nil
        with_calls(function(r)
            if not r.message then
                local step = r.headers["last-event-id"]
                local answer = json.encode { jsonrpc = "2.0", id = asked, result = TEXT }
                return 200, SSE, step == "1" and "id: 2\nretry: 1\ndata:\n\nid: 3\n"
                    or step == "2" and "id: 4\ndata: " .. answer .. "\n\n" or "data: lost\n\n"
            end
            asked = r.message.id
            return 200, SSE, r.message.params.name == "never" and "retry: 1\ndata:\n\n"
                or "retry: 2\nid: 1\ndata:\n\n"
        end, function(url, requests)
            local session <close> = assert(mcp.open { url = url })
            assert.equal("ok", session:call("x").text)
            assert.same({ "GET", "1", "text/event-stream" }, { requests[4].method,
                requests[4].headers["last-event-id"], requests[4].headers.accept })
            assert.equal("2025-06-18", requests[5].headers["mcp-protocol-version"])
            assert.equal("BAD_REPLY", (select(3, session:call("never"))))
        end)
    end)

    it("answers no more than 100 requests of the server during a call", function()
        local answers = 0
        with_calls(function(r)
            if not r.message.method then
                answers = answers + 1
                return 202
            end
            local ping = 'data: {"id":"p","jsonrpc":"2.0","method":"ping"}\n\n'
            return 200, { "Content-Type", "text/event-stream" },
                ping:rep(r.message.params.name == "busy" and 300 or 0) .. "data: "
                    .. json.encode { jsonrpc = "2.0", id = r.message.id, result = TEXT } .. "\n\n"
        end, function(url)
            local session <close> = assert(mcp.open { url = url })
            assert.equal("ok", session:call("busy").text)
            wait_until(function() return answers >= 100 end)
            assert.equal("ok", session:call("x").text) -- sent after the answers
            assert.equal(100, answers)
        end)
    end)

    it("begins a new session if the server has forgotten it", function()
        local begun = 0
        with_answers(function(r)
            if r.method == "DELETE" or not r.message.id then
                return 202
            elseif r.message.method == "initialize" then
                begun = begun + 1
                return initialized(r, { "Content-Type", "application/json", "Mcp-Session-Id",
                    "s" .. begun })
            elseif r.headers["mcp-session-id"] == "s1" then
                return 404, JSON, { jsonrpc = "2.0", id = json.null,
                    error = { code = -32600, message = "Session not found" } }
            end
            return reply(r, TEXT)
        end, function(url)
            local session <close> = assert(mcp.open { url = url })
            assert.equal("ok", session:call("x").text)
            assert.equal(2, begun)
        end)
    end)

    it("uses 2026-07-28 if there is no initialize", function()
        with_answers(function(r)
            if r.message.method == "initialize" then
                return 404, JSON, { jsonrpc = "2.0", id = r.message.id,
                    error = { code = -32601, message = "Method not found" } }
            elseif r.message.method == "server/discover" then
                return reply(r, { resultType = "complete", supportedVersions = { "2026-07-28" },
                    capabilities = { tools = json.object {} } })
            end
            return reply(r, r.message.method == "tools/call" and TEXT or { tools = { {
                name = "näme", inputSchema = { type = "object", properties = {
                    text = { type = "string", ["x-mcp-header"] = "Text" },
                    none = { type = "string", ["x-mcp-header"] = "None" },
                    wrong = { type = "string", ["x-mcp-header"] = "a b" },
                    inner = { type = "object", properties = {
                        n = { type = "number", ["x-mcp-header"] = "N" },
                        off = { type = "boolean", ["x-mcp-header"] = "Off" } } } } } } } })
        end, function(url, requests)
            local session = assert(mcp.open { url = url })
            session:call("näme", { text = " x", wrong = "w", inner = { n = 2.0, off = false } })
            local r = requests[4]
            assert.equal("=?base64?IHg=?=", r.headers["mcp-param-text"])
            assert.equal("2", r.headers["mcp-param-n"])
            assert.equal("false", r.headers["mcp-param-off"])
            assert.is_nil(r.headers["mcp-param-none"])
            assert.equal("2026-07-28", r.headers["mcp-protocol-version"])
            assert.equal("tools/call", r.headers["mcp-method"])
            assert.equal("=?base64?bsOkbWU=?=", r.headers["mcp-name"])
            assert.equal("2026-07-28",
                r.message.params._meta["io.modelcontextprotocol/protocolVersion"])
            session:close()
            assert.equal(4, #requests) -- no session, no DELETE
        end)
    end)

    it("refuses a server without initialize whose versions it does not know", function()
        for _, versions in ipairs { 5, true, "2026-07-28", { "2999-01-01" }, json.object {} } do
            with_answers(function(r)
                if r.message.method == "server/discover" then
                    return reply(r, { resultType = "complete", supportedVersions = versions,
                        capabilities = json.object {} })
                end
                return 404, JSON, { jsonrpc = "2.0", id = r.message.id,
                    error = { code = -32601, message = "Method not found" } }
            end, function(url)
                local session, message, code = mcp.open { url = url }
                assert.same({ nil, "UNSUPPORTED" }, { session, code })
                assert.matches("supports no version that ponder knows$", message)
            end)
        end
    end)

    it("reports errors of a server", function()
        local function open(status, headers, body)
            local message, code, _
            with_answers(function() return status, headers, body end, function(url)
                _, message, code = mcp.open { url = url, timeout_ms = 5000 }
            end)
            return code, message
        end
        assert.equal("AUTH", (open(401, JSON, "who?")))
        local code, message = open(500, JSON, "broken\27")
        assert.equal("SERVER", code)
        assert.matches("HTTP status 500: broken$", message)
        assert.equal("BAD_REPLY", (open(200, JSON, "<html>")))
        assert.equal("BAD_REPLY", (open(200, JSON, "")))
        assert.equal("BAD_REPLY", (open(200, { "Content-Type", "text/event-stream" },
            "data: nonsense\n\n")))
        assert.equal("BAD_REQUEST", (open(400, JSON, "no")))
        task.run(function()
            assert.equal("CONNECT", (select(3, mcp.open { url = "http://127.0.0.1:1/mcp" })))
            local _, why, its_code = mcp.open { url = "ftp://x" }
            assert.equal("BAD_REQUEST", its_code)
            assert.matches("url must begin with http", why)
        end)
    end)

    it("shows no key", function()
        with_answers(function(_, n)
            return 500, JSON, n == 1 and "got sk-0123456789abcdefghijk" or ""
        end, function(url)
            local _, message = mcp.open { url = url:gsub("//", "//me:secret-word1@"),
                headers = { Authorization = "Bearer sk-0123456789abcdefghijk" } }
            assert.is_nil(message:find("0123456789", 1, true))
            assert.is_nil(message:find("secret-word1", 1, true))
        end)
    end)
end)

-------------------------------------------------------------------------------
-- The run log

describe("a run that calls a server", function()
    local SCRIPT = [[
        local mcp = require "ponder.mcp"
        local session <close> = assert(mcp.open { command = { %q, "--no-log", %q, "plain", %q } })
        print(session.server.name, #session:tools())
        for i = 1, 3 do
            print(session:call("get.it", { i = i }).text)
            if i == 2 and io.open(%q) then os.exit(9, false) end
        end
    ]]

    it("is replayed without the server, and resumed with it for new calls", function()
        local path = dir.path
        dir:write("stop", "")
        dir:write("s.lua", SCRIPT:format(shell.executable, FAKE, path .. "/received",
            path .. "/stop"))
        local function calls()
            local n = 0
            for _, message in ipairs(received()) do
                n = n + (message.method == "tools/call" and 1 or 0)
            end
            return n
        end
        assert.equal(9, dir:ponder({ "run", "--log", "r.db", "s.lua" }).status)
        assert.equal(2, calls())
        os.remove(path .. "/stop")
        local r = dir:ponder { "resume", "r.db" }
        assert.equal("", r.err:gsub("[^\n]*resum[^\n]*\n", ""))
        assert.matches('fake\t4\n.*{"i":1}\n.*{"i":2}\n2 get.it {"i":3}\n', r.out)
        assert.equal(3, calls())
        local again = dir:ponder { "replay", "r.db" }
        assert.equal(0, again.status)
        assert.equal(r.out, again.out)
        assert.equal(3, calls())
    end)
end)
