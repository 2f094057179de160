local prompt = require "ponder.prompt"
local tot = require "ponder.tot"

--- A folder that is removed after the test, with the files given by name.
local function with_folder(files, f)
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir %q"):format(folder)))
    for name, text in pairs(files) do
        local file = assert(io.open(folder .. "/" .. name, "wb"))
        file:write(text)
        file:close()
    end
    local ok, problem = pcall(f, folder)
    for name in pairs(files) do
        os.remove(folder .. "/" .. name)
    end
    os.remove(folder)
    assert(ok, problem)
end

describe("ponder.prompt", function()
    it("loads the built-in prompts of every machine", function()
        for _, name in ipairs { "tot", "got", "trm" } do
            local prompts = assert(prompt.load(name))
            local count = 0
            for _, f in pairs(prompts) do
                count = count + (type(f) == "function" and 1 or 0)
            end
            assert.is_true(count >= 3, name)
        end
    end)

    it("says that there is none", function()
        for _, name in ipairs { "nosuch", "../tot", "a/b", "tot.lua" } do
            local prompts, message, code = prompt.load(name)
            assert.is_nil(prompts)
            assert.truthy(message:find("no built-in prompts", 1, true), message)
            assert.equal("NO_PROMPT", code)
        end
        assert.has_error(function() prompt.load(5) end)
        assert.has_error(function() prompt.add("") end)
    end)

    it("prefers a file in an added folder, and reads it anew", function()
        with_folder({ ["tot.lua"] = 'return { generate = function() return {} end, mark = 1 }' },
            function(folder)
                prompt.add(folder)
                assert.equal(folder, prompt.folders()[1])
                assert.equal(folder .. "/tot.lua", prompt.find("tot"))
                assert.equal(1, prompt.load("tot").mark)
                local file = assert(io.open(folder .. "/tot.lua", "wb"))
                file:write("return { mark = 2 }")
                file:close()
                assert.equal(2, prompt.load("tot").mark)
            end)
        assert.is_nil(assert(prompt.load("tot")).mark)
    end)

    it("names file and line of what is wrong with one", function()
        for text, pattern in pairs {
            ["return {\n\n]"] = "tot.lua:3:", ["\nerror 'boom'"] = "tot.lua:2: boom",
            ["return 5"] = "must return a table", ["\27Lua"] = "binary chunk",
        } do
            with_folder({ ["tot.lua"] = text }, function(folder)
                prompt.add(folder)
                local prompts, message, code = prompt.load("tot")
                assert.is_nil(prompts)
                assert.truthy(message:find(pattern, 1, true), message)
                assert.equal("BAD_PROMPT", code)
            end)
        end
    end)

    it("gives tables that a machine takes", function()
        local machine = tot.new { prompts = prompt.load("tot") }
        local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
        assert.equal("system", directives[1].context[1].role)
    end)
end)
