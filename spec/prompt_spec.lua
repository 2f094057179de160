local prompt
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
    local said

    before_each(function() -- directories that were added stay
        package.loaded["ponder.prompt"], package.loaded["ponder.notice"] = nil, nil
        prompt = require "ponder.prompt"
        said = {}
        require("ponder.notice").listen(function(line) table.insert(said, line) end)
    end)

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

    it("says that a directory which was named has no such file", function()
        with_folder({ ["tott.lua"] = "return {}", ["a.lua"] = "return {}", ["b.txt"] = "" },
            function(folder)
                with_folder({}, function(empty)
                    prompt.add(folder)
                    prompt.add(empty)
                    assert(prompt.load "tot")
                    assert(prompt.load "tot")
                    assert.same({ empty .. " has no tot.lua (nor another Lua file)",
                        folder .. " has no tot.lua (it has a.lua, tott.lua)" }, said)
                end)
            end)
    end)

    it("prefers a file in an added folder, and reads it anew", function()
        with_folder({ ["tot.lua"] = 'return { generate = function() return {} end, mark = 1 }' },
            function(folder)
                prompt.add(folder)
                assert.equal(folder, prompt.directories()[1])
                assert.equal(folder .. "/tot.lua", prompt.find("tot").path)
                assert.equal(1, prompt.load("tot").mark)
                local file = assert(io.open(folder .. "/tot.lua", "wb"))
                file:write("return { mark = 2 }")
                file:close()
                assert.equal(2, prompt.load("tot").mark)
                assert.same({ folder .. "/tot.lua takes the place of the built-in prompts" }, said)
                os.remove(folder .. "/tot.lua")
                assert.is_nil(assert(prompt.load("tot")).mark)
            end)
    end)

    it("says that a directory that was added is not there", function()
        prompt.add "/nowhere"
        local prompts, message, code = prompt.load("tot")
        assert.is_nil(prompts)
        assert.equal("/nowhere: No such file or directory", message)
        assert.equal("BAD_PROMPT", code)
    end)

    it("uses no file that others may write", function()
        with_folder({ ["tot.lua"] = "return {}" }, function(folder)
            prompt.add(folder)
            for _, path in ipairs { folder .. "/tot.lua", folder } do
                os.execute("chmod g+w " .. path)
                local _, message, code = prompt.load("tot")
                assert.equal(path .. ": others may write it: chmod go-w " .. path, message)
                assert.equal("BAD_PROMPT", code)
                os.execute("chmod go-w " .. path)
                assert.is_truthy(prompt.load("tot"))
            end
        end)
    end)

    it("gives what a file returned without its metatable", function()
        with_folder({ ["tot.lua"] = "return setmetatable({ a = 1, [2] = 3 }, "
            .. "{ __index = function() error 'asked' end })" }, function(folder)
            prompt.add(folder)
            assert.same({ a = 1 }, prompt.load("tot"))
            assert.is_nil(prompt.load("tot").b)
        end)
    end)

    it("gives contexts whose methods a file cannot change", function()
        with_folder({ ["tot.lua"] = [[
            return { generate = function(context)
                local reached = context.__index or getmetatable(context)
                context.quote = nil
                return { { role = "user", content = tostring(reached) .. context:quote("a", "b") } }
            end }]] }, function(folder)
            prompt.add(folder)
            local machine = tot.new { prompts = prompt.load("tot") }
            local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.equal("nil<a>\nb\n</a>", directives[1].context[1].content)
        end)
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
