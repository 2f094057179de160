local json = require "ponder.json"
local yaml = require "ponder.base.yaml"

describe("yaml.decode", function()
    for text, expected in pairs {
        ["a: 1\nb: [x, 'y', 2.5, true, ~, yes, 0x10, 007, -3, .5, 1e2, 1-2, '']\nc: {}\n"
            .. "d: []\ne: |\n  x\n  y\n"] = '{"a":1,"b":["x","y",2.5,true,null,"yes","0x10",7,'
            .. '-3,0.5,100.0,"1-2",""],"c":{},"d":[],"e":"x\\ny\\n"}',
        ["a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x"] =
            '{"a":{"p":1,"q":2},"b":{"p":1,"q":3},"c":{"p":1,"q":2}}',
        ["- &s text\n- *s\n"] = '["text","text"]',
        ['"a\\0b": "\\u00e9"'] = '{"a\\u0000b":"é"}',
        ["1: !!str 3\n~: b"] = '{"1":"3","~":"b"}',
        [""] = "null",
    } do
        it("reads " .. json.encode(text), function()
            assert.equal(expected, json.encode((yaml.decode(text))))
        end)
    end

    it("says on which lines maps and their keys are", function()
        local value, lines = yaml.decode "a: 1\nb:\n  - c: 2\n    d:\n      3\n"
        assert.same({ [0] = 1, a = 1, b = 2 }, lines[value])
        assert.same({ [0] = 3, c = 3, d = 4 }, lines[value.b[1]])
    end)

    local bomb = { "a: &a [x,x,x,x,x,x,x,x,x]" } -- a few hundred bytes, 9^20 values
    for i = 1, 20 do
        bomb[i + 1] = ("%c: &%c [%s*a]"):format(97 + i, 97 + i, ("*%c,"):format(96 + i):rep(9))
    end
    for text, message in pairs {
        ["a: 1\nb: 3\na: 2"] = "line 3: duplicate key a",
        ["a: &a [*a]"] = "line 1: undefined alias *a (an anchor cannot contain itself)",
        ["a: *b"] = "line 1: undefined alias *b (an anchor cannot contain itself)",
        ["? [1]\n: 2"] = "line 1: a key must be a text",
        ["a: !mine 1"] = "line 1: unknown tag !mine",
        ["a: !mine {}"] = "line 1: unknown tag !mine",
        ["a: 1\n<<: 3\nb: 2"] = "line 2: << needs a map",
        ["a: 1\n---\nb: 2"] = "line 2: a second document begins here",
        ["a:\n - [1"] = "line 3: did not find expected ',' or ']'",
        ["a: \xFF"] = "byte 4: invalid leading UTF-8 octet",
        ["a: \0"] = "byte 4: control characters are not allowed",
        [("["):rep(65)] = "line 1: nested too deeply",
        [table.concat(bomb, "\n")] = "line 6: too many values by aliases",
        [("- 1\n"):rep(200000)] = "line 200000: too many values",
        [("x"):rep((8 << 20) + 1)] = "longer than 8388608 bytes",
    } do
        it("says: " .. message, function()
            assert.same({ nil, message, n = 2 }, table.pack(yaml.decode(text)))
        end)
    end

    it("reads 64 levels, and 199,999 items", function()
        assert.is_truthy(yaml.decode(("["):rep(64) .. ("]"):rep(64)))
        assert.equal(199999, #yaml.decode(("- 1\n"):rep(199999)))
    end)
end)
