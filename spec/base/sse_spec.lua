-- The reader of event streams (src/core/sse.c) alone: spec/support/streams.c.

local memory = require "memory"

require("shell").build "streams.so"
local streams = require "streams"

local BOM = "\xEF\xBB\xBF"

--- Feeds pieces; returns the events as {name, data} pairs and whether [DONE] came, or nil and the
--- code.
local function read(format, pieces, opts)
    opts = opts or {}
    local reader <close> = streams.reader(format, opts.max_line_bytes, opts.max_event_bytes)
    local events = {}
    local function take(list, code)
        for i = 1, list and #list or 0, 2 do
            events[#events + 1] = { list[i], list[i + 1] }
        end
        return list ~= nil, code
    end
    for _, piece in ipairs(pieces) do
        local ok, code = take(reader:feed(piece))
        if not ok then
            return nil, code
        end
    end
    local ok, code = take(reader:finish())
    if not ok then
        return nil, code
    end
    return events, reader:done()
end

--- A case fed whole, cut in two at every byte, and byte by byte.
local function each_cut(bytes, check)
    check({ bytes }, "whole")
    local single = {}
    for i = 1, #bytes do
        check({ bytes:sub(1, i - 1), bytes:sub(i) }, "cut before byte " .. i)
        single[i] = bytes:sub(i, i)
    end
    check(single, "byte by byte")
end

local function message(...)
    local events = {}
    for i, data in ipairs { ... } do
        events[i] = { "message", data }
    end
    return events
end

-- name, bytes, events, done
local SSE_CASES = {
    { "nothing", "", {} },
    { "one event", "data: a\n\n", message("a") },
    { "CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", message("a", "b") },
    { "CR", "data: a\r\rdata: b\r\r", message("a", "b") },
    { "line ends mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r", message("a", "b",
        "c", "d") },
    { "LF after CR is one end, LF LF are two", "data: a\r\ndata: b\n\n", message("a\nb") },
    { "no space after the colon", "data:a\n\n", message("a") },
    { "one space goes, a second stays", "data:  a\n\n", message(" a") },
    { "a tab stays", "data:\ta\n\n", message("\ta") },
    { "several data lines", "data: a\ndata: b\ndata:\ndata: c\n\n", message("a\nb\n\nc") },
    { "data without a colon is an empty line", "data\n\n", message("") },
    { "data twice without a colon", "data\ndata\n\n", message("\n") },
    { "empty data", "data:\n\n", message("") },
    { "comments", ": one\n:two\ndata: a\n:three\n\n: four\n\n", message("a") },
    { "an event without data is none", "event: x\n\ndata: a\n\n", message("a") },
    { "empty lines alone", "\n\n\n\r\n\r\r", {} },
    { "a name", "event: ping\ndata: {}\n\n", { { "ping", "{}" } } },
    { "a name after the data", "data: a\nevent: x\n\n", { { "x", "a" } } },
    { "the last name counts", "event: x\nevent: y\ndata: a\n\n", { { "y", "a" } } },
    { "a name is for one event only", "event: x\ndata: a\n\ndata: b\n\n", { { "x", "a" },
        { "message", "b" } } },
    { "an empty name", "event:\ndata: a\n\n", message("a") },
    { "id, retry and unknown fields", "id: 1\nretry: 5\nfoo: bar\ndatax: b\ndat: c\ndata: a\n\n",
        message("a") },
    { "names of fields are exact", "Data: b\n data: c\ndata : d\ndata: a\n\n", message("a") },
    { "a colon in the data", "data: a:b: c\n\n", message("a:b: c") },
    { "a byte order mark", BOM .. "data: a\n\n", message("a") },
    { "only one, only in front", BOM .. BOM .. "data: a\n" .. BOM .. "data: b\ndata: c\n\n",
        message("c") },
    { "UTF-8", "data: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n\n",
        message("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80") },
    { "bytes that are not UTF-8", "data: \xFF\xC3\xF0\x28\n\n", message("\xFF\xC3\xF0\x28") },
    { "NUL", "data: a\0b\n\n", message("a\0b") },
    { "no empty line at the end", "data: a\n\ndata: b\n", message("a", "b") },
    { "no line end at the end", "data: a\n\nevent: x\ndata: b", { { "message", "a" }, { "x",
        "b" } } },
    { "a CR at the end", "data: a\r", message("a") },
    { "[DONE]", "data: a\n\ndata: [DONE]\n\n", message("a"), true },
    { "[DONE] without a space", "data:[DONE]\r\n\r\n", {}, true },
    { "[DONE] without an empty line", "data: a\n\ndata: [DONE]", message("a"), true },
    { "nothing after [DONE] counts", "data: [DONE]\n\ndata: b\n\n", {}, true },
    { "[DONE] in a line of two", "data: [DONE]\ndata: b\n\n", message("[DONE]\nb") },
    { "almost [DONE]", "data: [done]\n\ndata:  [DONE]\n\ndata: [DONE] \n\n", message("[done]",
        " [DONE]", "[DONE] ") },
}

local NDJSON_CASES = {
    { "nothing", "", {} },
    { "lines", '{"a":1}\n{"b":2}\n', message('{"a":1}', '{"b":2}') },
    { "CRLF", '{"a":1}\r\n{"b":2}\r\n', message('{"a":1}', '{"b":2}') },
    { "no line end at the end", '{"a":1}\n{"b":2}', message('{"a":1}', '{"b":2}') },
    { "blank lines", '\n\r\n  \t\n{"a":1}\n\n', message('{"a":1}') },
    { "blanks around", ' \t{"a":1} \r\n', message('{"a":1}') },
    { "a CR alone ends no line", '{"a":\r1}\n', message('{"a":\r1}') },
    { "a byte order mark", BOM .. '{"a":1}\n', message('{"a":1}') },
    { "UTF-8", '"\xE2\x82\xAC"\n', message('"\xE2\x82\xAC"') },
    { "fields mean nothing", "data: a\n: b\n", message("data: a", ": b") },
    { "[DONE] means nothing", "[DONE]\n1\n", message("[DONE]", "1") },
}

for format, cases in pairs { sse = SSE_CASES, ndjson = NDJSON_CASES } do
    describe("the " .. format .. " reader", function()
        for _, case in ipairs(cases) do
            local name, bytes, wanted, wanted_done = table.unpack(case, 1, 4)
            it("reads " .. name .. ", cut anywhere", function()
                each_cut(bytes, function(pieces, how)
                    local events, done = read(format, pieces)
                    assert.same(wanted, events, how)
                    assert.equal(wanted_done or false, done, how)
                end)
            end)
        end
    end)
end

describe("the readers' limits", function()
    local function codes(format, bytes, opts)
        local found = {}
        each_cut(bytes, function(pieces)
            local events, code = read(format, pieces, opts)
            found[events and "ok" or code] = true
        end)
        return found
    end

    it("accept a line of max_line_bytes and none longer", function()
        for _, stop in ipairs { "\n", "\r", "\r\n" } do
            local opts = { max_line_bytes = 10 }
            assert.same({ ok = true }, codes("sse", "data: abcd" .. stop .. stop, opts))
            assert.same({ TOO_LARGE = true }, codes("sse", "data: abcde" .. stop .. stop, opts))
        end
        assert.same({ ok = true }, codes("ndjson", "0123456789\n", { max_line_bytes = 10 }))
        assert.same({ TOO_LARGE = true }, codes("ndjson", "0123456789a\n", { max_line_bytes = 10 }))
    end)

    it("apply to skipped lines too", function()
        assert.same({ TOO_LARGE = true }, codes("sse", ":0123456789\n\n", { max_line_bytes = 10 }))
        assert.same({ TOO_LARGE = true }, codes("sse", "x: 123456789", { max_line_bytes = 10 }))
    end)

    it("accept an event of max_event_bytes and none larger", function()
        local opts = { max_event_bytes = 5 }
        assert.same({ ok = true }, codes("sse", "data: abcde\n\n", opts))
        assert.same({ TOO_LARGE = true }, codes("sse", "data: abcdef\n\n", opts))
        assert.same({ ok = true }, codes("sse", "data: ab\ndata: cd\n\ndata: abcde\n\n", opts))
        assert.same({ TOO_LARGE = true }, codes("sse", "data: ab\ndata: cde\n\n", opts))
        assert.same({ TOO_LARGE = true }, codes("sse", "data: abcde\ndata\n\n", opts))
        assert.same({ TOO_LARGE = true }, codes("ndjson", "123456\n", opts))
    end)

    it("stop the reader for good", function()
        local reader <close> = streams.reader("sse", 8)
        assert.equal(2, #reader:feed("data: a\n\n"))
        for _ = 1, 3 do
            local events, code = reader:feed("data: 0123456789\n\n")
            assert.same({ nil, "TOO_LARGE" }, { events, code })
        end
        assert.is_nil((reader:finish()))
    end)
end)

describe("the sse reader and a slow obvious one", function()
    --- All lines first, then each line in turn, as in the WHATWG specification.
    local function reference(bytes)
        local events, data, name = {}, nil, ""
        bytes = bytes:gsub("^" .. BOM, ""):gsub("\r\n", "\n"):gsub("\r", "\n")
        if bytes:sub(-1) ~= "\n" then
            bytes = bytes .. "\n"
        end
        for line in (bytes .. "\n"):gmatch("([^\n]*)\n") do
            if line == "" then
                if data then
                    events[#events + 1] = { name ~= "" and name or "message", data }
                end
                data, name = nil, ""
            elseif line:sub(1, 1) ~= ":" then
                local field, value = line:match("^([^:]*):?(.*)$")
                value = value:gsub("^ ", "")
                if field == "data" then
                    data = data and data .. "\n" .. value or value
                elseif field == "event" then
                    name = value
                end
            end
        end
        return events
    end

    it("agree on random streams in random pieces", function()
        local words = { "data", "data:", "data: ", "event:", "event: x", ":", "id: 3", "\n", "\r",
            "\r\n", "\n\n",
            "\r\n\r\n", "a", "\xE2\x82\xAC", "\0", BOM, " ", "data: [DONE", "foo: bar", "\n",
                "\n", "\n" }
        math.randomseed(20250101)
        for _ = 1, 3000 do
            local parts = {}
            for i = 1, math.random(0, 25) do
                parts[i] = words[math.random(#words)]
            end
            local bytes, pieces, at = table.concat(parts), {}, 1
            while at <= #bytes do
                local n = math.random(1, 12)
                pieces[#pieces + 1] = bytes:sub(at, at + n - 1)
                at = at + n
            end
            assert.same(reference(bytes), (read("sse", pieces)), ("%q"):format(bytes))
        end
    end)

    it("agree on a long stream fed in one piece of CR lines", function()
        local bytes = ("data: x\r\r"):rep(20000)
        local events = read("sse", { bytes })
        assert.equal(20000, #events)
    end)
end)

describe("a reader", function()
    it("reports that memory is short", function()
        memory.sweep [[
            local streams = require "streams"
            return function()
                local reader <close> = streams.reader "sse"
                local many, events = ("data: y\n\n"):rep(200), nil
                for _, piece in ipairs { "event: x\nda", "ta: 1\ndata: 2\n", "\n", many } do
                    local code
                    events, code = reader:feed(piece)
                    if not events then
                        assert(code == "NO_MEMORY", code)
                        error("not enough memory")
                    end
                end
                assert(#events == 400)
                assert(#reader:finish() == 0)
            end
        ]]
    end)
end)
