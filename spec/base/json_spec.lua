local json = require "ponder.json"
local cjson = require "cjson"
local memory = require "memory"

local ROUNDS = 10000

-------------------------------------------------------------------------------
-- A slow, plain reference: equality bit for bit, and random values

local function same_bits(a, b)
    return math.type(a) == math.type(b) and string.pack("n", a) == string.pack("n", b)
        and (math.type(a) ~= "integer" or a == b)
end

local function identical(a, b)
    if type(a) == "number" and type(b) == "number" then
        return same_bits(a, b)
    elseif type(a) ~= "table" or type(b) ~= "table" then
        return a == b
    end
    for key, value in pairs(a) do
        if not identical(value, b[key]) then
            return false
        end
    end
    for key in pairs(b) do
        if a[key] == nil then
            return false
        end
    end
    return true
end

local SPECIAL_NUMBERS = {
    0, 1, -1, math.maxinteger, math.mininteger, 2 ^ 53, 2 ^ 53 + 1, 2 ^ 63, -2 ^ 63, 0.0, -0.0,
    0.1, 1 / 3, 1e15, 1e16, 1e17, 1e21, 1e22, 1e23, 123456789012345680.0, 5e-324,
    2.2250738585072014e-308,
    2.225073858507201e-308, 1.7976931348623157e308, 9007199254740993, 0.1 + 0.2, 1e-5, 9.5e-6, 1e-7,
    5.684341886080802e-14, 8.41e21, 9.5367431640625e-07, 4.35, 100.0, 1e300, 299792458.0,
}

