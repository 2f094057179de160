-- ponder.model.schema: JSON in the text of a reply.

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
