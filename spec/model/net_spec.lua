-- ponder.core.net: what a single call sends and how it can end, produced for real by
-- spec/support/server.c.

local calls = require "calls"
local net = require "ponder.core.net"
local raises = require("task_help").raises
local server = require "server"
local shell = require "shell"

shell.build "streams.so"
local streams = require "streams"
local encode = server.encode

describe("ponder.core.net", function()
    local s, pump

    setup(function() s = server.start { tls = true } end)
    teardown(function() s:stop() end)
    before_each(function()
        s:reset()
        pump = assert(net.open { proxy = "", timeout_ms = 5000 })
    end)

    after_each(function() pump:close() end)

    local function call(opts) return calls.call(pump, opts) end
    local function get(...) return s:get(pump, ...) end
    local function raw(...) return s:raw(...) end

    it("recognizes public addresses", function()
        for address in ([[8.8.8.8 1.1.1.1 172.32.0.1 172.15.0.1 192.169.0.1 100.128.0.1 198.20.0.1
            2606:4700::1111 ::ffff:8.8.8.8]]):gmatch "%S+" do
            assert.is_true(streams.is_public(address), address)
        end
        for address in ([[0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1
            172.31.255.255 192.0.0.8 192.168.1.1 198.18.0.1 224.0.0.1 255.255.255.255 :: ::1 fe80::1
            fd00::1 fec0::1 ff02::1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::10.0.0.1 64:ff9b::a00:1
            2002:a00:1::1 2001:0:1::1 fe80::1%lo nonsense]]):gmatch "%S+" do
            assert.is_false(streams.is_public(address), address)
        end
    end)

    it("connects to no private address if only public ones are allowed", function()
        local r = get("/x", { public_only = true })
        assert.equal("DENIED", r.code)
        assert.matches(": its address is not a public one$", r.error)
        get "/x"
        r = get("/x", { public_only = true }) -- over the connection that is there
        assert.equal("DENIED", r.code)
        assert.equal(1, s:counters().requests)
    end)

    describe("a plain call", function()
        it("returns status, headers, body and times", function()
            local r = get("/x?status=418&body=tea&h=X-Pot:%20small&type=text/x-tea")
            assert.equal(418, r.status)
            assert.equal("tea", r.body)
            assert.equal("small", r.headers["x-pot"])
            assert.equal("text/x-tea", r.headers["content-type"])
            assert.is_nil(r.code)
            assert.is_nil(r.error)
            assert.is_nil(r.streamed)
            assert.equal("1.1", r.http_version)
            assert.equal(1, r.new_connections)
            assert.equal(0, r.redirects)
            assert.is_true(r.queue_ms >= 0 and r.connect_ms > 0)
            assert.is_true(r.connect_ms <= r.first_byte_ms and r.first_byte_ms <= r.total_ms)
        end)

        it("sends method, headers and body unchanged", function()
            local body = "\0\r\n\xFF" .. ("x"):rep(1000)
            local r = get("/echo", {
                method = "PUT", body = body,
                headers = { ["content-type"] = "a/b", ["x-number"] = 5, ["x-empty"] = "",
                    Accept = "c" },
            })
            assert.matches("^PUT /echo\n", r.body)
            assert.matches("\n[Cc]ontent%-[Tt]ype: a/b\n", r.body)
            assert.matches("\nx%-number: 5\n", r.body)
            assert.matches("\nx%-empty: \n", r.body)
            assert.matches("\nAccept: c\n", r.body)
            assert.equal(body, r.body:match("\n\n(.*)$"))
            assert.is_nil(r.body:match("[Ee]xpect:"))
        end)

        it("sends headers in the order of their names", function()
            local headers, seen = {}, {}
            for i = 1, 20 do
                headers[("x-%02d"):format(i)] = i
            end
            for number in get("/echo", { headers = headers }).body:gmatch("\nx%-%d+: (%d+)") do
                seen[#seen + 1] = tonumber(number)
            end
            assert.equal("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
                table.concat(seen, " "))
        end)

        it("is a GET without a body, a POST with one, and adds no content type", function()
            assert.matches("^GET /", get("/echo").body)
            local r = get("/echo", { body = "" })
            assert.matches("^POST /", r.body)
            assert.matches("\nContent%-Length: 0\n", r.body)
            assert.is_nil(r.body:lower():match("content%-type"))
            assert.equal("", get("/echo", { method = "HEAD" }).body)
            assert.matches("^DELETE /", get("/echo", { method = "DELETE" }).body)
        end)

        it("sends a large body without waiting for a 100 Continue", function()
            local r = get("/x?body=ok", { body = ("x"):rep(3 * 1024 * 1024) })
            assert.equal("ok", r.body)
            assert.is_nil(s:request():lower():find("\nexpect:", 1, true))
        end)

        it("joins repeated headers", function()
            assert.equal("1, 2, 3", get("/x?h=a:1&h=A:2&h=a:3").headers.a)
        end)

        it("reuses its connection", function()
            get("/x")
            local r = get("/x")
            assert.equal(0, r.new_connections)
            assert.equal(0, r.connect_ms)
            assert.equal(1, pump:stats().connections)
        end)

        it("has an empty body if there is none", function()
            assert.equal("", get("/x?status=204&body=").body)
            assert.equal("", get("/x?body=", { stream = "sse" }).body)
        end)

        it("distinguishes an unfinished 1xx answer from the final one", function()
            local r = raw("HTTP/1.1 103 Early\r\nx-early: 1\r\n\r\nHTTP/1.1 200 OK\r\nx-late: 1\r\n"
                .. "content-length: 2\r\n\r\nok")
            assert.equal(200, r.status)
            assert.is_nil(r.headers["x-early"])
            assert.equal("1", r.headers["x-late"])
        end)
    end)

    describe("a call that fails", function()
        local function assert_failed(code, r)
            assert.equal(code, r.code, r.error)
            assert.is_string(r.error)
            assert.is_nil(r.body)
            return r
        end

        it("reports a refused connection", function()
            local r = assert_failed("CONNECT", call { url = "http://127.0.0.1:1/" })
            assert.is_nil(r.status)
            assert.is_nil(r.http_version)
            assert.is_nil(r.first_byte_ms)
            assert.same({}, r.headers)
            assert.matches("^http://127%.0%.0%.1:1: ", r.error)
        end)

        local OK = "HTTP/1.1 200 OK\r\n"
        local CHUNKED = OK .. "transfer-encoding: chunked\r\n\r\n"
        local LIMIT = { max_body_bytes = 1000 }
        local LONG = OK .. "x-a: " .. ("y"):rep(2000) .. "\r\ncontent-length: 0\r\n\r\n"

        -- What is reported, its code, the call, and fields of the result.
        for _, case in ipairs {
            { "a name that does not exist", "CONNECT", function()
                return call { url = "http://ponder.invalid/" }
            end },
            { "an untrusted certificate", "TLS", function()
                return call { url = s.tls_url .. "/x" }
            end },
            { "a certificate for another name", "TLS", function()
                return call { url = s.tls_url:gsub("localhost", "127.0.0.1") .. "/x",
                    ca_file = s.ca_file }
            end },
            { "a missing authority file", "TLS", function()
                return call { url = s.tls_url .. "/x", ca_file = "/nonexistent.pem" }
            end },
            { "a reset during the TLS handshake", "CONNECT", function()
                return call { url = (s.raw_url:gsub("http", "https")) .. "/x" }
            end },
            { "slow headers", "TIMEOUT", function()
                return get("/x?delay=3000", { timeout_ms = 60 })
            end, { timeout = "total" } },
            { "a slow body", "TIMEOUT", function()
                return get("/x?body=abcdef&piece=1&pace=40", { timeout_ms = 90 })
            end, { status = 200 } },
            { "a reset in the middle of headers", "CONNECT", function()
                return raw(OK .. "x-a: ", "&end=reset")
            end },
            { "a close in the middle of headers", "CONNECT", function()
                return raw("HTTP/1.1 200", "&end=close")
            end },
            { "a reset in the middle of a body", "CONNECT", function()
                return raw(OK .. "x-a: 1\r\ncontent-length: 10\r\n\r\nabc", "&end=reset")
            end, { status = 200, headers = { ["x-a"] = "1", ["content-length"] = "10" } } },
            { "a close in the middle of a body", "CONNECT", function()
                return get "/x?body=abcdef&cut=3"
            end },
            { "a close in the middle of chunks", "CONNECT", function()
                return get "/x?body=abcdef&cut=3&chunked=1"
            end },
            { "a connection that closes without a reply", "CONNECT", function()
                return get "/x?close=1"
            end },
            { "what is not HTTP", "BAD_REPLY", function()
                return raw "SSH-2.0-OpenSSH_9.2\r\n"
            end },
            { "what is no chunk, as after a loss of bytes", "CONNECT", function()
                return raw(CHUNKED .. "xyz\r\n")
            end },
            { "a body over the limit", "TOO_LARGE", function()
                return get("/x?body=a&repeat=1001", LIMIT)
            end },
            { "chunks over the limit", "TOO_LARGE", function()
                return get("/x?body=a&repeat=1001&chunked=1", LIMIT)
            end },
            { "a body that is announced to be over the limit", "TOO_LARGE", function()
                return raw(OK .. "content-length: 99999999999\r\n\r\n", "&end=hang")
            end },
            { "headers over the limit", "TOO_LARGE", function()
                return raw(LONG, "", { max_header_bytes = 1000 })
            end },
            { "too many headers", "TOO_LARGE", function()
                return raw(OK .. ("x-a: 1\r\n"):rep(300) .. "content-length: 0\r\n\r\n")
            end },
            { "an endless header", "TOO_LARGE", function()
                return raw(OK .. "x-a: " .. ("y"):rep(200000))
            end },
        } do
            it("reports " .. case[1], function()
                local r = assert_failed(case[2], case[3]())
                for name, value in pairs(case[4] or {}) do
                    assert.same(value, r[name])
                end
            end)
        end

        it("does not report what is within the limits", function()
            assert.equal(1000, #get("/x?body=a&repeat=1000", LIMIT).body)
            assert.equal(200, raw(LONG).status)
        end)

        it("reports TLS spoken to a plain port", function()
            local r = call { url = (s.url:gsub("http", "https")) .. "/x" }
            -- The server may answer in plain text or just close.
            assert_failed(r.code == "CONNECT" and "CONNECT" or "TLS", r)
        end)

        it("reports a connection that cannot be made in time", function()
            -- TEST-NET-1 answers nobody.
            local r = call { url = "http://192.0.2.1/", connect_timeout_ms = 50 }
            if r.code ~= "CONNECT" then -- no route at all on some machines
                assert_failed("TIMEOUT", r)
                assert.equal("connect", r.timeout)
            end
        end)

        it("is not resent if the connection it was to reuse is gone", function()
            local before = s:counters().raw_requests
            local url = s.raw_url .. "/?end=drop&reply="
                .. encode("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            assert.equal(200, call({ url = url, body = "{}" }).status)
            assert_failed("CONNECT", call { url = url, body = "{}" })
            assert.equal(before + 2, s:counters().raw_requests)
        end)

        it("has no key, header or userinfo in its message", function()
            local headers = { authorization = "Bearer sk-secret", ["x-api-key"] = "other" }
            for _, url in ipairs { "http://us3r:pa55@127.0.0.1:1/?key=hidden",
                "http://us3r:pa55@nosuch.invalid/",
                (s.tls_url:gsub("//", "//us3r:pa55@")), s.url:gsub("//", "//us3r:pa55@")
                    .. "/?close=1" } do
                local text = assert(call { url = url, headers = headers }.error)
                for _, secret in ipairs { "secret", "us3r", "pa55", "hidden", "Bearer" } do
                    assert.is_nil(text:find(secret, 1, true), text)
                end
            end
        end)
    end)

    describe("a redirect", function()
        local headers = { authorization = "Bearer sk", ["x-api-key"] = "sk", cookie = "sk",
            ["content-type"] = "a/b", accept = "c/d", ["x-other"] = "sk" }
        local function elsewhere()
            return (s.url:gsub("127%.0%.0%.1", "localhost"))
        end

        it("within the host repeats the request", function()
            local r = get("/a?status=307&h=location:/echo", { body = "hi", headers = headers })
            assert.equal(1, r.redirects)
            assert.matches("^POST /echo\n", r.body)
            assert.matches("Bearer sk", r.body)
            assert.matches("\n\nhi$", r.body)
        end)

        it("to another host or port is refused, whatever it sends", function()
            local before = s:counters().requests
            for _, status in ipairs { 301, 302, 303, 307, 308 } do
                for _, body in ipairs { "hi", false } do
                    local r = get("/a?status=" .. status .. "&h=location:"
                        .. encode(elsewhere() .. "/echo"), { body = body or nil })
                    assert.same({ "BAD_REPLY", 0, elsewhere() }, { r.code, r.redirects,
                        r.error:match("redirect to another host refused: (%S+)") })
                end
            end
            assert.equal(before + 10, s:counters().requests)
            local r = raw("HTTP/1.1 307 Go\r\nlocation: " .. s.url .. "/\r\n\r\n")
            assert.equal("BAD_REPLY", r.code)
        end)

        it("to another host is sent no key", function()
            for _, status in ipairs { 301, 302, 303, 307, 308 } do
                local location = encode(elsewhere() .. "/echo")
                local r = get("/a?status=" .. status .. "&h=location:" .. location, { body = "hi",
                    headers = headers, cross_host_redirects = true })
                assert.equal(200, r.status)
                assert.matches("^" .. (status < 304 and "GET" or "POST") .. " /echo\n", r.body)
                assert.is_nil(r.body:match("sk"))
                assert.matches("accept: c/d", r.body)
                assert.equal(status >= 307, r.body:match("a/b") ~= nil)
                assert.equal(status >= 307 and "hi" or "", r.body:match("\n\n(.*)$"))
            end
        end)

        it("to another host is sent no userinfo", function()
            local location = encode(elsewhere() .. "/echo")
            local r = call { url = s.url:gsub("//", "//us3r:pa55@")
                .. "/a?status=307&h=location:" .. location, cross_host_redirects = true }
            assert.matches("^GET /echo\n", r.body)
            assert.is_nil(r.body:lower():match("authorization"))
        end)

        it("back again is sent no key", function()
            local back = encode("/b?status=307&h=location:" .. encode(s.url .. "/echo"))
            local r = get("/a?status=307&h=location:" .. encode(elsewhere()) .. back,
                { headers = headers, cross_host_redirects = true })
            assert.equal(2, r.redirects)
            assert.is_nil(r.body:match("sk"))
        end)

        it("to another port counts as to another host", function()
            local reply = "HTTP/1.1 307 Go\r\nlocation: " .. s.url
                .. "/echo\r\ncontent-length: 3\r\n\r\nabc"
            local r = raw(reply, "", { headers = headers, cross_host_redirects = true })
            assert.matches("^GET /echo\n", r.body)
            assert.is_nil(r.body:match("sk"))
        end)

        it("that never ends is a bad reply", function()
            local r = get("/a?status=302&h=location:" .. encode("/a?status=302&h=location:/a"),
                { max_redirects = 1 })
            assert.equal("BAD_REPLY", r.code)
            assert.matches("more than 1 redirects", r.error)
            s:next(("status=302&h=location:/a"), ("status=302&h=location:/a"),
                "status=302&h=location:/a",
                "status=302&h=location:/a", "status=302&h=location:/a", "status=302&h=location:/a")
            assert.equal("BAD_REPLY", get("/a").code)
        end)

        it("is returned if none may be followed", function()
            local r = get("/a?status=302&h=location:/b&body=moved", { max_redirects = 0 })
            assert.equal(302, r.status)
            assert.equal("moved", r.body)
            assert.equal("/b", r.headers.location)
        end)

        it("to anything but http, or from https to http, is refused", function()
            for _, target in ipairs { "file:///etc/passwd", "ftp://127.0.0.1/",
                "gopher://127.0.0.1/", "dict://127.0.0.1/" } do
                local r = get("/a?status=302&h=location:" .. encode(target))
                assert.equal("BAD_REPLY", r.code)
                assert.equal(s.url .. ": redirect to a URL that is not http or https", r.error)
            end
            local r = call { url = s.tls_url .. "/a?status=302&h=location:" .. encode(s.url),
                ca_file = s.ca_file }
            assert.equal("BAD_REPLY", r.code)
            assert.matches("from https to http refused", r.error)
        end)

        it("without a location is an ordinary answer", function()
            local r = get("/a?status=302&body=where")
            assert.equal(302, r.status)
            assert.equal("where", r.body)
        end)
    end)

    describe("through a proxy", function()
        local reply = encode("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy")

        it("a call goes where the option says", function()
            local r = call { url = "http://ponder.invalid/?reply=" .. reply, proxy = s.raw_url }
            assert.equal("proxy", r.body)
        end)

        it("or where the environment names one", function()
            local command = ([[http_proxy=%s no_proxy=%s %s -e '
                package.cpath = "%s"
                local pump, batch = require("ponder.core.net").open(), {}
                pump:submit { url = "http://ponder.invalid/?reply=%s" }
                while pump:take(batch) == 0 do require("ponder.core.loop").wait(1) end
                print(batch[3].body)' 2>&1]]):format(s.raw_url, "example.com",
                shell.LUA, package.cpath, reply)
            local pipe <close> = io.popen(command)
            assert.equal("proxy", pipe:read("l"))
        end)

        it("does not show the proxy's password", function()
            for _, proxy in ipairs { "http://us3r:pa55@127.0.0.1:1", "odd://us3r:pa55@127.0.0.1:1",
                "http://us3r:pa55@ponder.invalid", "http://us3r:pa55@127.0.0.1:x" } do
                local r = call { url = "http://ponder.invalid/", proxy = proxy, timeout_ms = 3000 }
                assert.is_string(r.code, proxy)
                assert.is_nil(r.error:match("us3r"), r.error)
                assert.is_nil(r.error:match("pa55"), r.error)
            end
        end)
    end)

    describe("over TLS", function()
        it("calls overlap and connections are reused", function()
            for _ = 1, 2 do
                for _ = 1, 16 do
                    pump:submit { url = s.tls_url .. "/x?delay=20&body=ok", ca_file = s.ca_file }
                end
                for _, r in pairs((calls.finish(pump))) do
                    assert.equal("ok", r.body)
                end
            end
            assert.is_true(pump:stats().connections <= 16)
        end)
    end)

    describe("over HTTP/2", function()
        --- nghttp2's server on a directory and a port: whether it serves there, and what ends it.
        local function try_nghttpd(dir, port)
            local key = s.ca_file:gsub("crt$", "key")
            local pipe = io.popen(("echo $$; exec timeout 60 nghttpd "
                .. "-a 127.0.0.1 --echo-upload -d %s %d %s %s 2>&1"):format(
                dir, port, key, s.ca_file))
            local pid = pipe:read("n")
            local function stop()
                os.execute("kill " .. pid .. " 2>/dev/null")
                pipe:close()
            end
            for _ = 1, 50 do
                local url = ("https://localhost:%d/stream"):format(port)
                if call({ url = url, ca_file = s.ca_file }).http_version == "2" then
                    return true, stop
                end
                calls.poll(pump, 20, {})
            end
            stop()
        end

        --- It takes no port 0: the first of some that is free. Its URL, and what ends it.
        local function start_nghttpd(dir)
            for port = 20000 + s.pid % 20000, 65000, 1001 do
                local ok, stop = try_nghttpd(dir, port)
                if ok then
                    return "https://localhost:" .. port, stop
                end
            end
        end

        it("calls share one connection", function()
            local dir <close> = shell.directory {
                stream = ("data: hello\n\n"):rep(1000) .. "data: [DONE]\n\n" }
            local url, stop = start_nghttpd(dir.path)
            local fresh <close> = net.open { proxy = "", ca_file = s.ca_file }
            for i = 1, 100 do
                fresh:submit { url = url .. "/echo", body = ("x"):rep(i) }
                fresh:submit { url = url .. "/stream", stream = "sse" }
            end
            local results, events = calls.finish(fresh)
            local dropped = fresh:submit { url = url .. "/stream" }
            calls.poll(fresh, 0, {})
            fresh:cancel(dropped) -- ends its stream, not the connection
            local after = calls.call(fresh, { url = url .. "/stream" })
            stop()
            for i = 1, 100 do
                assert.equal(("x"):rep(i), results[2 * i - 1].body)
                assert.equal("2", results[2 * i].http_version)
                assert.is_true(results[2 * i].done)
            end
            assert.equal(100000, #events)
            assert.equal(200, after.status)
            assert.equal(1, fresh:stats().connections)
        end)
    end)

    describe("wrong arguments", function()
        it("raise errors that say what was expected", function()
            raises("table expected, got number", net.open, 5)
            raises("no integer representation", net.open, { max_total = 1.5 })
            raises("max_total must be a number %(got string%)", net.open, { max_total = "5" })
            raises("proxy must not contain a NUL", net.open, { proxy = "a\0b" })
            raises("table expected", pump.submit, pump)
            raises("net.submit: url must be a string %(got nil%)", pump.submit, pump, {})
            for opts, message in pairs {
                [{ url = 5 }] = "url must be a string %(got number%)",
                [{ timeout_ms = 0 / 0 }] = "no integer representation",
                [{ stream = "xml" }] = 'stream must be "sse" or "ndjson"',
                [{ headers = "a: b" }] = "headers must be a table",
                [{ headers = { "a: b" } }] = "invalid header name",
                [{ headers = { ["a b"] = "c" } }] = "invalid header name",
                [{ headers = { a = {} } }] = 'headers%["a"%] must be a string',
                [{ method = "GET /x" }] = "method is not",
            } do
                opts.url = opts.url or s.url
                raises(message, pump.submit, pump, opts)
            end
            raises("table expected, got number", pump.take, pump, 0)
            raises("number expected, got string", pump.cancel, pump, "x")
            raises("must be >= 1", pump.limit, pump, s.url, 0)
            raises("string expected, got table", pump.limit, pump, {}, 5)
            raises("ponder.net.Pump expected, got table", pump.take, {})
            assert.equal(0, pump:pending())
        end)

        it("never show a header's value", function()
            local ok, message = pcall(pump.submit, pump, { url = s.url,
                headers = { key = "secret\r\nx: y" } })
            assert.is_false(ok)
            assert.is_nil(message:match("secret"))
        end)

        it("in a URL are returned as failures, not raised", function()
            for _, url in ipairs { "", "x", "/x", "ftp://x/", "file:///etc/passwd", "http://",
                "http://a b/", "http://x:99999999/", "javascript:1", "http://[::1/",
                    "http://x/\r\ny" } do
                local id, text, code = pump:submit { url = url }
                assert.is_nil(id, url)
                assert.is_string(text)
                assert.equal("BAD_REQUEST", code)
            end
        end)
    end)
end)
