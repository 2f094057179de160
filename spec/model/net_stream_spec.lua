-- ponder.core.net: replies that come as streams of events, and compressed ones.

local calls = require "calls"
local net = require "ponder.core.net"
local server = require "server"
local shell = require "shell"

local encode = server.encode

local CHUNKED_STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    .. "transfer-encoding: chunked\r\n\r\n"

describe("ponder.core.net, reading", function()
    local s, pump

    setup(function() s = server.start() end)
    teardown(function() s:stop() end)
    before_each(function()
        s:reset()
        pump = assert(net.open { proxy = "", timeout_ms = 5000 })
    end)

    after_each(function() pump:close() end)

    local function get(...) return s:get(pump, ...) end

    describe("compression", function()
        -- Gets what a command prints, compressed.
        local function get_packed(command, query, opts)
            local dir <close> = shell.directory()
            os.execute(("%s | gzip -c > %s/packed"):format(command, dir.path))
            return get("/x?h=content-encoding:gzip&file=" .. encode(dir.path .. "/packed")
                .. query, opts)
        end

        it("is undone", function()
            assert.equal("hello", get_packed("printf hello", "").body)
            assert.matches("gzip", s:request())
        end)

        it("counts what comes out against the limit", function()
            local r = get_packed("head -c 20000000 /dev/zero", "", { max_body_bytes = 1000000 })
            assert.equal("TOO_LARGE", r.code)
        end)

        it("that is broken is a bad reply", function()
            assert.equal("BAD_REPLY", get("/x?h=content-encoding:gzip&body=hello").code)
        end)

        it("is not asked for in streams, and undone there all the same", function()
            local r, data = get_packed("printf 'data: a\\n\\ndata: b\\n\\n'",
                "&type=text/event-stream", { stream = "sse" })
            assert.is_true(r.streamed)
            assert.same({ "a", "b" }, data)
            assert.matches("identity", s:request())
        end)
    end)

    describe("a stream", function()
        local SSE = "&type=text/event-stream"

        it("hands over its events, then its result", function()
            local r, data = get("/v1/chat/completions", { body = '{"stream":true}',
                stream = "sse" })
            assert.equal(200, r.status)
            assert.is_true(r.streamed and r.done)
            assert.is_nil(r.body)
            assert.equal(5, r.events)
            assert.equal(5, #data)
            assert.equal(172, #data[1])
            for _, time in ipairs { r.first_byte_ms, r.first_event_ms } do -- of two clocks
                assert.is_true(time > 0 and time <= r.total_ms)
            end
        end)

        it("names its events", function()
            local id = pump:submit { url = s.url .. "/v1/messages", body = '{"stream":true}',
                stream = "sse" }
            local results, events = calls.finish(pump)
            local names = {}
            for i, event in ipairs(events) do
                names[i] = event[2]
            end
            assert.equal("message_start content_block_start ping content_block_delta "
                .. "content_block_delta "
                .. "content_block_delta content_block_stop message_delta message_stop",
                    table.concat(names, " "))
            assert.is_nil(results[id].done)
        end)

        it("of JSON lines", function()
            local r, data = get("/api/chat", { body = "{}", stream = "ndjson" })
            assert.equal(4, #data)
            assert.is_true(r.streamed)
            assert.matches('"done":true', data[4])
        end)

        it("comes as it is sent", function()
            pump:submit { url = s.url .. "/x?body=" .. encode("data: a\n\ndata: b\n\n")
                .. "&piece=9&pace=80" .. SSE,
                stream = "sse" }
            local batch = {}
            repeat until calls.poll(pump, 1000, batch) > 0
            assert.equal("a", batch[3])
            assert.is_nil(batch[4])
            assert.equal(1, pump:pending())
            local _, events = calls.finish(pump)
            assert.equal("b", events[1][3])
        end)

        it("may be cut at any byte of chunks and events", function()
            local body = "data: a\r\n\r\n: c\r\ndata: \xE2\x82\xAC\r\n\r\ndata: [DONE]\r\n\r\n"
            for piece = 1, #body, 7 do
                local r, data = get("/x?body=" .. encode(body) .. "&pace=1&piece=" .. piece
                    .. SSE, { stream = "sse" })
                assert.same({ "a", "\xE2\x82\xAC" }, data)
                assert.is_true(r.done)
            end
            local chunked = CHUNKED_STREAM
            for i = 1, #body do
                local piece = body:sub(i, i)
                chunked = chunked .. ("1\r\n%s\r\n"):format(piece)
            end
            local _, data = s:raw(chunked .. "0\r\n\r\n", "&piece=5", { stream = "sse" })
            assert.same({ "a", "\xE2\x82\xAC" }, data)
        end)

        it("ends without [DONE] too, its last event without an empty line", function()
            local r, data = get("/x?body=" .. encode("data: a\n\ndata: b") .. SSE,
                { stream = "sse" })
            assert.same({ "a", "b" }, data)
            assert.is_nil(r.done)
            assert.is_nil(r.code)
        end)

        it("that breaks passes on what arrived, but no partial event", function()
            local body = "data: a\n\ndata: b\n"
            local r, data = s:raw(CHUNKED_STREAM .. ("%x\r\n%s\r\n"):format(#body, body),
                "&end=reset", { stream = "sse" })
            assert.equal("CONNECT", r.code)
            assert.is_true(r.streamed)
            assert.same({ "a" }, data)
            r, data = get("/x?cut=17&body=" .. encode(body .. "\n") .. SSE, { stream = "sse" })
            assert.equal("CONNECT", r.code)
            assert.same({ "a" }, data)
        end)

        it("that breaks after [DONE] is complete", function()
            local body = "data: a\n\ndata: [DONE]\n\n"
            local r, data = get("/x?cut=" .. #body .. "&body=" .. encode(body .. "x") .. SSE,
                { stream = "sse" })
            assert.is_nil(r.code)
            assert.is_true(r.done)
            assert.same({ "a" }, data)
        end)

        it("that does not end after [DONE] is ended", function()
            local r, data = get("/x?hang=1&body=" .. encode("data: a\n\ndata: [DONE]\n\n") .. SSE,
                { stream = "sse" })
            assert.is_nil(r.code)
            assert.is_true(r.done)
            assert.same({ "a" }, data)
        end)

        it("fails if no data event arrives, whatever else does", function()
            local body = encode("id: last\nretry: 70\ndata: a\n\n")
            for _, query in ipairs { "&ping=10", "&pingevent=10", "&hang=1" } do
                local r, data = get("/x?body=" .. body .. query .. SSE, { stream = "sse",
                    idle_timeout_ms = 60 })
                assert.equal("TIMEOUT", r.code)
                assert.equal("idle", r.timeout)
                assert.equal("a", data[1])
                assert.same({ "last", 70 }, { r.event_id, r.retry_ms })
                assert.is_true(r.total_ms >= 60)
            end
            local r = get("/x?delay=1000" .. SSE, { stream = "sse", idle_timeout_ms = 60 })
            assert.equal("idle", r.timeout)
        end)

        it("may take long while data events arrive", function()
            local body = encode(("data: a\n\n"):rep(12))
            local r, data = get("/x?piece=9&pace=50&body=" .. body .. SSE, { stream = "sse",
                idle_timeout_ms = 500 })
            assert.is_nil(r.code)
            assert.equal(12, #data)
            assert.is_true(r.total_ms > 500)
        end)

        it("that is not one has a body", function()
            local body = '{"error":{"message":"no"}}'
            local cases = {
                { "sse", "?status=400&type=application/json" },
                { "sse", "?type=application/json" },
                { "sse", "?type=text/event-stream" },
                { "sse", "?type=" },
                { "ndjson", "?status=404&type=application/json" },
            }
            for _, case in ipairs(cases) do
                local r, data = get("/x" .. case[2] .. "&body=" .. encode(body),
                    { stream = case[1] })
                assert.equal(body, r.body)
                assert.is_nil(r.streamed)
                assert.same({}, data)
            end
            for _, malformed in ipairs { "<html>", " \r\n\n<html>", "\xEF\xBB\xBF{", "[1]" } do
                local r = get("/x?type=text/event-stream&body=" .. encode(malformed),
                    { stream = "sse" })
                assert.equal(malformed, r.body)
            end
            assert.equal("<html>", get("/x?body=%3chtml%3e", { stream = "ndjson" }).body)
            assert.equal("oops", get("/x?type=text/html&body=oops", { stream = "sse" }).body)
        end)

        it("needs no content type", function()
            for _, type in ipairs { "", "text/plain", "text/event-stream;%20charset=utf-8" } do
                local r, data = get("/x?type=" .. type .. "&body="
                    .. encode("\n\n\xEF\xBB\xBFdata: b\n\ndata: a\n\n"),
                    { stream = "sse" })
                assert.is_true(r.streamed)
                assert.equal("a", data[#data])
            end
        end)

        it("has limits", function()
            local long = "data: " .. ("x"):rep(500) .. "\n\n"
            local r, data = get("/x?body=" .. encode("data: a\n\n" .. long) .. SSE,
                { stream = "sse", max_line_bytes = 100 })
            assert.equal("TOO_LARGE", r.code)
            assert.matches("max_line_bytes", r.error)
            assert.same({ "a" }, data)
            r = get("/x?body=" .. encode(long) .. SSE, { stream = "sse", max_event_bytes = 100 })
            assert.matches("max_event_bytes", r.error)
            r = get("/x?body=" .. encode(long) .. "&repeat=9" .. SSE, { stream = "sse",
                max_body_bytes = 3000 })
            assert.equal("TOO_LARGE", r.code)
            assert.matches("max_body_bytes", r.error)
        end)

        it("loses nothing if it arrives faster than it is read", function()
            local steer = "/s/deltas=20000/v1/chat/completions"
            local ids = {}
            for i = 1, 8 do
                ids[i] = pump:submit { url = s.url .. steer, body = '{"stream":true}',
                    stream = "sse" }
            end
            local results, events = calls.finish(pump)
            assert.equal(8 * 20002, #events)
            for _, id in ipairs(ids) do
                assert.equal(20002, results[id].events)
                assert.is_true(results[id].done)
            end
        end)
    end)
end)
