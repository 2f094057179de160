-- ponder.serve on raw sockets: broken, slow, too large or invalid requests. Each is
-- answered or closed, and leaves no run behind.

local json = require "ponder.json"
local process = require "ponder.process"
local serve = require "ponder.serve"
local task = require "ponder.task"

local BODY = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}'
local PIECE_S = 0.001

-- A request's bytes. `more`: further header lines; `body`: nil for none.
local function http(first, body, more)
    return ("%s\r\nHost: localhost\r\n%s%s\r\n%s"):format(first, more or "",
        body and ("Content-Type: application/json\r\nContent-Length: %d\r\n"):format(#body) or "",
        body or "")
end

local POST, CLOSE = "POST /v1/chat/completions HTTP/1.1", "Connection: close\r\n"
local CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"

local function chunks(text, size)
    local parts = {}
    for at = 1, #text, size do
        local part = text:sub(at, at + size - 1)
        parts[#parts + 1] = ("%x\r\n%s\r\n"):format(#part, part)
    end
    return table.concat(parts) .. "0\r\n\r\n"
end

-- Calls f(send, server); send(...) writes pieces one after the other, and returns what arrived
-- until the server closed the connection.
local function with_server(opts, f)
    task.run(function()
        opts.policies = { echo = function(request) return request.prompt end,
            wait = function() task.sleep(30) end,
            brief = function()
                task.sleep(0.05)
                return "done"
            end }
        opts.listen, opts.log = "127.0.0.1:0", function() end
        local server = serve.new(opts)
        local port = assert(server:start()):match ":(%d+)$"
        f(function(...)
            local client <close> = assert(process.open { command = { "bash", "-c",
                "exec 3<>/dev/tcp/127.0.0.1/" .. port .. "; cat <&0 >&3 & cat <&3; kill $!" } })
            for _, piece in ipairs { ... } do
                client:write(piece)
                task.sleep(PIECE_S)
            end
            return assert(client:wait(20000)).stdout
        end, server)
        repeat
            task.sleep(0.001) -- until it has noticed that the clients have gone
        until server.http:stats().connections == 0
        assert.equal(0, server.in_flight)
        assert.is_nil(next(server.running))
        server:drain()
        assert.is_true(server:wait())
    end)
end

local function count(text, pattern)
    return select(2, text:gsub(pattern, ""))
end

local OK = "^HTTP/1.1 200 OK\r\n.*\"content\":\"hi\""

describe("a server handles", function()
    it("requests in pieces, several at once, and in chunks", function()
        with_server({}, function(send)
            local pieces, text = {}, http(POST, BODY, CLOSE)
            for at = 1, #text, 3 do
                pieces[#pieces + 1] = text:sub(at, at + 2)
            end
            assert.matches(OK, send(table.unpack(pieces)))
            assert.equal(3, count(send(http(POST, BODY) .. http(POST, BODY)
                .. http(POST, BODY, CLOSE)), "HTTP/1.1 200 OK"))
            assert.matches(OK, send(http(POST, nil, CLOSE .. CHUNKED) .. chunks(BODY, 7)))
        end)
    end)

    it("requests of HTTP/1.0, also for streams", function()
        with_server({}, function(send)
            local first = "POST /v1/chat/completions HTTP/1.0"
            assert.matches(OK, send(http(first, BODY)))
            local got = send(http(first, (BODY:gsub("{", '{"stream":true,', 1))))
            assert.matches('"content":"hi".*data: %[DONE%]\n\n$', got)
            assert.is_nil(got:find "[Cc]hunked")
        end)
    end)

    it("HEAD, with an answer without a body", function()
        with_server({}, function(send)
            local got = send(http("HEAD /v1/models HTTP/1.1", nil, CLOSE))
            assert.matches("^HTTP/1.1 200 OK.*Content%-Length: %d+\r\n\r\n$", got)
            got = send(http("HEAD /v1/chat/completions HTTP/1.1", nil, CLOSE))
            assert.matches("^HTTP/1.1 405 .*Allow: POST\r\n.*%d\r\n\r\n$", got)
        end)
    end)

    it("Expect: 100-continue, which it grants if it accepts the body", function()
        with_server({ max_body_bytes = 1000 }, function(send)
            local head = POST .. "\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                .. "Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            assert.matches("^HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
                send(head:format(#BODY), BODY))
            assert.matches("^HTTP/1.1 413 .*request_too_large", send(head:format(1001)))
        end)
    end)

    it("bodies over the limit, whole and in chunks", function()
        with_server({ max_body_bytes = 1000 }, function(send)
            local large = json.encode { a = ("x"):rep(200000) }
            assert.matches("^HTTP/1.1 413 .*request_too_large", send(http(POST, large, CLOSE)))
            assert.matches("^HTTP/1.1 413 .*request_too_large",
                send(http(POST, nil, CLOSE .. CHUNKED) .. chunks(large, 1000)))
        end)
    end)

    it("headers over the limit", function()
        with_server({ max_header_bytes = 4096 }, function(send)
            local long = ("a"):rep(4500)
            assert.matches('^HTTP/1.1 431 .*"code":"headers_too_large"', send(http(POST, BODY,
                CLOSE .. "X-A: " .. long .. "\r\n")))
            local get = "GET /" .. long .. " HTTP/1.1"
            assert.matches('^HTTP/1.1 414 .*"code":"uri_too_long"', send(http(get, nil, CLOSE)))
        end)
    end)

    it("headers of any size: libmicrohttpd refuses those over twice the limit", function()
        with_server({ max_header_bytes = 4096 }, function(send)
            local long = ("a"):rep(20000)
            assert.matches("^HTTP/1.1 431 ", send(http(POST, BODY, "X-A: " .. long .. "\r\n")))
            assert.matches("^HTTP/1.1 414 ", send(http("GET /" .. long .. " HTTP/1.1")))
        end)
    end)

    it("paths and queries with a NUL, where libmicrohttpd would truncate them", function()
        with_server({}, function(send)
            for _, path in ipairs { "/healthz%00/x", "/v1/models/echo%00", "/healthz?a=%00b" } do
                assert.matches('^HTTP/1.1 400 .*"code":"invalid_path"',
                    send(http("GET " .. path .. " HTTP/1.1", nil, CLOSE)))
            end
        end)
    end)

    it("absolute URIs, whose host counts", function()
        with_server({}, function(send)
            for uri, status in pairs { ["http://localhost/v1/models"] = 200,
                ["HTTP://127.0.0.1:80/healthz?x=1"] = 200, ["https://localhost"] = 404,
                ["http://evil.example/healthz"] = 403, ["http://localhost@evil/healthz"] = 404,
                ["http:///healthz"] = 404 } do
                assert.matches("^HTTP/1.1 " .. status .. " ",
                    send(http("GET " .. uri .. " HTTP/1.1", nil, CLOSE)))
            end
        end)
    end)

    it("data that is not HTTP", function()
        with_server({}, function(send)
            local chunked = http(POST, nil, CHUNKED)
            for _, bytes in ipairs { "GET /healthz\r\n\r\n", http("GET /healthz HTTP/9.9"),
                "GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", "GET /healthz HTTP/1.1\r\n\r\n",
                chunked .. "zz\r\nab\r\n", chunked .. ("f"):rep(40) .. "\r\n",
                http(POST, nil, "Content-Length: -5\r\n") } do
                assert.matches("^HTTP/1.[01] [45]%d%d ", send(bytes))
            end
        end)
    end)

    it("a repeated length or host, of which a proxy may read the other", function()
        with_server({}, function(send)
            for _, more in ipairs { "Content-Length: 3\r\n", "Host: evil.example\r\n",
                "Transfer-Encoding: chunked\r\n", "Transfer-Encoding : chunked\r\n" } do
                assert.matches("^HTTP/1.1 400 .*ambiguous_request", send(http(POST, BODY, more)))
            end
            for _, encoding in ipairs { "identity", "gzip, chunked", "xchunked" } do
                assert.matches("^HTTP/1.1 400 .*ambiguous_request",
                    send(http(POST, nil, "Transfer-Encoding: " .. encoding .. "\r\n")))
            end
        end)
    end)

    it("text that is not UTF-8, which it repairs", function()
        with_server({}, function(send)
            assert.matches('^HTTP/1.1 200 OK.*"content":"\u{FFFD}"',
                send(http(POST, (BODY:gsub("hi", "\xff")), CLOSE .. "X-A: \xff\r\n")))
            assert.matches("^HTTP/1.1 404 .*\u{FFFD}",
                send(http("GET /v1/models/%ff HTTP/1.1", nil, CLOSE)))
        end)
    end)

    it("requests that never end", function()
        with_server({ header_timeout_ms = 30, body_timeout_ms = 30 }, function(send)
            local text = http(POST, BODY)
            for _, bytes in ipairs { text:sub(1, 30), text:sub(1, -5), "\n\n", "\x16\x03\x01" } do
                assert.matches("^HTTP/1.1 408 .*\"timeout\"", send(bytes))
            end
        end)
    end)

    it("requests on open connections while it drains", function()
        with_server({}, function(send, server)
            local got
            local client = task.spawn(function()
                got = send(http(POST, (BODY:gsub("echo", "brief"))) .. http(POST, BODY, CLOSE))
            end)
            repeat
                task.sleep(0.001)
            until server.in_flight == 1
            server:drain()
            client:join()
            assert.matches('^HTTP/1.1 200 .*"done".*HTTP/1.1 503 .*"draining"', got)
            assert.matches("Retry%-After: 1", got)
        end)
    end)

    it("requests whose clients disconnect early", function()
        with_server({}, function(send, server)
            local gone = task.spawn(send, http(POST, (BODY:gsub("echo", "wait"))))
            repeat
                task.sleep(0.001)
            until server.in_flight == 1
            gone:cancel()
            local half = task.spawn(send, http(POST, BODY):sub(1, -5))
            repeat
                task.sleep(0.001)
            until server.http:stats().requests == 2
            half:cancel()
        end)
    end)
end)
