-- ponder.base.base64.

local base64 = require "ponder.base.base64"

describe("ponder.base.base64", function()
    it("encodes the test vectors of RFC 4648", function()
        for bytes, text in pairs { [""] = "", f = "Zg==", fo = "Zm8=", foo = "Zm9v",
            foob = "Zm9vYg==", fooba = "Zm9vYmE=", foobar = "Zm9vYmFy" } do
            assert.equal(text, base64.encode(bytes))
            assert.equal(bytes, base64.decode(text))
            assert.equal(bytes, base64.decode((text:gsub("=", ""))))
        end
    end)

    it("decodes what it encoded, for all bytes", function()
        local list = {}
        for i = 0, 255 do
            list[i + 1] = string.char(i)
        end
        local bytes = table.concat(list)
        for first = 1, 4 do
            assert.equal(bytes:sub(first), base64.decode(base64.encode(bytes:sub(first))))
        end
        assert.equal("+/+/", base64.encode "\xFB\xFF\xBF")
    end)

    it("refuses text that is not base64", function()
        assert.is_nil(base64.decode "Zm9v!")
        assert.is_nil(base64.decode "Zm 9v")
        assert.is_nil(base64.decode "Zg=x")
    end)
end)
