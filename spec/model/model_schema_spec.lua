-- ponder.model.schema: JSON in the text of a reply, checks against schemas.

local json = require "ponder.json"
local schema = require "ponder.model.schema"

describe("schema.parse", function()
    it("reads JSON in a fence", function()
        for _, text in ipairs { '{"a":1}', '```\n{"a":1}\n```', '```json\n{"a":1}\n```',
            'Here:\n\n```json  \r\n\n{"a":1}\n\n  ```\nDone.', '```json\n{"a":\n1}\n\t```' } do
            assert.same({ a = 1 }, (schema.parse(text, {})), text)
        end
        for _, text in ipairs { "```\n", "```\n```", "``` x\n{}\n```", '{"a":1}\n```' } do
            assert.is_nil((schema.parse(text, {})), text)
        end
    end)

    it("scans a text only once, whatever it holds", function()
        -- With a backtracking pattern this would take days.
        for _, piece in ipairs { "\n", " ", "\n ", "```", "```\n", "`", "```json" } do
            assert.is_nil((schema.parse("```\n" .. piece:rep(300000) .. "x", {})), piece)
        end
    end)
end)

describe("schema.check", function()
    it("finds the first mismatch", function()
        local rows = {
            { 1, { type = "integer" } }, { 1.5, { type = "integer" }, "reply must be integer" },
            { 2.0, { type = "integer" } }, { 1.5, { type = "number" } },
            { "x", { type = { "string", "null" } } },
            { json.null, { type = { "string", "null" } } },
            { true, { type = "string" }, "reply must be string (got boolean)" },
            { {}, { type = "object" } }, { json.array(), { type = "object" }, "got array" },
            { json.array(), { type = "array" } }, { { a = 1 }, { type = "array" }, "got object" },
            { { a = 1 }, { required = { "a", "b" } }, "reply.b is missing" },
            { { a = { "x", 5 } }, { properties = { a = { items = { type = "string" } } } },
                "reply.a[1] must be string (got integer)" },
            { { a = 1 }, { additionalProperties = false, properties = { b = {} } },
                "reply.a is not in the schema" },
            { "red", { enum = { "red", "green" } } },
            { "blue", { enum = { "red", "green" } }, "not one of the values" },
            { { a = { 1, 2 } }, { enum = { { a = { 1 } }, { a = { 1, 2 } } } } },
            { { a = { 1, 2 } }, { const = { a = { 1, 2 }, b = 1 } }, "not the constant" },
            { { a = 1 }, { const = { a = 1 } } }, { { a = 1 }, { const = { a = 2 } }, "constant" },
            { json.array(), { const = json.object() }, "not the constant" },
            { 5, { const = 5 } }, { 5, { const = 6 }, "not the constant" },
            { 5, { anyOf = { { type = "string" }, { type = "integer" } } } },
            { true, { anyOf = { { type = "string" }, { type = "integer" } } }, "must be string" },
            { { next = { next = { v = 1 } } }, { ["$ref"] = "#/$defs/node", ["$defs"] = { node = {
                properties = { next = { ["$ref"] = "#/$defs/node" },
                    v = { type = "string" } } } } },
                "reply.next.next.v must be string" },
            { 5, { ["$ref"] = "#/nowhere" },
                'reply: unknown $ref "#/nowhere"' },
            { 5, { ["$ref"] = "https://example.com/s" }, "unknown $ref" },
            { 5, { ["$ref"] = "#name", name = {} }, "unknown $ref" },
            { 5, { ["$ref"] = "#/$defs/a~1b~0c%25",
                ["$defs"] = { ["a/b~c%"] = { type = "string" } } }, "must be string" },
            { 5, { ["$ref"] = "#/anyOf/1", anyOf = { {}, { type = "string" } } },
                "must be string" },
            { 5, { oneOf = { { type = "string" }, { type = "integer" } } } },
            { 5, { oneOf = { { type = "number" }, { type = "integer" } } },
                "reply fits 2 of the schemas of oneOf, not one" },
            { { a = 1 }, { additionalProperties = { type = "integer" } } },
            { { a = 1, b = "x" }, { properties = { b = {} },
                additionalProperties = { type = "integer" } } },
            { { a = 1, b = "x" }, { additionalProperties = { type = "integer" } },
                "reply.b must be integer (got string)" },
            { { a = 1 }, { properties = { a = false } }, "reply.a is not in the schema" },
            { 5, { type = "unheard of" } }, { 5, {} },
            { 5, { allOf = { { type = "integer" }, { enum = { 6 } } } }, "not one of the values" },
        }
        for _, row in ipairs(rows) do
            local ok, message = schema.check(row[1], row[2])
            if row[3] then
                assert.is_nil(ok)
                assert.truthy(message:find(row[3], 1, true), message)
            else
                assert.is_true(ok, message)
            end
        end
    end)

    it("takes a limited number of steps, and says so", function()
        local function refs(to, count)
            local list = {}
            for i = 1, count do
                list[i] = { ["$ref"] = "#/$defs/" .. to }
            end
            return list
        end
        local doubled, deep, long = { d60 = {} }, { a = 1 }, ("x"):rep(1000000)
        for i = 0, 59 do
            doubled["d" .. i] = { [i % 2 == 0 and "allOf" or "anyOf"] = refs("d" .. i + 1, 2) }
            deep = { a = deep }
        end
        doubled.d59.anyOf = { { type = "null" }, { type = "null" } }
        local step = { properties = { a = { ["$ref"] = "#/$defs/step" } } }
        local many, names, objects = {}, {}, {}
        for i = 1, 100000 do
            many[i], names[i], objects[i] = i, "a", { a = 1 }
        end
        for what, case in pairs {
            ["doubled alternatives"] = { 1, { ["$ref"] = "#/$defs/d0", ["$defs"] = doubled } },
            ["doubled properties"] = { deep, { ["$ref"] = "#/$defs/step", ["$defs"] = { step = {
                oneOf = { step, step } } } } },
            ["long enums"] = { many, { items = { enum = many } } },
            ["long types"] = { many, { items = { type = json.array { "null", "null", "null",
                "null", "null", "null", "null", "null", "integer" } } } },
            ["required names"] = { objects, { items = { required = names } } },
            ["equal long strings"] = { long .. "y", { anyOf = refs("c", 1000),
                ["$defs"] = { c = { const = long .. "z" } } } },
            ["long names"] = { { [long] = 1 }, { anyOf = refs("p", 1000), ["$defs"] = { p = {
                properties = { [long] = { type = "string" } } } } } },
            ["itself"] = { 5, { allOf = { { ["$ref"] = "#" }, { ["$ref"] = "#" } } } },
        } do
            local ok, message = schema.check(case[1], case[2])
            assert.is_nil(ok, what)
            assert.matches("^reply: the check takes more than %d+ steps", message, what)
        end
        assert.is_true(schema.check(json.array(many), { items = { type = "integer" } }))
    end)
end)

