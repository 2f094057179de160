-- ponder.parse.connections and ponder.parse.vote: what models write for links
-- and votes.

local linear = require "linear"
local got = require "ponder.got"
local json = require "ponder.json"
local read_vote = require "ponder.parse.vote"

--- `from>to:description`, one a link.
local function read(text)
    local links = {}
    for i, link in ipairs(got.parse_connections(text)) do
        links[i] = link.from .. ">" .. link.to .. ":" .. link.description
    end
    return links
end

describe("got.parse_connections", function()
    it("reads the line that the prompt asks for, in every form that models write", function()
        for _, line in ipairs {
            "CONNECTION: [n2] -> [n5] : rests on it",
            "connection: [n2] -> [n5] : rests on it",
            "Connection : [n2]->[n5]: rests on it",
            "- CONNECTION: [n2] -> [n5] : rests on it",
            "* **CONNECTION:** [n2] -> [n5] : rests on it",
            "**Connection**: [n2] -> [n5] - rests on it",
            "1. **CONNECTION: [n2] -> [n5] : rests on it**",
            "  2) CONNECTION 2: [n2] --> [n5] \u{2014} rests on it",
            "\u{2022} CONNECTION: [n2] \u{2192} [n5] : rests on it",
            "> CONNECTION: **[n2]** \u{27A1}\u{FE0F} **[n5]** : rests on it",
            "CONNECTION: n2 -> n5 : rests on it",
            "CONNECTION: `n2` => `n5`: rests on it",
            "CONNECTION: n2->n5: rests on it",
            "CONNECTION: n2 <-> n5 (rests on it)",
            "CONNECTION: [ n2 ] -> [ n5 ] , rests on it",
            "[n2] -> [n5]: rests on it",
            "- [n2] \u{21D2} [n5] : rests on it",
            "### Connection 1: [n2] -> [n5]: rests on it",
            "CONNECTIONS:\r\n\r\n- [n2] -> [n5] : rests on it\r\n",
            'Here you are:\n```json\n{"connections": [{"from": "n2", "to": "n5", '
                .. '"description": "rests on it"}]}\n```',
            '[["n2", "n5", "rests on it"]]',
            '[{"source": "n2", "target": "n5", "reason": "rests on it"}]',
            '{"from": "n2", "to": "n5", "why": "rests on it"}',
            '{"links": [["n2", "n5", "rests on it"]]}',
        } do
            assert.same({ "n2>n5:rests on it" }, read(line), line)
        end
    end)

    it("reads several, with their descriptions, and ids in any script", function()
        assert.same({ "a-1>b_2.3:3*8 -> 24: so [x] (maybe)", "\u{43C}1>\u{6570}:", "t 1>t 2:z" },
            read("Some prose.\n\nCONNECTION: [a-1] -> [b_2.3] : 3*8 -> 24: so [x] (maybe)\n"
                .. "and more\nCONNECTION: \u{43C}1 -> \u{6570}.\n- connection: [t 1] -> [t 2] z"))
    end)

    it("does not invent connections", function()
        for _, text in ipairs {
            "", "NONE", "CONNECTION:", "CONNECTION: none", "CONNECTION: [n2]",
            "CONNECTION: -> [n5]",
            "CONNECTION: [n2] -> ", "CONNECTION: [] -> []", "CONNECTION: [n2] and [n5]",
            "The connection: [n2] -> [n5] is weak.", "I see a connection between n2 -> n5.",
            "n2 -> n5 : without a marker or brackets", "CONNECTION: the first -> the second",
            "f([n2]) -> [n5]", "disconnection: n2 -> n5", "[1, 2, 3]", '{"connections": "none"}',
            '{"a": {"b": 1}}', "CONNECTION [n2] [n5]", "[n2] - [n5]", ("x"):rep(1000),
            "CONNECTION: [" .. ("n"):rep(300) .. "] -> [n5]",
        } do
            assert.same({}, read(text), text)
        end
    end)

    it("reads JSON only if no line has a connection", function()
        assert.same({ "n2>n3:" },
            read('CONNECTION: [n2] -> [n3]\n{"connections": [["n4", "n5"]]}'))
        assert.same({ "1>2:" }, read "[[1, 2]]")
        assert.same({ "n4>n5:" }, read '{"note": 1} then {"connections": [["n4", "n5"], 7, ["x"]]}')
    end)

    it("reads a bounded number of links", function()
        assert.equal(10000, #got.parse_connections(("[a] -> [b]\n"):rep(20000)))
        local list = '["a", "b"]' .. (', ["a", "b"]'):rep(20000)
        assert.equal(10000, #got.parse_connections("[" .. list .. "]"))
    end)

    it("accepts only text", function()
        assert.has_error(function()
            got.parse_connections(5)
        end, "got.parse_connections: text must be a string (got 5)")
    end)

    it("takes time linear in the text", function()
        local n = 300000
        for _, piece in ipairs { "-", " ", "*", "[", "]", "->", "[a] -> ", "CONNECTION: ", "\n",
            "=", "1", "CONNECTION: [a] -> [b] : ", "\u{2192}", "[a]->[b]\n", "(", "vote:", "_ ",
            "\u{2014}", "\u{2014} ", "n1 ", '["a","b"],' } do
            local text = piece:rep(n // #piece)
            linear(function()
                got.parse_connections(text)
                got.parse_connections("CONNECTION: [a] -> [b] : " .. text)
                got.parse_connections("CONNECTION: " .. text)
                read_vote(text, { "n1", "n2" })
            end, piece)
        end
    end)

    it("survives random texts", function()
        math.randomseed(3)
        local pieces = { "CONNECTION:", "[", "]", "n2", "->", "\u{2192}", " : ", "\n", "**", "- ",
            "1. ", "{", "}", '"from"', ":", '"n2"', ",", "\xFF", "\0", "vote:", "(", ")",
            "\u{2014}" }
        for _ = 1, 3000 do
            local text = {}
            for i = 1, math.random(14) do
                text[i] = pieces[math.random(#pieces)]
            end
            text = table.concat(text)
            for _, link in ipairs(got.parse_connections(text)) do
                assert.truthy(#link.from > 0 and #link.to > 0 and #link.from <= 200)
                assert.equal("string", type(link.description))
            end
            local vote = read_vote(text, { "n2", "n3" })
            assert.is_true(vote == nil or vote == "n2" or vote == "n3")
        end
    end)
end)

describe("ponder.parse.vote", function()
    it("reads the last marked line, JSON, or the only candidate that is named", function()
        for text, expected in pairs {
            ["VOTE: n3"] = "n3",
            ["I prefer n2, but n3 is right.\n\nVOTE: [n3]"] = "n3",
            ["**Vote:** n2\nOn reflection:\n- **VOTE: [n3]**"] = "n3",
            ["vote: n33"] = "none",
            ["vote: xn3"] = "none",
            ["VOTE: n2 or n3"] = "none",
            ["VOTE: n2\nVOTE: neither"] = "n2",
            ['{"vote": "n3"}'] = "n3",
            ['n2 is weak: {"node_id": "n3"}'] = "n3",
            ["Clearly n3."] = "n3",
            ["n3, because n3 is complete"] = "n3",
            ["n2 and n3"] = "none",
            ["my vote: nobody"] = "none",
            [""] = "none",
            [json.encode { choice = 3 }] = "none",
        } do
            assert.equal(expected, read_vote(text, { "n2", "n3" }) or "none", text)
        end
    end)
end)
