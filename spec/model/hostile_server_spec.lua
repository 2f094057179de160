-- Servers that misbehave in more than 95 ways, byte by byte (spec/support/server_raw.c): each call
-- ends with a reply, or with nil, message, code, in its time, and the message holds neither the key
-- nor a control character.

local server = require "server"
local size = require "size"
local task = require "ponder.task"

local KEY = "sk-0123456789abcdefghij"
local PROVIDERS = { "openai", "anthropic", "ollama" }
local EACH = size { test = 1, asan = 1, full = #PROVIDERS } -- how many providers ask a server
local OK, JSON, SSE = "HTTP/1.1 200 OK\r\n", "Content-Type: application/json\r\n",
    "Content-Type: text/event-stream\r\n"
local SERVERS = {} -- what one sends, and how it ends

local function add(reply, how)
    SERVERS[#SERVERS + 1] = { reply, how or "end=close" }
end

local function body(text, headers)
    return ("%s%s%sContent-Length: %d\r\n\r\n%s"):format(OK, headers or "", JSON, #text, text)
end

-- Nothing, or not HTTP.
for _, how in ipairs { "end=close", "end=reset", "end=hang" } do
    add("", how)
    add("HTTP/1.1 20", how)
    add(OK .. JSON, how)
    add(OK .. JSON .. "Content-Length: 100\r\n\r\n{\"choices\":", how)
    add(OK .. JSON .. "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"cho", how)
    add(OK .. SSE .. "\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", how)
    add(OK .. SSE .. "\r\ndata: {\"choi", how)
end
for _, junk in ipairs { "\0", "junk\r\n\r\n", "\22\3\1\2\0\1\0\1", "SSH-2.0-x\r\n", "+OK\r\n",
    ("A"):rep(70000), "HTTP/0.9 200\r\n\r\nx", "HTTP/9.9 200 OK\r\n\r\nx", "HTTP/1.1\r\n\r\n",
    "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 99999 OK\r\n\r\n", "HTTP/1.1 000 OK\r\n\r\n",
    "HTTP/1.1 -1 OK\r\n\r\n", "ICY 200 OK\r\n\r\n", "\r\n\r\n" .. OK .. "\r\n" } do
    add(junk)
end

-- Statuses.
for _, status in ipairs { 100, 101, 103, 204, 205, 206, 299, 300, 304, 305, 399, 402, 407, 418, 426,
    451, 499, 511, 529, 599 } do
    add(("HTTP/1.1 %d X\r\n%sContent-Length: 2\r\n\r\n{}"):format(status, JSON))
end
add(("HTTP/1.1 100 Continue\r\n\r\n"):rep(500) .. body "{}")
for _, place in ipairs { "", "//", "http://", "http://[", "file:///etc/passwd", "gopher://x/",
    "javascript:x", "http://x:99999/", "http://\1/", ("x"):rep(30000) } do
    add(("HTTP/1.1 307 X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"):format(place))
end

-- Headers.
for _, header in ipairs { "Content-Length: -1", "Content-Length: 99999999999999999999",
    "Content-Length: 5\r\nContent-Length: 6", "Content-Length: x", "X: " .. ("y"):rep(70000),
    ("X: y\r\n"):rep(12000) .. "Z: z", "no colon", ": empty", "X: a\0b", "X: \27]0;t\7\27[2J",
    "Transfer-Encoding: x", "Transfer-Encoding: chunked\r\nContent-Length: 3",
    "Content-Encoding: gzip", "Content-Encoding: br", "Content-Encoding: x",
    "Retry-After: 99999999999", "Retry-After: -5", "Retry-After: x", "Content-Type: \xFF",
    "Content-Type: text/event-stream", "Set-Cookie: " .. ("c"):rep(5000) } do
    add(OK .. header .. "\r\n\r\n{}")
end
for _, chunk in ipairs { "FFFFFFFFFFFFFFFFF\r\nx", "-1\r\nx", "\r\n", "0\r\n",
    "2;x=" .. ("e"):rep(20000) .. "\r\n{}\r\n0\r\n\r\n",
    "2\r\n{}\r\n0\r\nTrailer: \27[2J\r\n\r\n", "zz\r\n{}" } do
    add(OK .. JSON .. "Transfer-Encoding: chunked\r\n\r\n" .. chunk)
end

-- Bodies.
for _, text in ipairs { "", "null", "[]", "{}", "1e999", "\"x\"", "{", "\0", "\xFF\xFE{}", "{}{}",
    ("["):rep(20000), ('{"a":'):rep(5000), '{"choices":' .. ("9"):rep(20000) .. "}",
    '{"choices":[{"message":{"content":"' .. ("\\u0000"):rep(2000) .. '"}}]}',
    '{"choices":[{"message":{"content":"\27]0;t\7\\u001b[2J\\u202e"}}]}',
    '{"choices":{"0":{}},"content":{},"message":[]}', '{"choices":[[]],"content":[[]],"message":1}',
    '{"error":{"message":"' .. KEY .. ' \\u001b[2J"}}', '{"error":[]}', '{"error":null}',
    '{"error":{"message":{"a":["' .. KEY .. '"]}}}' } do
    add(body(text))
end
add(body(("x"):rep(1000), "Content-Encoding: gzip\r\n"))
add(body("\31\139\8\0\0\0\0\0\0\3", "Content-Encoding: gzip\r\n"))

-- Streams.
for _, text in ipairs { "data: [DONE]\n\n", "data:\n\n", ":\n\n", "data: {}\n\n", "data: 1\n\n",
    "data: {\"error\":{\"message\":\"" .. KEY .. "\"}}\n\n", ("data: x\n"):rep(1000) .. "\n",
    "data: " .. ("x"):rep(70000) .. "\n\n", ("event: ping\ndata: {}\n\n"):rep(1000),
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"\27[2J\"}}\n\n",
    "id: \0\nretry: 99999999999999999999\ndata: {\"choices\":[]}\n\n", "\xEF\xBB\xBFdata: null\r\r",
    "data: {\"choices\":[{\"index\":-1,\"delta\":{\"content\":5}},{\"index\":1e9}]}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":99999,\"delta\":{\"text\":\"x\"}}\n\n",
    "data: {\"type\":\"message_start\",\"message\":null}\n\n", "{\"message\":{\"content\":1}}\n",
    'data: {"choices":[{"delta":{"tool_calls":[{"index":"x","function":[]}]}}]}\n\n' } do
    add(OK .. SSE .. "\r\n" .. text)
end
add(body "{}", "piece=1")
add(OK .. SSE .. "\r\ndata: {}\n\n", "piece=1&end=hang")

describe("a hostile server", function()
    local s, client

    setup(function()
        s = server.start()
        client = s:client()
    end)
    teardown(function() s:stop() end)

    local function check(what, reply, message, code)
        if reply ~= nil then
            assert.equal("string", type(reply.text), what)
            return
        end
        assert.equal("string", type(code), what)
        assert.is_nil(message:find(KEY, 1, true), what)
        assert.is_nil(message:find "%c", what)
        assert.is_true(#message < 2000, what)
    end

    local function ask(provider, one, is_stream)
        local m = client.open(provider .. ":m", { api_key = KEY, proxy = "", max_retries = 0,
            timeout_ms = 600, idle_timeout_ms = 500, max_body_bytes = 1 << 20,
            base_url = ("%s/?reply=%s&%s&"):format(s.raw_url, server.encode(one[1]), one[2]) })
        return m:chat { messages = { { role = "user", content = "x" } },
            on_delta = is_stream and function() end or nil }
    end

    it("ends calls only with a reply or with nil, message, code", function()
        assert.is_true(#SERVERS >= 95)
        local calls = {}
        for i, one in ipairs(SERVERS) do
            for j = 1, EACH do
                local provider = PROVIDERS[(i + j) % #PROVIDERS + 1]
                calls[#calls + 1] = { provider, one, true, i }
                calls[#calls + 1] = { provider, one, false, i }
            end
        end
        task.run(function()
            task.map(calls, function(call)
                local what = ("server %d, %s: %q"):format(call[4], call[1], call[2][1]:sub(1, 60))
                check(what, ask(call[1], call[2], call[3]))
                return true
            end, { concurrency = 32 })
        end)
        assert.is_true(s:counters().raw_requests > #calls // 2)
    end)
end)