describe("schema.mistake", function()
    it("is a reference that leads nowhere, or back without a step into the value", function()
        local endless = "a $ref leads back to itself, or through more than 1000 others, "
            .. "without a property or item in between"
        local chain = { d2000 = {} }
        for i = 0, 1999 do
            chain["d" .. i] = { ["$ref"] = "#/$defs/d" .. i + 1 }
        end
        for text, mistake in pairs {
            ['{"$ref":"#"}'] = endless,
            ['{"allOf":[{"$ref":"#"},{"$ref":"#"}]}'] = endless,
            ['{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"oneOf":[{"type":"null"},'
                .. '{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}']
                = "$defs.a: " .. endless,
            [json.encode { ["$ref"] = "#/$defs/d0", ["$defs"] = chain }] = endless,
            ['{"properties":{"a":{"$ref":"#/x"}}}'] = 'properties.a: unknown $ref "#/x"',
            ['{"type":{"a":1}}'] = 'type must be "object", "array", "string", "number", "integer", '
                .. '"boolean" or "null" (got a table)',
            ['{"type":["string","null"],"required":[],"enum":[1]}'] = false,
            ['{"properties":[]}'] = "properties must be of type object",
            ['{"items":[{"type":"string"}]}'] = false,
            ['{"anyOf":[{"required":"a"}]}'] = "anyOf.1: required must be of type array",
            ['{"required":[1]}'] = "required must be a list of names",
            ['{"properties":{"a":"string","b":"string"}}']
                = 'properties.a: a schema must be an object or a boolean (got "string")',
            ['{"properties":{"a":{"$ref":"#"}},"items":{"$ref":"#"}}'] = false,
            ['{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":'
                .. '{"b":{"$ref":"#/$defs/a"}}}}}'] = false,
        } do
            local found = schema.mistake(json.decode(text))
            assert.equal(mistake, found or false, text)
        end
    end)

    it("is found in linear time, however long the names on the way are", function()
        -- With a text for each place this would take minutes.
        local many, long = {}, ("x"):rep(1000000)
        for i = 1, 20000 do
            many["a" .. i] = { type = "string" }
        end
        local wide = { properties = { [long] = { properties = many } } }
        assert.is_nil(schema.mistake(wide))
        many.a2.type = "text"
        assert.matches("^properties%.x+%.properties%.a2: type must be [^\n]+$",
            schema.mistake(wide))
        assert.is_true(#schema.mistake(wide) < 1000)
    end)
end)

describe("schema.is_strict", function()
    it("is true only where OpenAI's strict mode applies", function()
        local closed = { type = "object", additionalProperties = false, required = { "a" },
            properties = { a = { type = "array", items = { type = "string" } } } }
        assert.is_true(schema.is_strict(closed))
        assert.is_false(schema.is_strict { type = "array" })
        assert.is_false(schema.is_strict { type = "object", properties = { a = {} } })
        assert.is_false(schema.is_strict { type = "object", additionalProperties = false,
            properties = { a = {} } })
        assert.is_false(schema.is_strict { type = "object", additionalProperties = false,
            required = { "a" }, properties = { a = { type = "object" } } })
        assert.is_false(schema.is_strict { anyOf = { true, false }, properties = { a = true } })
    end)
end)

describe("schema.closed", function()
    it("moves what Anthropic does not enforce to the description", function()
        assert.same({ description = "a name (minLength: 2)", type = "string" },
            schema.closed { type = "string", minLength = 2, description = "a name" })
        assert.same({ type = "object", additionalProperties = false },
            schema.closed { type = "object" })
        assert.same({ description = "(maxLength: 3)" },
            schema.closed { maxLength = 3, description = { "not a text" } })
    end)
end)