local function random_number()
    local kind = math.random(6)
    if kind == 1 then
        return math.random(0) -- any 64 bits
    elseif kind == 2 then
        return math.random(-1000, 1000)
    elseif kind == 3 then
        return math.random(-100000, 100000) / 100
    elseif kind == 4 then
        return SPECIAL_NUMBERS[math.random(#SPECIAL_NUMBERS)]
    end
    while true do
        local double = string.unpack("d", string.pack("j", math.random(0)))
        if double == double and double ~= math.huge and double ~= -math.huge then
            return double
        end
    end
end

local PIECES = { "a", "key", " ", '"', "\\", "/", "\0", "\1", "\n", "\t", "\r", "\b", "\f", "\x1f",
    "\x7f", "\u{80}", "\u{E9}", "\u{7FF}", "\u{800}", "\u{20AC}", "\u{D7FF}", "\u{E000}",
    "\u{FFFD}", "\u{FFFF}", "\u{10000}", "\u{1F600}", "\u{10FFFF}", "lorem ipsum dolor sit amet " }

local function random_string()
    local parts = {}
    for i = 1, math.random(0, 6) do
        parts[i] = PIECES[math.random(#PIECES)]
    end
    return table.concat(parts)
end

local function random_value(depth)
    local kind = math.random(depth > 0 and 7 or 5)
    if kind == 1 then
        return json.null
    elseif kind == 2 then
        return math.random(2) == 1
    elseif kind == 3 then
        return random_string()
    elseif kind <= 5 then
        return random_number()
    end
    local value = kind == 6 and json.array() or {}
    local count = math.random(20) == 1 and 40 or math.random(0, 5)
    for i = 1, count do
        value[kind == 6 and i or random_string()] = random_value(depth - 1)
    end
    return value
end

-------------------------------------------------------------------------------

local function shown(text)
    return ("%q"):format(text:sub(1, 40)):gsub("[%c\x80-\xFF]", "?")
end

describe("json.encode", function()
    local shared = { 1 }
    for _, case in ipairs {
        { json.null, "null" }, { true, "true" }, { false, "false" }, { nil, "null" },
        { 0, "0" }, { -7, "-7" }, { math.maxinteger, "9223372036854775807" },
        { math.mininteger, "-9223372036854775808" },
        { 1.0, "1.0" }, { -0.0, "-0.0" }, { 0.0, "0.0" }, { 0.1, "0.1" }, { -12.5, "-12.5" },
        { 1 / 3, "0.3333333333333333" }, { 0.1 + 0.2, "0.30000000000000004" },
        { 100.0, "100.0" }, { 1e14, "100000000000000.0" }, { 1e16, "1e+16" },
        { 1.5e300, "1.5e+300" }, { 1e-4, "0.0001" }, { 1e-5, "1e-05" }, { 1.25e-7, "1.25e-07" },
        { 5e-324, "4.94065645841247e-324" }, { 2 ^ 53, "9007199254740992.0" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { "", '""' }, { "a/b", '"a/b"' }, { 'q"\\', '"q\\"\\\\"' },
        { "\b\f\n\r\t\0\x1f\x7f", '"\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"' },
        { "\u{20AC}\u{1F600}", '"\u{20AC}\u{1F600}"' },
        { {}, "{}" }, { json.array(), "[]" }, { json.array {}, "[]" }, { json.object(), "{}" },
        { { 1, 2, 3 }, "[1,2,3]" }, { { json.null }, "[null]" }, { { {} }, "[{}]" },
        { { b = 1, a = 2, B = 3, [""] = 4, ab = 5 }, '{"":4,"B":3,"a":2,"ab":5,"b":1}' },
        { { a = json.array(), b = { json.array { 1 } } }, '{"a":[],"b":[[1]]}' },
        { { a = shared, b = shared }, '{"a":[1],"b":[1]}' },
    } do
        it("writes " .. case[2], function()
            assert.equal(case[2], json.encode(case[1]))
        end)
    end

    it("replaces invalid UTF-8 by U+FFFD, one for each broken sequence", function()
        local R = "\u{FFFD}"
        for bytes, repaired in pairs {
            ["\xFF"] = R, ["a\x80b"] = "a" .. R .. "b", ["\xC0\x80"] = R .. R,
            ["\xED\xA0\x80"] = R .. R .. R, ["\xE2\x82"] = R, ["\xE2\x82x"] = R .. "x",
            ["\xF0\x9F\x98"] = R, ["\xF4\x90\x80\x80"] = R .. R .. R .. R,
            ["\xE0\x80\x80"] = R .. R .. R, ["\xC3"] = R, ["\xC3\u{E9}"] = R .. "\u{E9}",
        } do
            assert.equal('"' .. repaired .. '"', json.encode(bytes))
            assert.equal('{"' .. repaired .. '":1}', json.encode { [bytes] = 1 })
            assert.equal(repaired, json.decode('"' .. bytes .. '"'))
        end
    end)

    it("sorts many keys bytewise", function()
        for _, count in ipairs { 2, 16, 17, 31, 32, 33, 63, 64, 65, 66, 1000, 5000 } do
            local object, keys = {}, {}
            for i = 1, count do
                local key = ("x"):rep(i % 3 * 4) .. string.pack(">I2", i * 7919 % 65536)
                    :gsub(".", function(c) return ("%02x"):format(c:byte()) end)
                keys[i], object[key] = key, i
            end
            table.sort(keys)
            local seen = {}
            for key in json.encode(object):gmatch('"(x*%x+)"') do
                seen[#seen + 1] = key
            end
            assert.same(keys, seen)
            assert.is_true(identical(object, json.decode(json.encode(object))))
            assert.is_true(identical(keys, json.decode(json.encode(keys))))
        end
        assert.equal('{"a":1,"a\\u0000":2,"aaaaaaaa":3,"aaaaaaaa\\u0000":4,"aaaaaaaab":5,'
            .. '"\u{E9}":6}',
            json.encode { ["\u{E9}"] = 6, aaaaaaaab = 5, ["aaaaaaaa\0"] = 4, aaaaaaaa = 3,
                ["a\0"] = 2, a = 1 })
    end)

    it("indents", function()
        assert.equal([[
{
  "a": [
    1,
    {}
  ],
  "b": []
}]], json.encode({ a = { 1, {} }, b = json.array() }, { indent = 2 }))
        assert.equal("[\n 1\n]", json.encode({ 1 }, { indent = 1 }))
        assert.equal("[1]", json.encode({ 1 }, { indent = 0 }))
    end)

    it("reads what has __len and __index through them", function()
        local lazy = setmetatable({}, {
            __len = function() return 3 end,
            __index = function(_, i) return { id = i } end,
        })
        assert.equal('{"nodes":[{"id":1},{"id":2},{"id":3}]}', json.encode { nodes = lazy })
        local object = setmetatable({ x = 1 }, { __index = { y = 2 } })
        assert.equal('{"x":1}', json.encode(object))
    end)

    local loop = {}
    loop.a = { 1, { b = loop } }
    local deep = {}
    for _ = 1, 1000 do
        deep = { deep }
    end
    for _, case in ipairs {
        { print, "value: a function cannot be JSON" },
        { { a = { 1, 2, { f = print } } }, "value.a[3].f: a function cannot be JSON" },
        { { a = 0 / 0 }, "value.a: NaN cannot be JSON" },
        { { 1, math.huge }, "value[2]: infinity cannot be JSON" },
        { { -math.huge }, "value[1]: -infinity cannot be JSON" },
        { loop, "value.a[2].b: a table that contains itself cannot be JSON" },
        { { 1, nil, 3 }, "value: a list with a hole at [2] cannot be JSON" },
        { { x = { [2] = 1 } }, "value.x: a list with a hole at [1] cannot be JSON" },
        { { [math.maxinteger] = 1 }, "value: a list with a hole at [1] cannot be JSON" },
        { { 1, n = 1 }, "value: a table with both list items and the key .n cannot be JSON" },
        { { [1.5] = 1 }, "value: the key [1.5] cannot be JSON" },
        { { [0] = 1 }, "value: the key [0] cannot be JSON" },
        { { [true] = 1 }, "value: the key [true] cannot be JSON" },
        { json.object { 1 }, "value: the key [1] cannot be JSON" },
        { json.array { 1, n = 1 }, "value: the key .n cannot be JSON" },
        { io.stdout, "value: a userdata cannot be JSON" },
        { { coroutine.create(print) }, "value[1]: a thread cannot be JSON" },
        { { ["a b"] = { ["x\n"] = print } }, 'value["a b"]["x\\n"]: a function cannot be JSON' },
        { setmetatable({}, { __len = function() return "x" end, __index = {} }),
            "value: a value whose __len does not return a length cannot be JSON" },
        { setmetatable({}, { __len = function() return 2 end, __index = { 1 } }),
            "value[2]: nil cannot be JSON" },
    } do
        it("says: " .. case[2], function()
            local ok, message = pcall(function() return (json.encode(case[1])) end)
            assert.is_false(ok)
            assert.equal("json.encode: " .. case[2], message:match("_spec.lua:%d+: (.*)$"))
        end)
    end

    it("abbreviates a long path in the middle", function()
        assert.error_matches(function() json.encode(deep) end, "json.encode: value"
            .. ("[1]"):rep(10) .. " ... " .. ("[1]"):rep(10)
            .. ": nesting deeper than 1000 tables cannot be JSON", 1, true)
        assert.equal(("["):rep(1000) .. "{}" .. ("]"):rep(1000),
            json.encode(deep, { max_depth = 1001 }))
    end)

    it("passes on errors of metamethods", function()
        local bad = setmetatable({}, {
            __len = function() return 3 end,
            __index = function() error("no such item", 0) end,
        })
        assert.error(function() json.encode { bad } end, "no such item")
    end)

    it("survives a metamethod that changes the table", function()
        local object = { a = 1 }
        for i = 1, 200 do
            object["some key that is not interned because it is so long, number " .. i] = i
        end
        object.a = setmetatable({}, {
            __len = function() return 1 end,
            __index = function()
                for key in pairs(object) do object[key] = nil end
                collectgarbage()
                return 7
            end,
        })
        assert.error_matches(function() json.encode(object) end,
            'value%["some key that is not interned.*nil cannot be JSON')
    end)
end)

describe("json.decode", function()
    for _, case in ipairs {
        { "null", json.null }, { " true ", true }, { "\t\r\n false", false }, { "1", 1 },
        { "-0", 0 }, { "-0.0", -0.0 }, { "1.0", 1.0 }, { "1e2", 100.0 }, { "1E+2", 100.0 },
        { "25e-1", 2.5 }, { "9223372036854775807", math.maxinteger },
        { "-9223372036854775808", math.mininteger }, { "9223372036854775808", 2.0 ^ 63 },
        { "-9223372036854775809", -2.0 ^ 63 }, { "1e999", math.huge }, { "-1e999", -math.huge },
        { "Infinity", math.huge }, { "-Infinity", -math.huge }, { "1e-999", 0.0 },
        { "100000000000000000000", 1e20 }, { "0." .. ("0"):rep(5000) .. "1e5001", 1.0 },
        { "1" .. ("0"):rep(5000) .. "e-5000", 1.0 },
        { "9007199254740993.0", 9007199254740992.0 }, -- halfway: to even
        { "9007199254740993." .. ("0"):rep(900), 9007199254740992.0 },
        { "9007199254740993." .. ("0"):rep(900) .. "1", 9007199254740994.0 },
        { '""', "" }, { '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t' },
        { '"\\u0000\\u0041\\u00e9\\u20AC"', "\0A\u{E9}\u{20AC}" },
        { '"\\ud83d\\ude00"', "\u{1F600}" }, { '"\\uD83D\\uDE00"', "\u{1F600}" },
        { '"\\ud83d"', "\u{FFFD}" }, { '"\\ude00x"', "\u{FFFD}x" },
        { '"\\ud83d\\ud83d\\ude00"', "\u{FFFD}\u{1F600}" }, { '"\\ud83d\\n"', "\u{FFFD}\n" },
        { '"\\ud83d\\u0041"', "\u{FFFD}A" },
        { '"raw\n\t\0\x1f"', "raw\n\t\0\x1f" }, { "\xEF\xBB\xBF[1]", { 1 } },
        { "[]", {} }, { "{}", {} }, { "[ ]", {} }, { "{ }", {} }, { "[[],[[]]]", { {}, { {} } } },
        { '{"a":1,"b":[true,null]}', { a = 1, b = { true, json.null } } },
        { '{"a":1,"a":2,"a":3}', { a = 3 } }, { '{"":{"":0}}', { [""] = { [""] = 0 } } },
        { '{"a\\u0062":1,"ab":2}', { ab = 2 } },
    } do
        it("reads " .. shown(case[1]), function()
            local value, message = json.decode(case[1])
            assert.is_nil(message)
            assert.is_true(identical(case[2], value))
        end)
    end

    it("refuses NaN, infinities and what becomes one if asked to", function()
        for _, text in ipairs { "NaN", "[1,-Infinity]", '{"a":1e400}' } do
            local value, message, code = json.decode(text, { finite = true })
            assert.is_nil(value)
            assert.matches("expected a finite number at byte %d+ ", message)
            assert.equal("BAD_JSON", code)
        end
        assert.same({ 1e300, 9e18, 1 }, json.decode("[1e300,9e18,1]", { finite = true }))
    end)

    it("reads NaN", function()
        local value = json.decode("[NaN]")[1]
        assert.is_true(value ~= value)
    end)

    for _, case in ipairs {
        { "", 1 }, { "  ", 3 }, { "[1,]", 4 }, { "[,1]", 2 }, { "[1 2]", 4 }, { "[1", 3 },
        { "]", 1 },
        { '{"a":1,}', 8 }, { '{"a"}', 5 }, { '{"a" 1}', 6 }, { "{a:1}", 2 }, { "{1:2}", 2 },
        { '{"a":1 "b":2}', 8 }, { "{,}", 2 }, { '{"a":}', 6 }, { "[1}", 3 }, { '{"a":1]', 7 },
        { "nul", 1 }, { "nulll", 5 }, { "True", 1 }, { "'a'", 1 }, { "// x\n1", 1 }, { "1 2", 3 },
        { "[1] x", 5 }, { "01", 1 }, { "-01", 2 }, { "-", 2 }, { "+1", 1 }, { ".5", 1 },
        { "1.", 3 }, { "1.e5", 3 }, { "1e", 3 }, { "1e+", 4 }, { "0x10", 2 }, { "-a", 2 },
        { '"abc', 1 }, { '"\\q"', 2 }, { '"\\u12"', 2 }, { '"\\u12g4"', 2 }, { '"\\', 2 },
        { '"a\\', 3 }, { '"\\"', 1 }, { "\0", 1 }, { "[1]\0", 4 }, { "\xFF", 1 }, { "-Infinit", 2 },
        { "\xEF\xBB\xBF", 4 },
    } do
        it(("refuses %s at byte %d"):format(shown(case[1]), case[2]), function()
            local value, message, code = json.decode(case[1])
            assert.same({ nil, "BAD_JSON" }, { value, code })
            assert.equal(case[2], tonumber(message:match("^json.decode: .+ at byte (%d+) %(line")))
        end)
    end

    it("reports where, in lines and characters", function()
        local _, message = json.decode('{\n  "a": "\u{20AC}\u{20AC}", x\n}')
        assert.equal("json.decode: expected a key in double quotes at byte 20 "
            .. "(line 2, column 14)", message)
    end)

    it("limits depth and size", function()
        local value, message, code = json.decode("[[1]]", { max_depth = 1 })
        assert.same({ nil, "TOO_DEEP" }, { value, code })
        assert.truthy(message:find("at byte 2", 1, true))
        assert.same({ { 1 } }, json.decode("[[1]]", { max_depth = 2 }))
        value, message, code = json.decode("[1]", { max_bytes = 2 })
        assert.same({ nil, "TOO_LARGE" }, { value, code })
        assert.equal("json.decode: the text has 3 bytes, more than max_bytes = 2", message)
        assert.same({ 1 }, json.decode("[1]", { max_bytes = 3.0 }))
        for text, bytes in pairs { ["[[],[]]"] = 216, ["[1,null]"] = 104, ['{"a":"bc"}'] = 165,
            ["[{}]"] = 144 } do
            assert.is_not_nil((json.decode(text, { max_memory_bytes = bytes })))
            value, message, code = json.decode(text, { max_memory_bytes = bytes - 1 })
            assert.same({ nil, "TOO_LARGE" }, { value, code })
            assert.matches("^json.decode: the value takes more than max_memory_bytes at byte %d+ ",
                message)
        end
    end)

    it("handles any depth", function()
        for _, piece in ipairs { "[", '{"a":', '[{"a":' } do
            local text = piece:rep(1000000)
            assert.equal("TOO_DEEP", select(3, json.decode(text .. "1")))
            assert.is_nil((json.get(text .. "1", "a", 2, 3)))
        end
        for _, depth in ipairs { 31, 32, 33, 1000 } do
            local text = ("["):rep(depth) .. ("]"):rep(depth)
            assert.equal(text, json.encode(json.decode(text)))
            text = ('{"a":'):rep(depth) .. "[1,2]" .. ("}"):rep(depth)
            assert.equal(text, json.encode((json.decode(text, { max_depth = depth + 1 })),
                { max_depth = depth + 1 }))
        end
        local text = ('[1,2,{"a":1,"b":'):rep(5000) .. "0" .. ("}]"):rep(5000)
        local opts = { max_depth = 10000 }
        assert.equal(text, json.encode(json.decode(text, opts), opts))
    end)
end)

describe("ponder.json", function()
    it("restores every random value, with the bits of its numbers", function()
        math.randomseed(20240607)
        for i = 1, ROUNDS do
            local value = random_value(4)
            local text = json.encode(value, { indent = i % 3 })
            local back, message = json.decode(text)
            assert(message == nil, message)
            assert(identical(value, back), text)
            assert(json.encode(back, { indent = i % 3 }) == text, text)
        end
    end)

    it("writes the shortest text of a double", function()
        math.randomseed(7)
        for _ = 1, ROUNDS do
            local value = random_number() + 0.0
            local text = json.encode(value)
            assert(same_bits(tonumber(text), value), text)
            assert(#text:gsub("[^%d]", "") > 0)
            local digits = text:gsub("e.*", ""):gsub("[-.]", ""):gsub("^0+", ""):gsub("0+$", "")
            local normal = math.abs(value) >= 2 ^ -1022 -- others may have fewer than 15 digits
            for precision = normal and math.max(1, #digits - 3) or 15, #digits - 1 do
                local shorter = ("%%.%dg"):format(precision):format(value)
                assert(not same_bits(tonumber(shorter), value), text .. " and " .. shorter)
            end
        end
    end)

    it("reads every number as Lua does", function()
        math.randomseed(11)
        local function digits(most)
            local list = {}
            for i = 1, math.random(most) do
                list[i] = math.random(4) == 1 and 0 or math.random(0, 9)
            end
            return table.concat(list)
        end
        for _ = 1, ROUNDS // 2 do
            local most = math.random(50) == 1 and 900 or 22
            local text = (math.random(2) == 1 and "-" or "")
                .. (math.random(4) == 1 and "0" or math.random(9) .. digits(most))
                .. (math.random(3) > 1 and "." .. digits(most) or "")
                .. (math.random(3) == 1 and ("e%+d"):format(math.random(-340, 340)) or "")
            -- Lua reads numbers too large for integers as floats, and -0 as the integer 0.
            assert(same_bits(tonumber(text), (json.decode(text))), text)
        end
    end)

    it("agrees with lua-cjson on random documents", function()
        math.randomseed(99)
        -- Only what cjson supports: floats for numbers, 14 digits, no control character unescaped.
        local function plain(value)
            if type(value) == "number" then
                local rounded = tonumber(("%.10g"):format(value)) + 0.0
                return math.abs(rounded) < math.huge and rounded or 0.0
            elseif type(value) == "table" then
                local copy = {}
                for key, item in pairs(value) do copy[key] = plain(item) end
                return getmetatable(value) and json.array(copy) or copy
            end
            return value
        end
        for _ = 1, ROUNDS // 10 do
            local value = { plain(random_value(4)) }
            assert(identical(value, cjson.decode(json.encode(value))))
            local theirs = cjson.encode(value)
            assert(identical(plain(json.decode(theirs)), plain(cjson.decode(theirs))))
        end
    end)

    it("fails on every proper beginning of a text, and nowhere else", function()
        local text = json.encode {
            a = { 1, -2.5e-7, true, json.null, {}, json.array() }, ["\u{E9}\n"] = "\u{1F600}\\\1x",
        }:gsub("\u{1F600}", "\\ud83d\\ude00")
        for i = 0, #text - 1 do
            local value, message, code = json.decode(text:sub(1, i))
            assert.same({ nil, "BAD_JSON" }, { value, code })
            assert.truthy(tonumber(message:match("at byte (%d+)")) <= i + 1)
        end
        assert.truthy(json.decode(text))
        assert.truthy(json.decode(text .. " \n"))
    end)

    it("reads and writes ten megabytes", function()
        local item = ('{"id":1,"tags":["a","b"],"text":"%s"},'):format(("x"):rep(70))
        local text = "[" .. item:rep(100000) .. "7]"
        assert.equal(text, json.encode(json.decode(text)))
        assert.equal(7, json.get(text, 100001))
        local long = ("\u{20AC}\"\n"):rep(2000000)
        assert.equal(long, json.decode(json.encode(long)))
    end)

    it("does not depend on the locale", function()
        for _, name in ipairs { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8" } do
            if os.setlocale(name) then
                break
            end
        end
        local text, value = json.encode { 0.5, 1 / 3 }, json.decode("[1.5,0.30000000000000004]")
        os.setlocale("C")
        assert.equal("[0.5,0.3333333333333333]", text)
        assert.is_true(identical({ 1.5, 0.1 + 0.2 }, value))
    end)

    it("survives every allocation failing, and leaks nothing", function()
        local allocations = memory.sweep [[
            local json = require "ponder.json"
            local text = '{"deep":' .. ("["):rep(50) .. '"caf\\u00e9, too long to be interned ...."'
                .. ("]"):rep(50) .. ',"list":[' .. ("1,"):rep(100) .. '1]'
            for i = 1, 100 do text = text .. (',"key %03d":%d.5'):format(i, i) end
            text = text .. "}"
            return function()
                local value = assert(json.decode(text))
                assert(json.encode(value, { indent = 1 }))
                assert(#json.get(text, "list") == 101)
                assert(not json.decode(text .. "x"))
                local ok, message = pcall(json.encode, { value, { print } })
                if not ok and message:find("not enough memory") then error(message, 0) end
                assert(json.array() and json.object())
            end
        ]]
        assert.truthy(allocations > 100)
    end)

    it("has cjson's null", function()
        assert.equal(cjson.null, json.null)
        assert.equal("null", json.encode(cjson.null))
        assert.equal("null", cjson.encode(json.null))
    end)
end)

describe("json.get", function()
    local chunk = '{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,'
        .. '"delta":{"content":" Hello","role":null},"finish_reason":null}],"usage":{"n":3}}'

    it("finds a value by its path", function()
        assert.equal(" Hello", json.get(chunk, "choices", 1, "delta", "content"))
        assert.equal(json.null, json.get(chunk, "choices", 1, "delta", "role"))
        assert.same({ n = 3 }, json.get(chunk, "usage"))
        assert.equal(3, json.get(chunk, "usage", "n"))
        assert.same({ 1, 2 }, json.get("[1,2]"))
        assert.equal(2, json.get("[1, 2 ]", 2.0))
        assert.equal(1, json.get('{"a\\u0062\\n":1}', "ab\n"))
        assert.equal("[]", json.encode(json.get('{"a":[]}', "a")))
    end)

    it("returns nil, and no message, for a missing value", function()
        for _, path in ipairs {
            { "nope" }, { "choices", 2 }, { "choices", 0 }, { "choices", -1 }, { "choices", "1" },
            { "id", 1 }, { 1 }, { "usage", "n", "x" }, { "choices", 1, "delta", "conten" },
            { "choices", 1, "delta", "content2" },
        } do
            assert.equal(1, select("#", json.get(chunk, table.unpack(path))))
            assert.is_nil((json.get(chunk, table.unpack(path))))
        end
    end)

    it("reports malformed text on the path, and reads no further", function()
        local value, message, code = json.get('{"a":1 "b":2}', "b")
        assert.is_nil(value)
        assert.equal("json.get: expected ',' or '}' at byte 8 (line 1, column 8)", message)
        assert.equal("BAD_JSON", code)
        assert.equal(1, json.get('{"a":1 "b":2}', "a"))
        assert.equal("BAD_JSON", select(3, json.get("[1,x]", 2)))
        assert.equal("BAD_JSON", select(3, json.get("[1", 2)))
        assert.equal("BAD_JSON", select(3, json.get('{"a":[1,', "a")))
    end)

    it("agrees with decode", function()
        math.randomseed(5)
        local function check(text, value, path)
            local found = json.get(text, table.unpack(path))
            assert(identical(value, found), text)
            if type(value) == "table" then
                for key, item in pairs(value) do
                    path[#path + 1] = key
                    check(text, item, path)
                    path[#path] = nil
                end
            end
        end
        for _ = 1, ROUNDS // 50 do
            local value = random_value(3)
            check(json.encode(value), value, {})
        end
    end)
end)

describe("arguments of ponder.json", function()
    for _, case in ipairs {
        { "json.encode: opts must be a table (got 3)", json.encode, 1, 3 },
        { "json.encode: opts.indent must be an integer from 0 to 16 (got 17)",
            json.encode, 1, { indent = 17 } },
        { "json.encode: opts.indent must be an integer from 0 to 16 (got \"2\")",
            json.encode, 1, { indent = "2" } },
        { "json.encode: opts.indent must be an integer from 0 to 16 (got 1.5)",
            json.encode, 1, { indent = 1.5 } },
        { 'json.encode: unknown option "indnt" (did you mean "indent"?)',
            json.encode, 1, { indnt = 2 } },
        { 'json.decode: unknown option "maxdepth" (did you mean "max_depth"?)',
            json.decode, "1", { maxdepth = 2 } },
        { 'json.decode: unknown option 1',
            json.decode, "1", { 2 } },
        { "json.decode: opts.max_depth must be an integer from 1 to 10000 (got 0)",
            json.decode, "1", { max_depth = 0 } },
        { "json.decode: opts.max_bytes must be an integer >= 1 (got 0)",
            json.decode, "1", { max_bytes = 0 } },
        { "json.decode: text must be a string (got nil)", json.decode, nil, n = 3 },
        { "json.decode: text must be a string (got 12)", json.decode, 12 },
        { "json.get: text must be a string (got table)", json.get, {} },
        { "json.get: step 2 of the path must be a string or an integer (got nil)",
            json.get, "{}", "a", nil, n = 5 },
        { "json.get: step 1 of the path must be a string or an integer (got number)",
            json.get, "{}", 1.5 },
        { "json.array: expected a table (got number)", json.array, 1 },
        { "json.object: the table already has a metatable", json.object, setmetatable({}, {}) },
    } do
        it("says: " .. case[1], function()
            local ok, message = pcall(case[2], table.unpack(case, 3, case.n or #case))
            assert.is_false(ok)
            assert.equal(case[1], (message:gsub("^spec/base/json_spec.lua:%d+: ", "")))
        end)
    end

    it("marks a table in place, and can change the mark", function()
        local t = {}
        assert.equal(t, json.array(t))
        assert.equal("[]", json.encode(t))
        assert.equal("{}", json.encode(json.object(t)))
    end)
end)
